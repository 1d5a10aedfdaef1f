//! Remedies, operator commands, and the codes of refusals.

use crate::branch::{BranchId, Why};
use crate::command::{Command, Owned};
use crate::decide::{Decision, Refusal, Stamped, TaskMove, TooLong, View, child_id, decide};
use crate::error::Failure;
use crate::event::{BranchOpened, Event, Release};
use crate::id::RunId;
use crate::recovery::{Code, Remedy};
use crate::summary::Status;
use crate::testing::*;
use crate::time::{Millis, Seq};

fn healed(log: &Log, remedy: Remedy) -> (Vec<&'static str>, TaskMove) {
    let Decision { events, task, .. } = log.ask(&log.heal(Code::W1, "seen", remedy)).unwrap();
    (events.iter().map(|stamped| stamped.event.name()).collect(), task)
}

#[test]
fn each_remedy_is_one_append_and_one_change_of_the_task() {
    let log = Log::running().completed("a").released(Release::HandOver);
    let child = RunId::new("c1").unwrap();
    let path = path("a");
    let failure = Failure::terminal("x");
    let table = [
        (Remedy::Branch { cutoff: Seq(4) }, vec!["branch.opened", "run.recovered"], TaskMove::Ready),
        (
            Remedy::Retry { path, attempt: 2 },
            vec!["run.recovered", "step.retry_scheduled"],
            TaskMove::Renew(log.now),
        ),
        (Remedy::Requeue { run_at: Millis(7) }, vec!["run.recovered"], TaskMove::Renew(Millis(7))),
        (Remedy::Wake, vec!["run.recovered"], TaskMove::Wake),
        (Remedy::ChangeVersion { to: 2 }, vec!["version.changed", "run.recovered"], TaskMove::Renew(log.now)),
        (
            Remedy::Deliver { child, result: Ok(json("1")) },
            vec!["child.completed", "run.recovered"],
            TaskMove::Wake,
        ),
        (Remedy::Fail { failure }, vec!["run.recovered", "run.failed"], TaskMove::Remove),
        (
            Remedy::Park { reason: "x".into() },
            vec!["run.recovered", "run.parked"],
            TaskMove::Rest(Millis::NEVER),
        ),
    ];
    for (remedy, names, task) in table {
        assert_eq!(healed(&log, remedy.clone()), (names, task), "{remedy:?}");
    }
    for remedy in [Remedy::Reclaim, Remedy::Tell { hint: "x".into() }] {
        let refusal = log.ask(&log.heal(Code::O2, "seen", remedy)).unwrap_err();
        assert!(matches!(refusal, Refusal::NothingToDo { .. }), "{refusal}");
    }
}

#[test]
fn every_remedy_records_an_attempt_from_1() {
    let remedies = [
        Remedy::Branch { cutoff: Seq(3) },
        Remedy::Retry { path: path("a"), attempt: 2 },
        Remedy::Requeue { run_at: Millis(7) },
        Remedy::Wake,
        Remedy::ChangeVersion { to: 2 },
        Remedy::Deliver { child: RunId::new("c1").unwrap(), result: Ok(json("1")) },
        Remedy::Fail { failure: Failure::terminal("x") },
        Remedy::Park { reason: "x".into() },
    ];
    let fresh = Log::running().released(Release::HandOver);
    let taken = Log::running().act(take_over("n-2", "n-1", true)).act(take_over("n-3", "n-2", true));
    let taken = taken.released(Release::HandOver);
    for remedy in remedies {
        for (log, attempt) in [(&fresh, 1), (&taken, 2)] {
            let decision = log.ask(&log.heal(Code::W1, "seen", remedy.clone())).unwrap();
            let recorded = decision.events.iter().find_map(|stamped| match &stamped.event {
                Event::RunRecovered(said) => Some(said.attempt),
                _ => None,
            });
            assert_eq!(recorded, Some(attempt), "{remedy:?}");
        }
    }
}

#[test]
fn an_ended_run_is_not_healed_and_an_end_is_delivered_once() {
    let over = Log::running().finishes();
    let finished = Err(Refusal::Finished { status: Status::Completed });
    assert_eq!(over.ask(&over.heal(Code::W1, "seen", Remedy::Wake)), finished);
    let log = Log::running().starts_child("pick", "c1").child_ended("c1", Ok(json("1")));
    let deliver = Remedy::Deliver { child: RunId::new("c1").unwrap(), result: Ok(json("1")) };
    let again = log.ask(&log.heal(Code::W1, "seen", deliver));
    assert!(matches!(again, Err(Refusal::NothingToDo { .. })), "{again:?}");
}

#[test]
fn a_heal_records_how_long_the_log_was_idle() {
    let mut log = Log::running().released(Release::HandOver);
    log.now = Millis(log.state().summary.last_event_at.0 + 777);
    let wake = log.heal(Code::W1, "its timer is due", Remedy::Wake);
    let log = log.act(wake);
    let Event::RunRecovered(said) = &log.records.last().unwrap().event else { panic!("no recovery") };
    assert_eq!((said.rule.as_str(), said.evidence.as_str(), said.stale_ms), ("W1", "its timer is due", 777));
    assert_eq!((said.previous_branch, said.new_branch, said.cutoff), (None, None, None));
}

#[test]
fn paused_and_parked_runs_are_not_requeued() {
    let paused = Log::running().act(Command::Pause(note("p1"))).released(Release::Paused);
    let parked = Log::running().owned(vec![Owned::Park { code: "V1", reason: "x".into() }]);
    for (log, word) in [(&paused, "paused"), (&parked, "parked")] {
        let refusal = log.ask(&Command::Requeue(note("x1"))).unwrap_err();
        assert!(refusal.to_string().contains(word), "{refusal}");
        assert!(log.ask(&Command::Reset(note("x1"))).is_ok(), "a reset is accepted");
    }
    let over = Log::running().finishes();
    let finished = Err(Refusal::Finished { status: Status::Completed });
    for command in [Command::Requeue(note("x")), Command::Reset(note("x")), Command::UndoSeam(note("x"))] {
        assert_eq!(over.ask(&command), finished, "{command:?}");
    }
}

#[test]
fn only_a_seam_of_a_recovery_is_undone() {
    let jumped = Log::running().completed("a").act(Command::Jump(jump_to("j1", "a")));
    for log in [Log::running(), jumped] {
        let refusal = log.ask(&Command::UndoSeam(note("u1"))).unwrap_err();
        assert!(matches!(refusal, Refusal::NothingToDo { .. }), "{refusal}");
    }
}

#[test]
fn undoing_a_seam_goes_back_to_the_branch_before_it() {
    let log = Log::running().completed("a").completed("b").act(Command::Jump(jump_to("j1", "b")));
    let log = log.claimed("n-1").completed("b").started("c", 1).released(Release::HandOver);
    let cut = log.heal(Code::A1, "seen", Remedy::Branch { cutoff: Seq(3) });
    let log = log.act(cut);
    let before = log.end();
    let log = log.act(Command::UndoSeam(note("u1")));
    let active = log.state().branches.active();
    assert_eq!((active.id, active.parent), (BranchId(4), Some(BranchId(2))));
    assert_eq!(
        (active.cutoff, active.why.clone()),
        (Seq(before.0 - 2), Some(Why::Undo { seam: BranchId(3) }))
    );
    assert!(log.state().ops.contains_key(&path("c")), "the discarded events are visible again");
}

#[test]
fn a_reset_without_progress_stays_on_its_branch() {
    let jumped = Log::running().completed("a").act(Command::Jump(jump_to("j1", "a")));
    let log = jumped.act(Command::Reset(note("x1")));
    assert_eq!(log.state().branches.active().parent, Some(BranchId(2)));
}

#[test]
fn a_branch_that_is_its_own_parent_ends_the_search() {
    let mut log = Log::running().completed("a");
    let branch = BranchId(2);
    let parent = Some(BranchId(2));
    let why = Why::Reset;
    let input = None;
    let dropped_mail = vec![];
    let carried = None;
    let opened = BranchOpened { branch, parent, cutoff: Seq(4), why, input, dropped_mail, carried };
    log.write(None, vec![Stamped { at: log.now, event: Event::BranchOpened(opened) }]);
    let cut = log.heal(Code::A1, "seen", Remedy::Branch { cutoff: Seq(3) });
    assert_eq!(log.act(cut).state().branches.active().parent, Some(BranchId(2)));
}

#[test]
fn child_ids_fit_however_long_the_parent_id_is() {
    let named = |run: &str| child_id(Log::new(run).queued().state(), &path("pick")).to_string();
    let short = named("r1");
    assert_eq!((&short[..3], short.len()), ("r1.", 3 + 16));
    let long = "x".repeat(128);
    assert_eq!((&named(&long)[..112], named(&long).len()), (&*("x".repeat(111) + "."), 128));
    let dotted = "x".repeat(110) + "." + &"x".repeat(17);
    assert_eq!(&named(&dotted)[..111], "x".repeat(110) + ".", "no two dots in a row");
}

#[test]
fn a_refusal_has_the_code_of_its_page() {
    let step = path("a");
    let run = RunId::new("r1").unwrap();
    let why = "x";
    let status = Status::Failed;
    let reason = String::new();
    let question = path("q");
    let table = [
        (Refusal::NeedsHistory, "GS0114"),
        (Refusal::Fenced, "GS0114"),
        (Refusal::LeftToUndo, "GS0114"),
        (Refusal::BeingUndone, "GS0122"),
        (
            Refusal::InvalidSignal { name: crate::SignalName::new("go").unwrap(), reason: "x".into() },
            "GS0123",
        ),
        (Refusal::Owned { owner: node("n-1") }, "GS0114"),
        (Refusal::NotClaimable { status }, "GS0114"),
        (Refusal::NoSuchRun, "GS0104"),
        (Refusal::Finished { status }, "GS0105"),
        (Refusal::NoSuchStep { step: step.clone() }, "GS0106"),
        (Refusal::NoSuchQuestion { question, open: vec![] }, "GS0107"),
        (Refusal::InvalidAnswer { reason: reason.clone() }, "GS0107"),
        (Refusal::OtherInput { run, what: "x" }, "GS0108"),
        (Refusal::TooMuchMail { unread: 1 }, "GS0109"),
        (Refusal::NothingToDo { why }, "GS0110"),
        (Refusal::HistoryTooLong(TooLong { what: "events", has: 2, max: 1 }), "GS0112"),
        (Refusal::InvalidForm { reason: reason.clone() }, "GS0115"),
        (Refusal::LateResult { step, attempt: 1, why }, "GS0119"),
        (Refusal::Archived { archive: reason }, "GS0131"),
        (Refusal::NotPrunable { why }, "GS0132"),
    ];
    for (refusal, code) in table {
        assert_eq!(refusal.code(), code, "{refusal}");
    }
}

#[test]
fn a_row_is_not_enough_to_heal() {
    let log = Log::running();
    let row = View::Row(&log.state().summary);
    let commands =
        [log.heal(Code::W1, "seen", Remedy::Wake), Command::Requeue(note("x")), Command::Reset(note("x"))];
    for command in commands {
        assert_eq!(decide(row, &command, log.now, &log.limits), Err(Refusal::NeedsHistory));
        assert_eq!(decide(View::Absent, &command, log.now, &log.limits), Err(Refusal::NoSuchRun));
    }
}
