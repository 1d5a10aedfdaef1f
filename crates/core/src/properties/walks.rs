//! Random commands of several owners and callers. The builder compares every fold with a new derivation; this module
//! checks the whole log.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use crate::command::{Command, Doing, Fence, Owned, StepEnded, Withdraw};
use crate::event::{By, Event, JumpRequested, Note, Release, Request, RunQueued, StepStarted};
use crate::form::Form;
use crate::recovery::{Code, Remedy};
use crate::state::derive;
use crate::summary::Status;
use crate::testing::*;
use crate::time::{Millis, Seq};
use crate::{Failure, Path, RunId, TaskId};

/// The next command; the numbers choose among few names, so that commands conflict.
#[derive(Debug, Clone)]
enum Move {
    Claim(u8),
    TakeOver(u8, u8, bool),
    Tell(u8, u8),
    Answer(u8),
    Note(u8, u8),
    Jump(u8, bool, bool),
    Child(u8),
    End(u8, u64, bool),
    Heal(u8, bool),
    Own(u8, Vec<(u8, u8)>),
    Prune(u8),
    TimeOut,
    Later,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        2 => (0..3u8).prop_map(Move::Claim),
        2 => (0..3u8, 0..3u8, any::<bool>()).prop_map(|(by, from, proven)| Move::TakeOver(by, from, proven)),
        3 => (0..2u8, 0..60u8).prop_map(|(name, id)| Move::Tell(name, id)),
        1 => (0..3u8).prop_map(Move::Answer),
        3 => (0..11u8, 0..9u8).prop_map(|(what, id)| Move::Note(what, id)),
        1 => (0..4u8, any::<bool>(), any::<bool>()).prop_map(|(to, drop, undo)| Move::Jump(to, drop, undo)),
        1 => (0..2u8).prop_map(Move::Child),
        3 => (0..4u8, 0..2u64, any::<bool>()).prop_map(|(n, fence, well)| Move::End(n, fence, well)),
        1 => (0..4u8, any::<bool>()).prop_map(|(n, lost)| Move::Heal(n, lost)),
        12 => (0..3u8, vec((0..21u8, 0..4u8), 1..4)).prop_map(|(who, doings)| Move::Own(who, doings)),
        1 => (0..3u8).prop_map(Move::Prune),
        1 => Just(Move::TimeOut),
        2 => Just(Move::Later),
    ];
    vec(one, 1..70)
}

fn doing(log: &Log, what: u8, n: u8) -> Owned {
    let step = format!("s{n}");
    let wait = format!("w{n}");
    let failed = log.failure(&step);
    let wanted = log.wanted(&wait, &["go", "stop"][..1 + usize::from(n % 2)]);
    match what {
        0 | 1 => Owned::StepCompleted(crate::event::StepCompleted {
            attempt: 3,
            undo: n > 1,
            ..log.completion(&step)
        }),
        2 => Owned::StepStarted(StepStarted {
            path: path(&step),
            ord: failed.ord,
            attempt: u32::from(n),
            input: None,
            remote: None,
        }),
        3 => Owned::StepFailed { failed, retry_at: Some(Millis(log.now.0 + 50)), timeout: None },
        4 => Owned::StepFailed { failed, retry_at: None, timeout: Some("timeout") },
        5 => Owned::Wait { wanted, ask: None },
        6 => Owned::Check(path(&wait)),
        7 => log.question(&format!("q{n}"), Form::Any, (n > 1).then_some(Millis(log.now.0 + 40))),
        8 => Owned::Check(path(&format!("q{n}"))),
        9 => {
            Owned::Sleep { path: path(&format!("z{n}")), ord: 90 + u32::from(n), due: Millis(log.now.0 + 30) }
        }
        10 => Owned::Child(log.child(&format!("k{n}"), &format!("c{n}"))),
        11 => Owned::UndoStarted {
            path: path(&step),
            failure: (n > 1).then(|| Failure::terminal("x").with_code("x")),
        },
        12 => Owned::UndoCompleted(path(&step)),
        13 => Owned::Release(
            [Release::Unload, Release::HandOver, Release::Paused, Release::Unfit][usize::from(n)],
        ),
        14 => Owned::ContinueAsNew(json(&n.to_string())),
        15 | 16 => {
            let mut started = log.remote(&step);
            started.remote.as_mut().unwrap().undo = n > 1;
            Owned::StepStarted(started)
        }
        18 => log.publication(&format!("p{n}"), ["x", "y"][usize::from(n % 2)], &n.to_string()),
        19 => log.reply(&format!("r{n}"), &format!("s{n}"), if n > 1 { Ok("1") } else { Err("no") }),
        20 => Owned::Child(crate::event::ChildStarted {
            undo: n > 1,
            detached: n == 0,
            ..log.child(&format!("k{n}"), &format!("c{n}"))
        }),
        _ => match n {
            0 => Owned::Complete(json("0")),
            1 => Owned::Fail(Failure::terminal("x")),
            2 => Owned::FinishJump,
            _ => Owned::Park { code: "V1", reason: "x".into() },
        },
    }
}

/// Returns a remote step that was ever handed out; the latest ones first, so that most are open.
fn handed_out(log: &Log, n: u8) -> (Path, u32, TaskId) {
    let started = log.records.iter().rev().filter_map(|recorded| match &recorded.event {
        Event::StepStarted(e) => Some((e.path.clone(), e.attempt, e.remote.as_ref()?.task.clone())),
        _ => None,
    });
    started.take(4).nth(usize::from(n)).unwrap_or_else(|| (path("s0"), 1, TaskId::new("s-none").unwrap()))
}

fn withdraw(log: &Log, note: Note, what: Request) -> Command {
    Command::Withdraw(Withdraw { note, what, lost: log.state().summary.owner.clone() })
}

fn command(log: &Log, fences: &BTreeMap<u8, Fence>, next: &Move) -> Option<Command> {
    let name = |n: u8| format!("n-{n}");
    Some(match next {
        Move::Claim(by) => claim(&name(*by)),
        Move::TakeOver(by, from, proven) => take_over(&name(*by), &name(*from), *proven),
        Move::Tell(what, id) => signal(["go", "stop"][usize::from(*what)], &format!("s{id}")),
        Move::Answer(n) => answer(&format!("q{n}"), &format!("a{n}-{}", log.end()), "1"),
        Move::Note(what, id) => {
            let note = note(&format!("o{id}"));
            match what {
                0 => Command::Pause(note),
                1 => Command::Resume(note),
                2 => Command::Cancel(note),
                3 => Command::Retry(note),
                4 => Command::Reset(note),
                5 => Command::CancelUnmanned { note, lost: log.state().summary.owner.clone() },
                6 => withdraw(log, note, Request::Jump),
                7 => withdraw(log, note, Request::Cancel),
                8 => Command::DropCancel(Box::new(Command::Retry(note))),
                9 if *id < 2 => Command::Terminate(note),
                _ => Command::Annotate(note),
            }
        }
        Move::Jump(to, drop_mail, compensate) => {
            let jump = jump_to(&format!("j{}", log.end()), &format!("s{to}"));
            Command::Jump(JumpRequested { drop_mail: *drop_mail, compensate: *compensate, ..jump })
        }
        Move::Child(n) => {
            Command::ChildEnded { child: RunId::new(format!("c{n}")).unwrap(), result: Ok(json("1")) }
        }
        Move::End(n, fence, well) => {
            let (path, attempt, task) = handed_out(log, *n);
            let result = if *well { Ok(json("1")) } else { Err(Failure::retryable("x")) };
            Command::StepEnded(StepEnded { path, attempt, task, fence: *fence, result })
        }
        Move::Heal(n, lost) => {
            let (path, attempt, task) = handed_out(log, *n);
            let (rule, remedy) = match lost {
                true => (Code::O3, Remedy::SendAgain { path, attempt }),
                false => (Code::H1, Remedy::GiveUp { path, attempt, task: Box::new(a_task(task)) }),
            };
            log.heal(rule, "x", remedy)
        }
        Move::Own(who, doings) => {
            let doings = doings.iter().map(|(what, n)| Doing { at: log.now, what: doing(log, *what, *n) });
            Command::Owned(*fences.get(who)?, doings.collect())
        }
        Move::Prune(late) => prune(Seq(log.end().0.saturating_sub(u64::from(*late)))),
        Move::TimeOut => Command::TimeOut,
        Move::Later => return None,
    })
}

/// Plays the moves. Each node remembers the fence of its last claim, even if it is out of date.
fn play(moves: &[Move]) -> Log {
    // Every second run has a deadline, which passes in the middle of a long walk.
    let deadline = moves.len().is_multiple_of(2).then_some(Millis(1_400));
    let queued = RunQueued { deadline, ..order("{}") };
    let mut log = Log::new("r1").act(Command::Start { queued, claim: None });
    let mut fences = BTreeMap::new();
    for next in moves {
        let Some(command) = command(&log, &fences, next) else {
            log.now = Millis(log.now.0 + 100);
            continue;
        };
        let before = log.end();
        let epoch = log.state().summary.epoch;
        let decided = log.try_act(&command);
        let current = matches!(&command, Command::Owned(fence, _) if fence.epoch == epoch);
        assert!(current || !matches!(command, Command::Owned(..)) || decided.is_err(), "an old owner wrote");
        if decided.is_err() {
            assert_eq!(log.end(), before, "a refused command wrote events");
        }
        if let Move::Claim(by) | Move::TakeOver(by, ..) | Move::Own(by, _) = next
            && log.state().summary.epoch > epoch
        {
            fences.insert(*by, log.fence());
        }
    }
    log
}

fn the_log_is_sound(log: &Log) {
    let mut ended = BTreeMap::new();
    let mut epoch = Seq::ZERO;
    for (at, recorded) in log.records.iter().enumerate() {
        assert_eq!(recorded.seq, Seq(at as u64 + 1), "positions are dense");
        if let Some(own) = recorded.epoch {
            assert!(own >= epoch && own <= recorded.seq, "epochs never go back");
            assert!(
                matches!(log.records[own.0 as usize - 1].event, Event::RunClaimed(_)),
                "an epoch is a claim"
            );
            epoch = own;
        }
        if let Some(end) = ended.get(&recorded.branch) {
            let audit =
                matches!(recorded.event, Event::NoteAdded(_) | Event::JumpRequested(_) | Event::RunPruned(_));
            assert!(audit, "{} at {} after the end at {end}", recorded.event.name(), recorded.seq);
        }
        if recorded.event.is_terminal() {
            ended.insert(recorded.branch, recorded.seq);
        }
        if let Event::RunCancelled { terminated: Some(_), .. } = &recorded.event {
            let mut later = log.records[at + 1..].iter().map(|later| &later.event);
            let audit = |event: &Event| matches!(event, Event::NoteAdded(_) | Event::RunPruned(_));
            assert!(later.all(audit), "something follows a termination at {}", recorded.seq);
        }
        if let Event::RunPruned(pruned) = &recorded.event {
            assert!(
                pruned.summary.status.is_terminal(),
                "a run was pruned while it was {}",
                pruned.summary.status
            );
            assert_eq!(recorded.seq, log.end(), "something follows a tombstone");
            let alone = derive(&log.run, std::slice::from_ref(recorded), log.head).unwrap();
            assert_eq!(alone.summary, log.state().summary, "the tombstone alone derives another row");
            assert_eq!(alone.outcome, log.state().outcome);
        }
    }
}

fn the_lineage_is_sound(log: &Log) {
    let lineage = log.state().branches.lineage(log.state().summary.branch);
    let mut over = BTreeSet::new();
    let mut mail = BTreeSet::new();
    let mut undone = BTreeSet::new();
    for recorded in log.records.iter().filter(|r| lineage.sees(r.branch, r.seq)) {
        match &recorded.event {
            Event::StepCompleted(e) => assert!(over.insert(e.path.clone()), "{} completed twice", e.path),
            Event::WaitResolved { path, by } => {
                assert!(over.insert(path.clone()), "{path} was resolved twice");
                if let By::Mail(seq) = by {
                    assert!(mail.insert(*seq), "mail {seq} was delivered twice");
                    assert!(*seq < recorded.seq && log.records[seq.0 as usize - 1].event.is_mail());
                }
            }
            Event::TimerFired { path } => assert!(over.insert(path.clone()), "{path} fired twice"),
            Event::CompensationCompleted { path } => {
                assert!(undone.insert(path.clone()), "{path} undone twice");
            }
            _ => {}
        }
    }
}

/// Asserts that on a compensating branch nothing begins, no wait ends and the run does not complete.
fn nothing_begins_while_undoing(log: &Log) {
    let mut undoing = BTreeSet::new();
    for (at, recorded) in log.records.iter().enumerate() {
        let branch = recorded.branch;
        let event = &recorded.event;
        let lineage = log.state().branches.lineage(branch);
        let begun = |path: &Path| {
            log.records[..at].iter().any(|earlier| {
                let starts = matches!(&earlier.event, Event::StepStarted(e) if e.path == *path);
                starts && lineage.sees(earlier.branch, earlier.seq)
            })
        };
        let forward = match event {
            // The end of an attempt that began earlier is allowed.
            Event::StepCompleted(e) => undoing.contains(&branch) && !begun(&e.path),
            Event::StepFailed(e) => undoing.contains(&branch) && !begun(&e.path),
            Event::StepStarted(_)
            | Event::WaitStarted(_)
            | Event::WaitResolved { .. }
            | Event::InputRequested(_)
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::ChildStarted(_)
            | Event::ProgressEmitted { .. }
            | Event::AttributesChanged(_)
            | Event::ValuePublished(_)
            | Event::RequestAnswered(_)
            | Event::RunCompleted { .. } => true,
            Event::BranchOpened(opened) => opened.why == crate::branch::Why::Continue,
            _ => false,
        };
        assert!(!forward || !undoing.contains(&branch), "{} at {} while undoing", event.name(), recorded.seq);
        if let Event::CompensationStarted { failure: Some(_), .. } = event {
            undoing.insert(branch);
        }
    }
}

fn commands_are_taken_once(log: &Log) {
    let mut ids = BTreeSet::new();
    let base = log.state().summary.base;
    for recorded in log.records.iter().filter(|recorded| recorded.seq > base) {
        if let Some(id) = crate::summary::command_id(&recorded.event) {
            assert!(ids.insert(id.clone()), "command {id} was taken twice");
        }
    }
}

/// Asserts that an attempt of a remote step ends once, and that the row waits for exactly the open ones.
fn remote_steps_are_sound(log: &Log) {
    let lineage = log.state().branches.lineage(log.state().summary.branch);
    let mut ended = BTreeSet::new();
    for recorded in log.records.iter().filter(|r| lineage.sees(r.branch, r.seq)) {
        let (path, attempt, fence) = match &recorded.event {
            Event::StepCompleted(e) => (&e.path, e.attempt, e.fence),
            Event::StepFailed(e) => (&e.path, e.attempt, e.fence),
            _ => continue,
        };
        assert!(fence.is_none() || recorded.epoch.is_none(), "an owner has no claim on a task");
        assert!(fence.is_none() || ended.insert((path, attempt)), "{path} ended attempt {attempt} twice");
    }
    let row = &log.state().summary;
    let mut waits: Vec<_> = row.waits.iter().filter(|wait| !wait.tasks.is_empty()).collect();
    waits.sort_by_key(|wait| wait.path.clone());
    let mut open = log.state().open_remote();
    open.sort_by_key(|open| open.path.clone());
    assert!(
        waits.iter().map(|wait| (&wait.path, &wait.tasks[0])).eq(open.iter().map(|o| (&o.path, &o.task)))
    );
}

/// Asserts that an acknowledged request to cancel is pending until the run ends or the request is withdrawn.
fn no_cancel_is_forgotten(log: &Log) {
    let mut pending = false;
    for recorded in &log.records {
        match &recorded.event {
            Event::RunCancelRequested(_) => pending = true,
            Event::RequestWithdrawn(withdrawn) if withdrawn.what == Request::Cancel => pending = false,
            event if event.is_terminal() => pending = false,
            _ => {}
        }
    }
    assert!(!pending || log.state().summary.is_cancel_pending(), "a request to cancel was lost");
    assert!(!pending || log.state().summary.cancel_asked.is_some());
}

/// Asserts that a run times out once per deadline, never early, and ends failed with the reason.
fn timeouts_are_sound(log: &Log) {
    let mut timed_out = false;
    for recorded in &log.records {
        match &recorded.event {
            Event::RunCancelRequested(request) => {
                assert!(!timed_out || request.deadline.is_none(), "it times out once");
                timed_out |= request.deadline.is_some();
                assert!(
                    request.deadline.is_none_or(|deadline| deadline <= recorded.at),
                    "it timed out early"
                );
            }
            Event::BranchOpened(opened) if opened.why.renews_keys() && opened.carried.is_none() => {
                timed_out = false;
            }
            Event::RequestWithdrawn(withdrawn) if withdrawn.what == Request::Cancel => timed_out = false,
            Event::RunCancelled { terminated, .. } => {
                assert!(!timed_out || terminated.is_some(), "a run that timed out ended cancelled");
            }
            Event::RunFailed { failure } if timed_out => {
                assert_eq!(failure.code.as_deref(), Some("timeout"), "{failure:?}");
            }
            _ => {}
        }
    }
    assert!(ended(log) || log.state().summary.timed_out == timed_out, "the row and the log differ");
}

fn ended(log: &Log) -> bool {
    log.state().summary.status.is_terminal()
}

fn the_row_is_sound(log: &Log) {
    let row = &log.state().summary;
    let waits = log.state().jump.as_ref().map(|jump| &jump.to);
    assert_eq!(row.jump.as_ref().map(|jump| &jump.to), waits, "the row and the state differ on a jump");
    match row.status {
        Status::Waiting => assert!(row.waits.iter().any(|wait| !wait.is_sleep())),
        Status::Sleeping => assert!(!row.waits.is_empty() && row.waits.iter().all(|wait| wait.is_sleep())),
        Status::Running => assert!(row.owner.is_some() && row.waits.is_empty()),
        Status::Queued => assert!(row.owner.is_none() && row.waits.is_empty()),
        Status::Paused => assert!(row.paused),
        Status::Parked => assert!(row.parked && row.owner.is_none() && row.trouble.is_some()),
        Status::Compensating => assert!(row.compensating),
        Status::Completed | Status::Failed | Status::Cancelled => {
            assert!(row.finished_at.is_some() && row.owner.is_none() && log.state().outcome.is_some());
            assert!(row.waits.is_empty() && row.inputs.is_empty());
        }
    }
    for input in &row.inputs {
        assert!(
            row.waits.iter().any(|wait| wait.inputs.contains(&input.path)),
            "no wait looks for {}",
            input.path
        );
    }
    let paths: BTreeSet<_> = row.waits.iter().map(|wait| &wait.path).collect();
    assert_eq!(paths.len(), row.waits.len(), "a wait is open once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_commands_breaks_an_invariant(moves in moves()) {
        let log = play(&moves);
        the_log_is_sound(&log);
        the_lineage_is_sound(&log);
        the_row_is_sound(&log);
        remote_steps_are_sound(&log);
        commands_are_taken_once(&log);
        no_cancel_is_forgotten(&log);
        timeouts_are_sound(&log);
        nothing_begins_while_undoing(&log);
        prop_assert_eq!(log.read_back(), log.records.clone());
        prop_assert_eq!(&derive(&log.run, &log.since_base(), log.head).unwrap(), log.state());
        for until in 1..=log.records.len() {
            prop_assert!(derive(&log.run, &log.records[..until], log.head).is_ok(), "prefix {}", until);
        }
    }
}

#[test]
fn step_begun_before_a_reset_may_end_while_undoing() {
    let log = play(&[
        Move::Claim(2),
        Move::Own(2, vec![(15, 3)]),
        Move::Own(2, vec![(0, 0)]),
        Move::Note(4, 0),
        Move::TakeOver(1, 0, false),
        Move::Own(1, vec![(11, 0)]),
        Move::Own(1, vec![(0, 3)]),
    ]);
    let last = &log.records.last().unwrap().event;
    assert!(matches!(last, Event::StepCompleted(e) if e.path == path("s3") && e.undo), "{last:?}");
    nothing_begins_while_undoing(&log);
}
