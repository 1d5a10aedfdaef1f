//! Start, claim and mail.

use crate::command::{Claim, Command, Owned};
use crate::decide::{Decision, Refusal, TaskMove, View, decide};
use crate::event::{Cause, Event, Release, RunQueued};
use crate::form::Form;
use crate::id::{RunId, StepName, WorkflowName};
use crate::summary::Status;
use crate::testing::*;
use crate::time::{Millis, Seq};
use crate::version::UNDECIDED;

#[test]
fn a_start_repeated_with_the_same_input_is_the_same_run() {
    let mut log = Log::new("r1");
    let start = Command::Start { queued: order(r#"{"n": 1}"#), claim: Some(node("n-1").into()) };
    assert_eq!(log.try_act(&start).unwrap().task, TaskMove::Held);
    assert_eq!(log.names(), ["run.queued", "run.claimed", "run.started"]);
    assert_eq!(log.try_act(&start), Ok(Decision::default()));
    let same = Command::Start { queued: order(r#"{ "n":1 }"#), claim: None };
    assert_eq!(
        log.finishes().ask(&same),
        Ok(Decision::default()),
        "also after its end, with other whitespace"
    );
}

#[test]
fn a_start_with_other_input_or_workflow_is_refused() {
    let log = Log::new("r1").queued();
    let workflow = WorkflowName::new("refund").unwrap();
    for queued in [order("[]"), RunQueued { workflow, ..order("{}") }] {
        let refusal = log.ask(&Command::Start { queued, claim: None }).unwrap_err();
        assert!(matches!(refusal, Refusal::OtherInput { .. }), "{refusal}");
    }
}

#[test]
fn the_first_claim_decides_the_version_and_names_the_plan() {
    let plan = || vec![StepName::new("a").unwrap(), StepName::new("b").unwrap()];
    let newest = |version| Claim { version: Some(version), plan: plan(), ..Claim::by(node("n-1")) };
    let log = Log::new("r1").act(undecided());
    assert_eq!((log.state().summary.version, log.state().summary.needs().as_str()), (UNDECIDED, "checkout"));
    let log = log.act(Command::Claim(newest(2))).released(Release::HandOver);
    let decided = log.state();
    assert_eq!((decided.summary.version, decided.summary.initial_version, decided.queued.version), (2, 2, 2));
    assert_eq!(decided.queued.plan, plan());
    let log = log.act(Command::Claim(newest(3)));
    assert_eq!(log.state().summary.version, 2, "it is decided once");
    let claims = log.records.iter().filter_map(|recorded| match &recorded.event {
        Event::RunClaimed(claim) => Some((claim.version, claim.plan.len())),
        _ => None,
    });
    assert_eq!(claims.collect::<Vec<_>>(), [(Some(2), 2), (None, 0)]);
    let explicit = Log::new("r2").queued().act(Command::Claim(newest(2)));
    assert_eq!((explicit.state().summary.version, explicit.state().queued.plan.len()), (1, 2));
}

fn causes(log: &Log) -> Vec<(Cause, u32)> {
    let claims = log.records.iter().filter_map(|recorded| match &recorded.event {
        Event::RunClaimed(claim) => Some((claim.cause, claim.attempt)),
        _ => None,
    });
    claims.collect()
}

#[test]
fn the_first_claim_starts_and_the_next_wakes() {
    let log = Log::new("r1").queued().claimed("n-1").released(Release::HandOver).claimed("n-2");
    assert_eq!(causes(&log), [(Cause::Start, 0), (Cause::Wake, 0)]);
    assert_eq!(log.names().iter().filter(|name| **name == "run.started").count(), 1);
    assert_eq!(log.state().summary.epoch, log.end());
}

#[test]
fn an_owned_run_is_not_taken_without_a_reason() {
    let log = Log::running();
    let owned = Err(Refusal::Owned { owner: node("n-1") });
    assert_eq!(log.ask(&claim("n-2")), owned);
    assert_eq!(log.ask(&take_over("n-2", "n-7", true)), owned, "another node was lost");
}

#[test]
fn only_proven_losses_count_attempts_until_progress() {
    let log = Log::running().act(take_over("n-2", "n-1", false));
    assert_eq!(causes(&log)[1..], [(Cause::Recovery, 0)]);
    let log = log.act(take_over("n-3", "n-2", true)).act(take_over("n-4", "n-3", true));
    assert_eq!(causes(&log)[2..], [(Cause::Recovery, 1), (Cause::Recovery, 2)]);
    assert_eq!((log.state().summary.attempt, log.state().summary.recoveries), (2, 3));
    let log = log.released(Release::HandOver).claimed("n-5");
    assert_eq!(log.state().summary.attempt, 2, "a claim alone is not progress");
    let log = log.completed("reserve");
    assert_eq!(log.state().summary.attempt, 0);
    assert_eq!(causes(&log.act(take_over("n-6", "n-5", true))).last(), Some(&(Cause::Recovery, 1)));
}

#[test]
fn takeovers_record_attempts_from_1_and_claims_count_from_0() {
    let attempts = |log: &Log| -> Vec<u32> {
        let recovered = log.records.iter().filter_map(|recorded| match &recorded.event {
            Event::RunRecovered(said) => Some(said.attempt),
            _ => None,
        });
        recovered.collect()
    };
    let silent = Log::running().act(take_over("n-2", "n-1", false));
    assert_eq!((attempts(&silent), causes(&silent)[1].1), (vec![1], 0), "silence counts no attempt");
    let waiting = Log::running().waits("w", &["go"]).act(take_over("n-2", "n-1", true));
    assert_eq!((attempts(&waiting), causes(&waiting)[1].1), (vec![1], 0), "a waiting run counts none");
    let crashed = silent.act(take_over("n-3", "n-2", true)).act(take_over("n-4", "n-3", true));
    assert_eq!(attempts(&crashed), [1, 1, 2]);
    let silent_again = crashed.act(take_over("n-5", "n-4", false));
    assert_eq!((attempts(&silent_again)[3], causes(&silent_again).last().unwrap().1), (2, 2));
}

#[test]
fn an_owner_that_claims_again_gets_a_new_epoch_and_no_attempt() {
    let log = Log::running();
    let old = log.by_owner(vec![]);
    let log = log.claimed("n-1").act(take_over("n-1", "n-1", true));
    assert_eq!(causes(&log)[1..], [(Cause::Wake, 0), (Cause::Wake, 0)]);
    assert_eq!(log.ask(&old), Err(Refusal::Fenced));
}

#[test]
fn paused_parked_and_ended_runs_cannot_be_claimed() {
    let mut parked = Log::running();
    let park = parked.by_owner(vec![crate::Owned::Park { code: "V1", reason: "differs".into() }]);
    parked.try_act(&park).unwrap();
    let paused = Log::running().act(Command::Pause(note("p1"))).released(Release::Paused);
    for (log, status) in
        [(parked, Status::Parked), (paused, Status::Paused), (Log::running().finishes(), Status::Completed)]
    {
        assert_eq!(log.status(), status);
        assert_eq!(log.ask(&claim("n-2")), Err(Refusal::NotClaimable { status }));
    }
    assert_eq!(Log::new("r1").ask(&claim("n-1")), Err(Refusal::NoSuchRun));
}

#[test]
fn terminal_is_final() {
    let log = Log::running().asks("approve", Form::Any).finishes();
    let finished = Err(Refusal::Finished { status: Status::Completed });
    let child = Command::ChildEnded { child: RunId::new("c1").unwrap(), result: Ok(json("1")) };
    for command in [
        signal("go", "s1"),
        answer("approve", "a1", "1"),
        Command::Cancel(note("c1")),
        Command::Pause(note("p1")),
        Command::Resume(note("r1")),
        child,
    ] {
        assert_eq!(log.ask(&command), finished, "{command:?}");
    }
    assert_eq!(log.ask(&log.by_owner(vec![crate::Owned::Complete(json("2"))])), Err(Refusal::Fenced));
    let log = log.act(Command::Annotate(note("looked at it")));
    assert_eq!(log.status(), Status::Completed);
}

#[test]
fn a_repeated_command_is_answered_with_no_events() {
    let log = Log::running().asks("approve", Form::Any).starts_child("pick", "x");
    for command in [
        signal("go", "x"),
        answer("approve", "x", "1"),
        Command::Cancel(note("x")),
        Command::Pause(note("x")),
        Command::Annotate(note("x")),
        Command::ChildEnded { child: RunId::new("x").unwrap(), result: Ok(json("1")) },
    ] {
        let log = log.clone().act(command.clone());
        assert_eq!(log.ask(&command), Ok(Decision::default()), "{command:?}");
        let row = View::Row(&log.state().summary);
        assert_eq!(decide(row, &command, log.now, &log.limits), Ok(Decision::default()), "{command:?}");
    }
}

#[test]
fn the_log_recognises_a_repeat_that_the_row_forgot() {
    let mut log = Log::running();
    for n in 0..40 {
        log = log.signalled("go", &format!("s{n}"));
    }
    let row = View::Row(&log.state().summary);
    for (id, by_row) in [("s0", Err(Refusal::NeedsHistory)), ("s39", Ok(Decision::default()))] {
        assert_eq!(decide(row, &signal("go", id), log.now, &log.limits), by_row, "{id}");
        assert_eq!(log.ask(&signal("go", id)), Ok(Decision::default()), "{id}");
    }
    assert_eq!(log.ask(&signal("go", "s40")).unwrap().events.len(), 1);
}

#[test]
fn a_signal_named_like_a_child_does_not_hide_the_childs_end() {
    let log = Log::running().starts_child("pick", "c1").signalled("go", "c1");
    let ended = Command::ChildEnded { child: RunId::new("c1").unwrap(), result: Ok(json("1")) };
    assert_eq!(log.ask(&ended).unwrap().events.len(), 1);
}

#[test]
fn refuses_the_end_of_a_run_that_is_not_a_child() {
    let log = Log::running().starts_child("pick", "c1").waits("w", &["go"]).released(Release::Unload);
    let ended = |run: &str| Command::ChildEnded { child: RunId::new(run).unwrap(), result: Ok(json("1")) };
    let stranger = Err(Refusal::NothingToDo { why: "the run did not start this child" });
    assert_eq!(log.ask(&ended("stranger")), stranger);
    assert_eq!(log.ask(&ended("c1")).unwrap().events.len(), 1);
    let row = View::Row(&log.state().summary);
    for run in ["stranger", "c1"] {
        let by_row = decide(row, &ended(run), log.now, &log.limits);
        assert_eq!(by_row, Err(Refusal::NeedsHistory), "{run}: the row does not know it");
    }
}

#[test]
fn a_row_knows_the_children_that_an_open_wait_looks_for() {
    let log = Log::running().starts_child("pick", "c1");
    let children = vec![RunId::new("c1").unwrap()];
    let wanted = crate::event::WaitStarted { children, ..log.wanted("k", &[]) };
    let log = log.owned(vec![crate::Owned::Wait { wanted, ask: None }]).released(Release::Unload);
    let ended = Command::ChildEnded { child: RunId::new("c1").unwrap(), result: Ok(json("1")) };
    let row = View::Row(&log.state().summary);
    assert_eq!(decide(row, &ended, log.now, &log.limits).unwrap().task, TaskMove::Wake);
}

#[test]
fn an_answer_wakes_its_wait_and_leaves_other_questions_open() {
    let log = Log::running().asks("ship", Form::Any).asks("paint", Form::Any).released(Release::Unload);
    assert_eq!(log.ask(&answer("ship", "a1", "1")).unwrap().task, TaskMove::Wake);
    let log = log.act(answer("ship", "a1", "1"));
    let open: Vec<_> = log.state().summary.inputs.iter().map(|input| input.path.clone()).collect();
    assert_eq!(open, [path("paint")]);
}

#[test]
fn mail_wakes_only_a_run_that_waits_for_it() {
    let log = Log::running().waits("w", &["go"]).released(Release::Unload);
    assert_eq!(log.ask(&signal("go", "s1")).unwrap().task, TaskMove::Wake);
    assert_eq!(log.ask(&signal("stop", "s1")).unwrap().task, TaskMove::Keep);
    assert_eq!(log.ask(&Command::Cancel(note("c"))).unwrap().task, TaskMove::Wake);
    let paused = log.act(Command::Pause(note("p")));
    assert_eq!(paused.ask(&signal("go", "s1")).unwrap().task, TaskMove::Keep);
    assert_eq!(paused.ask(&Command::Resume(note("r"))).unwrap().task, TaskMove::Wake);
}

#[test]
fn a_fresh_id_needs_no_search_of_the_log() {
    let log = (0..100).fold(Log::running(), |log, number| log.signalled("go", &format!("s{number}")));
    let row = View::Row(&log.state().summary);
    let sent = |fresh| {
        let name = crate::SignalName::new("go").unwrap();
        let command = Command::Signal { name, id: "new".into(), fresh, payload: json("1") };
        decide(row, &command, log.now, &log.limits)
    };
    assert_eq!(sent(false), Err(Refusal::NeedsHistory));
    assert_eq!(sent(true).unwrap().events.len(), 1);
}

#[test]
fn a_full_mailbox_takes_no_more_signals() {
    let mut log = Log::running();
    log.limits.mail_unread_max = 2;
    let log = log.signalled("go", "s1").signalled("go", "s2");
    assert_eq!(log.ask(&signal("go", "s3")), Err(Refusal::TooMuchMail { unread: 2 }));
    assert_eq!(log.ask(&signal("go", "s1")), Ok(Decision::default()), "a repeat is accepted");
    assert!(log.waits("w", &["go"]).ask(&signal("go", "s3")).is_ok());
}

#[test]
fn answers_are_checked_by_the_questions_form() {
    let log = Log::running().asks("approve", Form::Choice(vec!["ship".into(), "hold".into()]));
    assert_eq!(log.status(), Status::Waiting);
    let invalid = log.ask(&answer("approve", "a1", "\"burn\"")).unwrap_err();
    assert!(matches!(invalid, Refusal::InvalidAnswer { .. }), "{invalid}");
    let unknown = log.ask(&answer("other", "a1", "\"ship\"")).unwrap_err();
    assert_eq!(unknown, Refusal::NoSuchQuestion { question: path("other"), open: vec![path("approve")] });
    let log = log.act(answer("approve", "a1", "\"ship\"")).checks("approve");
    assert_eq!(log.status(), Status::Running);
    let late = log.ask(&answer("approve", "a2", "\"hold\"")).unwrap_err();
    assert_eq!(late, Refusal::NoSuchQuestion { question: path("approve"), open: vec![] });
}

#[test]
fn an_answer_to_a_question_of_another_time_is_refused() {
    let log = Log::running().asks("approve", Form::Any);
    let at = log.state().summary.inputs[0].since;
    let since = |since| match answer("approve", "a1", "1") {
        Command::Answer { question, id, answer, by, .. } => {
            Command::Answer { question, since, id, answer, by }
        }
        other => other,
    };
    for other in [Millis(at.0 - 1), Millis(at.0 + 1)] {
        assert!(matches!(log.ask(&since(Some(other))), Err(Refusal::NoSuchQuestion { .. })));
    }
    for same in [None, Some(at)] {
        assert!(log.ask(&since(same)).is_ok());
    }
}

#[test]
fn a_question_is_closed_when_its_wait_gives_up() {
    let mut log = Log::running();
    let ask = log.question("approve", Form::Any, Some(Millis(5_000)));
    log = log.owned(vec![ask]);
    log.now = Millis(5_000);
    let log = log.checks("approve");
    assert_eq!(log.names().last(), Some(&"wait.resolved"));
    assert_eq!(log.state().summary.inputs, []);
    assert!(matches!(log.ask(&answer("approve", "a1", "1")), Err(Refusal::NoSuchQuestion { .. })));
}

#[test]
fn pausing_and_cancelling_twice_is_nothing_to_do() {
    let log = Log::running().act(Command::Pause(note("p1")));
    assert!(matches!(log.ask(&Command::Pause(note("p2"))), Err(Refusal::NothingToDo { .. })));
    let cancelled = log.clone().act(Command::Cancel(note("c1")));
    assert!(matches!(cancelled.ask(&Command::Cancel(note("c2"))), Err(Refusal::NothingToDo { .. })));
    assert_ne!(cancelled.state().summary.status, Status::Paused, "a paused run must run once more to end");
    let resumed = log.act(Command::Resume(note("r1")));
    assert!(matches!(resumed.ask(&Command::Resume(note("r2"))), Err(Refusal::NothingToDo { .. })));
}

#[test]
fn commands_to_an_unknown_run_are_refused() {
    let log = Log::new("r1");
    let retry = Command::Retry(note("r"));
    for command in [signal("go", "s1"), Command::Cancel(note("c")), Command::Jump(jump_to("j", "a")), retry] {
        assert_eq!(log.ask(&command), Err(Refusal::NoSuchRun), "{command:?}");
    }
}

#[test]
fn a_row_is_enough_for_claims_and_mail() {
    let log = Log::running().released(Release::HandOver);
    let row = View::Row(&log.state().summary);
    for command in [Command::Claim(Claim::by(node("n-2"))), signal("go", "s1")] {
        assert_eq!(decide(row, &command, log.now, &log.limits), log.ask(&command), "{command:?}");
    }
    let jump = Command::Jump(jump_to("j1", "a"));
    assert_eq!(decide(row, &jump, log.now, &log.limits), Err(Refusal::NeedsHistory));
    assert_eq!(log.state().summary.epoch, Seq(2));
}

#[test]
fn each_kind_of_mail_changes_the_task() {
    let child = |run: &str, result| Command::ChildEnded { child: RunId::new(run).unwrap(), result };
    let wanted = |log: &Log| {
        let children = vec![RunId::new("c1").unwrap(), RunId::new("c2").unwrap()];
        crate::event::WaitStarted { children, ..log.wanted("k", &[]) }
    };
    let log = Log::running().starts_child("a", "c1").starts_child("b", "c2").starts_child("c", "c3");
    let wanted = wanted(&log);
    let owned = log.owned(vec![crate::Owned::Wait { wanted, ask: None }]);
    let resting = owned.clone().released(Release::Unload);
    let failed = || Err(crate::Failure::terminal("x"));
    for (log, command, task) in [
        (&resting, child("c1", Ok(json("1"))), TaskMove::Wake),
        (&resting, child("c2", failed()), TaskMove::Wake),
        (&resting, child("c3", Ok(json("1"))), TaskMove::Keep),
        (&resting, Command::Annotate(note("n")), TaskMove::Keep),
        (&resting, Command::Pause(note("p")), TaskMove::Rest(Millis::NEVER)),
        (&owned, Command::Pause(note("p")), TaskMove::Wake),
        (&resting, Command::Cancel(note("c")), TaskMove::Wake),
    ] {
        assert_eq!(log.ask(&command).unwrap().task, task, "{command:?}");
    }
}

#[test]
fn a_claim_is_the_epoch_of_its_own_append() {
    let start = Command::Start { queued: order("{}"), claim: Some(node("n-1").into()) };
    let log = Log::new("r1").act(start).act(Command::Annotate(note("n"))).completed("a");
    let epochs: Vec<_> = log.records.iter().map(|recorded| recorded.epoch.map(|seq| seq.0)).collect();
    assert_eq!(epochs, [None, Some(2), Some(2), None, Some(2)]);
}

#[test]
fn a_takeover_records_the_lost_owner_and_the_reason() {
    for (proven, reason, lived_ms) in
        [(true, "infrastructure_restart", Some(0)), (false, "stale_detection", None)]
    {
        let log = Log::running().act(take_over("n-2", "n-1", proven));
        let [.., recovered, claimed] = &log.records[..] else { panic!("too short") };
        let Event::RunRecovered(said) = &recovered.event else { panic!("no recovery") };
        assert_eq!((said.rule.as_str(), said.reason.as_str(), said.lived_ms), ("O2", reason, lived_ms));
        assert_eq!((said.stale_ms, said.node.clone()), (10, Some(node("n-2"))));
        assert_eq!(claimed.event.name(), "run.claimed");
    }
}

/// Returns a run that waits for a number.
fn wants_number(log: Log) -> Log {
    let name = crate::SignalName::new("go").unwrap();
    let schema = serde_json::json!({ "type": "integer", "description": "a whole number" });
    let wanted = crate::event::WaitStarted { schemas: [(name, schema)].into(), ..log.wanted("w", &["go"]) };
    log.owned(vec![Owned::Wait { wanted, ask: None }])
}

fn go(id: &str, payload: &str) -> Command {
    let name = crate::SignalName::new("go").unwrap();
    Command::Signal { name, id: id.into(), fresh: false, payload: json(payload) }
}

#[test]
fn a_signal_that_no_open_wait_accepts_is_refused() {
    let log = wants_number(Log::running());
    let refusal = log.ask(&go("s1", "\"hush\"")).unwrap_err();
    assert_eq!(refusal.to_string(), "signal go was refused: expected a whole number, got a text");
    assert_eq!(refusal.code(), "GS0123");
    let row = decide(View::Row(&log.state().summary), &go("s1", "null"), log.now, &log.limits);
    assert_eq!(row.unwrap_err().code(), "GS0123", "the row alone is enough");
    assert_eq!(log.act(go("s1", "7")).checks("w").state().unread.len(), 0);
}

#[test]
fn a_mismatched_early_signal_stays_unread() {
    let log = wants_number(Log::running().act(go("s1", "\"hush\"")));
    assert_eq!((log.status(), log.state().unread.len()), (Status::Waiting, 1));
    let log = log.act(go("s2", "7")).checks("w");
    assert_eq!((log.status(), log.state().unread.len()), (Status::Running, 1));
    let found = &log.state().ops[&path("w")].kind;
    assert!(matches!(found, crate::state::OpKind::Wait(wait) if wait.found.is_some()), "{found:?}");
}

#[test]
fn a_signal_without_a_wait_is_accepted_and_reported() {
    let log = wants_number(Log::running());
    assert!(!log.ask(&go("s1", "7")).unwrap().unawaited);
    assert!(log.ask(&signal("other", "s1")).unwrap().unawaited);
    assert!(Log::running().ask(&go("s1", "null")).unwrap().unawaited);
}

#[test]
fn refuses_an_invalid_schema() {
    let log = Log::running();
    let schemas = [(crate::SignalName::new("go").unwrap(), serde_json::json!({ "type": 7 }))].into();
    let wanted = crate::event::WaitStarted { schemas, ..log.wanted("w", &["go"]) };
    let refusal = log.ask(&log.by_owner(vec![Owned::Wait { wanted, ask: None }])).unwrap_err();
    assert_eq!(refusal.code(), "GS0115");
}
