//! Histories as small tables: the log, the cached row and the liveness of nodes; and the expected findings.

mod blame;
mod remedies;
mod said;

use std::time::Duration;

use super::*;
use crate::command::{Command, Heal};
use crate::decide::{Refusal, TaskMove};
use crate::event::{Event, Release, RunQueued};
use crate::form::Form;
use crate::id::StepName;
use crate::state::OpenRemote;
use crate::task::NewTask;
use crate::testing::{Log, a_task, answer, json, jump_to, node, note, order, path};
use crate::{Owned, QueueName, Status};

const NOW: Millis = Millis(1_000_000);

/// The state of a run's task.
#[derive(Clone, Copy, PartialEq)]
enum Queue {
    Missing,
    Completed,
    Ready,
    Elsewhere,
    Sleeps,
    Claimed,
    Due(Millis),
}

/// A run and the facts around it.
struct Case {
    log: Log,
    status: Option<Status>,
    late: bool,
    queue: Queue,
    owner: Owner,
    claimant: Option<Owner>,
    versions: Option<Vec<u32>>,
    queues: Option<Vec<String>>,
    remote: Vec<Remote>,
    children: Vec<(RunId, Result<Payload, Failure>)>,
}

fn lost() -> Owner {
    Owner::Lost { proven: true, evidence: "its process is gone".into(), lived: Lived::default() }
}

/// Returns the command that moves the run to version 2.
fn changed(log: &Log) -> Command {
    log.heal(Code::E2, "1 is missing", Remedy::ChangeVersion { to: 2 })
}

fn task(log: &Log, queue: Queue) -> Option<Task> {
    let new = NewTask {
        id: Task::advance_id(&log.run, 1),
        kind: Task::advance_kind("checkout", 1),
        queue: QueueName::new(if matches!(queue, Queue::Elsewhere) { "elsewhere" } else { "default" })
            .unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: match queue {
            Queue::Sleeps => Millis::NEVER,
            Queue::Due(at) => at,
            _ => Millis(0),
        },
        payload: json("null"),
        attempts_max: 1,
        silence_max: None,
    };
    let task = Task { run: Some(log.run.clone()), ..new.into_task(Millis(0)) };
    match queue {
        Queue::Missing => None,
        Queue::Completed => Some(task.claimed("n-1", NOW).completed(1, json("null"), NOW).unwrap()),
        Queue::Ready | Queue::Elsewhere | Queue::Sleeps | Queue::Due(_) => Some(task),
        Queue::Claimed => Some(task.claimed("n-1", NOW)),
    }
}

impl Case {
    /// Returns a healthy run that a live node executes.
    fn healthy(log: Log) -> Self {
        Self {
            log,
            status: None,
            late: false,
            queue: Queue::Claimed,
            owner: Owner::Alive,
            claimant: None,
            versions: Some(vec![1]),
            queues: None,
            remote: Vec::new(),
            children: Vec::new(),
        }
    }

    /// Returns a run without an owner whose task will advance it.
    fn resting(log: Log, queue: Queue) -> Self {
        Self { queue, owner: Owner::None, ..Self::healthy(log) }
    }

    fn cached_as(self, status: Status) -> Self {
        Self { status: Some(status), ..self }
    }

    fn diagnoses(&self) -> Vec<Diagnosis> {
        let state = self.log.state();
        let mut row = state.summary.clone();
        row.status = self.status.unwrap_or(row.status);
        if self.late {
            row.as_of = row.as_of.before();
        }
        let task = task(&self.log, self.queue);
        let claimant = if self.owner == Owner::None { Owner::Alive } else { self.owner.clone() };
        let claimant = self.claimant.clone().unwrap_or(claimant);
        diagnose(&Sight {
            now: NOW,
            state,
            row: Some(Cached { summary: &row, task: task.as_ref().map(|task| &task.id) }),
            task: task.as_ref(),
            owner: self.owner.clone(),
            claimant,
            versions: self.versions.as_deref(),
            queues: self.queues.as_deref(),
            remote: &self.remote,
            children: &self.children,
            bounds: Bounds::default(),
        })
    }

    fn codes(&self) -> Vec<Code> {
        self.diagnoses().iter().map(|found| found.rule).collect()
    }

    fn heal(&self, at: usize) -> Command {
        let Diagnosis { rule, evidence, remedy } = self.diagnoses().swap_remove(at);
        let healer = Healer { node: Some(node("n-9")), reason: Reason::StaleDetection };
        Command::Heal(Heal { rule, evidence, remedy, at: self.log.end(), healer, note: None })
    }
}

fn released(log: Log) -> Log {
    log.released(Release::HandOver)
}

fn planned(steps: &[&str]) -> Log {
    let plan = steps.iter().map(|name| StepName::new(name).unwrap()).collect();
    let queued = RunQueued { plan, ..order("{}") };
    Log::new("r1").act(Command::Start { queued, claim: None }).claimed("n-1")
}

fn asked() -> Log {
    Log::running().completed("a").asks("approve", Form::Text).released(Release::Unload)
}

/// Returns a log into which a foreign program wrote half a jump.
fn half_a_jump() -> Log {
    let mut log = Log::running().completed("a").completed("b");
    let requested = Event::JumpRequested(jump_to("j1", "a"));
    log.write(None, vec![crate::decide::Stamped { at: NOW, event: requested }]);
    log
}

fn failed_with(left: u32) -> Log {
    let log = Log::running().completed("a");
    let failed = crate::event::StepFailed { left, ..log.failure("b") };
    released(log.owned(vec![Owned::StepFailed { failed, retry_at: None, timeout: None }]))
}

#[test]
fn each_rule_finds_its_own() {
    use Code::{A1, A2, A3, A4, D2, E2, N1, O1, O2, W1, W2};
    use Queue::{Claimed, Completed, Elsewhere, Missing, Ready, Sleeps};
    use Status::{Running, Waiting};
    let rests = |log, queue| Case::resting(log, queue);
    let done = || released(Log::running().completed("a"));
    let misfit = || {
        let log = Log::running().signalled("go", "s1");
        let schemas =
            [(crate::SignalName::new("go").unwrap(), serde_json::json!({ "type": "integer" }))].into();
        let wanted = crate::event::WaitStarted { schemas, ..log.wanted("w", &["go"]) };
        log.owned(vec![Owned::Wait { wanted, ask: None }]).released(Release::Unload)
    };
    let waiting = || Log::running().waits("w", &["go"]).released(Release::Unload);
    let sleeping = || Log::running().sleeps("s", Millis(2_000)).released(Release::Unload);
    let table: Vec<(&str, Case, Vec<Code>)> = vec![
        ("A1 phantom wait", rests(done(), Ready).cached_as(Waiting), vec![A1]),
        ("A1 before any step", rests(released(Log::running()), Ready).cached_as(Waiting), vec![A1]),
        ("A2 hidden question", rests(asked(), Sleeps).cached_as(Running), vec![A2]),
        (
            "A3 all declared steps done",
            rests(released(planned(&["a", "b"]).completed("a").completed("b")), Ready).cached_as(Running),
            vec![A3],
        ),
        ("A4 tries left", rests(failed_with(2), Ready), vec![A4]),
        ("A4 no tries, no task", rests(failed_with(0), Missing), vec![A4, O1]),
        ("D2 incomplete jump", rests(half_a_jump(), Ready), vec![D2]),
        ("O1 no task", rests(done(), Missing), vec![O1]),
        ("O1 task completed", rests(done(), Completed), vec![O1]),
        ("O1 a wait without a task", rests(waiting(), Missing), vec![O1]),
        ("O2 owner gone", Case { owner: lost(), ..Case::healthy(Log::running()) }, vec![O2]),
        (
            "O2 its task is back",
            Case { owner: lost(), queue: Ready, ..Case::healthy(Log::running()) },
            vec![O2],
        ),
        (
            "O1 owner and task gone",
            Case { owner: lost(), queue: Missing, ..Case::healthy(Log::running()) },
            vec![O1],
        ),
        ("W1 owner lost", Case { owner: lost(), queue: Sleeps, ..Case::healthy(Log::running()) }, vec![W1]),
        ("W1 timer due", rests(sleeping(), Sleeps), vec![W1]),
        ("W1 mail unread", rests(waiting().signalled("go", "s1"), Sleeps), vec![W1]),
        ("W2 an early signal does not fit", rests(misfit(), Ready), vec![W2]),
        ("W1 nothing awaited", rests(done(), Sleeps), vec![W1]),
        ("N1 no node has the workflow", Case { versions: Some(vec![]), ..rests(done(), Ready) }, vec![N1]),
        (
            "N1 behind a lost owner",
            Case { owner: lost(), versions: Some(vec![]), queue: Ready, ..Case::healthy(Log::running()) },
            vec![N1],
        ),
        (
            "E2 no live node has the version",
            Case { versions: Some(vec![2]), ..rests(done(), Ready) },
            vec![E2],
        ),
        (
            "E2 behind a lost owner",
            Case { owner: lost(), versions: Some(vec![2]), queue: Ready, ..Case::healthy(Log::running()) },
            vec![E2],
        ),
        ("O1 its task is in another queue", rests(done(), Elsewhere), vec![O1]),
        ("O1 its task is for another version", rests(done().act(changed(&done())), Ready), vec![O1, E2]),
        ("claimed by the dead", Case { owner: lost(), queue: Claimed, ..Case::healthy(asked()) }, vec![O2]),
    ];
    for (name, case, expected) in table {
        assert_eq!(case.codes(), expected, "{name}: {:?}", case.diagnoses());
    }
}

#[test]
fn healthy_runs_have_no_findings() {
    use Queue::{Claimed, Ready, Sleeps};
    let rests = |log, queue| Case::resting(log, queue);
    let older = || Log::running().completed("a").act(Command::Jump(jump_to("j1", "a"))).claimed("n-1");
    let table: Vec<(&str, Case)> = vec![
        ("B1 open question", rests(asked(), Sleeps)),
        ("B2 a question that stays open", Case { versions: Some(vec![]), ..rests(asked(), Sleeps) }),
        ("C1 unfinished step of a live run", Case::healthy(Log::running().started("a", 1))),
        ("C2 the same, its cache late", Case { late: true, ..Case::healthy(Log::running().started("a", 1)) }),
        ("D1 a branch without a jump", Case::healthy(older())),
        ("E1 no version recorded", Case::healthy(Log::running())),
        ("F2 no follower", Case::healthy(Log::running().completed("a"))),
        ("queued, about to begin", rests(Log::new("r1").queued(), Ready)),
        ("claimed, about to begin", rests(Log::new("r1").queued(), Claimed)),
        ("paused", rests(released(Log::running()).act(Command::Pause(note("p"))), Queue::Missing)),
        ("over", rests(Log::running().finishes(), Queue::Missing)),
        (
            "late cache of A1",
            Case { late: true, ..rests(released(Log::running()), Ready).cached_as(Status::Waiting) },
        ),
        ("A1 of a live owner", Case::healthy(Log::running()).cached_as(Status::Waiting)),
        (
            "A2 of a live owner",
            Case::healthy(Log::running().asks("q", Form::Text)).cached_as(Status::Running),
        ),
        ("a jump that waits for its compensations", {
            let log = Log::running().completed_with_undo("a");
            let jump = crate::event::JumpRequested { compensate: true, ..jump_to("j1", "a") };
            Case::healthy(log.act(Command::Jump(jump)))
        }),
        ("a failure that the workflow handled", rests(released(failed_then_went_on()), Ready)),
        (
            "asleep until later",
            rests(Log::running().sleeps("s", NOW + Duration::from_secs(9)).released(Release::Unload), Sleeps),
        ),
    ];
    for (name, case) in table {
        assert_eq!(case.diagnoses(), vec![], "{name}");
    }
}

fn failed_then_went_on() -> Log {
    let log = Log::running();
    let failed = crate::event::StepFailed { left: 2, ..log.failure("a") };
    log.owned(vec![Owned::StepFailed { failed, retry_at: None, timeout: None }]).completed("b")
}

#[test]
fn an_open_remote_step_is_judged_by_its_task() {
    let log = Log::running().hands_out("resize").released(Release::Unload);
    let open = log.state().open_remote().remove(0);
    let fresh = a_task(open.task.clone());
    let claimed = |at| fresh.clone().claimed("w", at);
    let silent = Millis(NOW.0 - 60_001);
    let tasks = [
        (Some(fresh.clone()), None),
        (Some(claimed(Millis(NOW.0 - 60_000))), None),
        (Some(claimed(silent).beaten(1, NOW).unwrap()), None),
        (Some(claimed(silent)), Some((Code::H1, "step.timeout"))),
        (None, Some((Code::O3, "step.started"))),
        (Some(fresh.clone().cancelled(NOW).unwrap()), Some((Code::O3, "step.started"))),
        (Some(claimed(NOW).reclaimed("gone", 0, NOW)), Some((Code::O3, "step.timeout"))),
        (Some(claimed(NOW).completed(1, json("1"), NOW).unwrap()), Some((Code::O3, "step.completed"))),
        (Some(claimed(NOW).failed(1, Failure::terminal("x"), NOW).unwrap()), Some((Code::O3, "step.failed"))),
    ];
    for (task, expected) in tasks {
        let state = task.as_ref().map(|task| task.state);
        let OpenRemote { path, attempt, silence, since, .. } = open.clone();
        let remote = vec![Remote { path, attempt, task, silence, since }];
        let case = Case { remote, ..Case::resting(log.clone(), Queue::Sleeps) };
        let codes = expected.iter().map(|(code, _)| *code).collect::<Vec<_>>();
        assert_eq!(case.codes(), codes, "{state:?}");
        if let Some((_, event)) = expected {
            let healed = case.log.clone().act(case.heal(0));
            assert_eq!(healed.names()[case.log.names().len()..][..2], ["run.recovered", event], "{state:?}");
        }
    }
}

#[test]
fn an_ended_remote_step_wakes_a_dormant_run() {
    let log = Log::running().hands_out("one").hands_out("two").released(Release::Unload);
    let case = Case::resting(log.brings("two", 1, Ok(json("2"))), Queue::Sleeps);
    assert_eq!(case.codes(), [Code::W1], "it waits for the first and has not seen the second");
}

#[test]
fn a_seam_is_one_append_with_cutoff_and_evidence() {
    let case = Case::resting(asked(), Queue::Sleeps).cached_as(Status::Running);
    let command = case.heal(0);
    let mut log = case.log.clone();
    let before = log.end();
    let decision = log.try_act(&command).unwrap();
    assert_eq!(decision.task, TaskMove::Ready);
    assert_eq!(log.names()[before.0 as usize..], ["branch.opened", "run.recovered"]);
    let Event::RunRecovered(seam) = &log.records.last().unwrap().event else { panic!("no seam") };
    assert_eq!((seam.rule.as_str(), seam.reason.as_str()), ("A2", "stale_detection"));
    assert_eq!(seam.previous_branch.map(|b| b.0), Some(1));
    assert_eq!(seam.new_branch, Some(log.state().summary.branch));
    assert_eq!(seam.node, Some(node("n-9")));
    assert!(seam.cutoff.is_some() && !seam.evidence.is_empty());
    assert_eq!(log.status(), Status::Queued);
    assert!(log.state().ops.contains_key(&path("a")), "a completed step stays completed");
}

#[test]
fn a_question_asked_again_takes_the_answer_to_the_old_one() {
    let case = Case::resting(asked(), Queue::Sleeps).cached_as(Status::Running);
    let command = case.heal(0);
    let since = case.log.state().summary.inputs[0].since;
    let mut log = case.log.act(command).claimed("n-2");
    log.now = log.now + Duration::from_secs(1);
    let log = log.asks("approve", Form::Text);
    assert_eq!(log.state().summary.inputs[0].since, since, "it is the same question");
    let log = log.act(answer("approve", "a1", "\"yes\"")).checks("approve");
    assert!(log.names().ends_with(&["input.answered", "wait.resolved"]));
}

#[test]
fn an_answer_to_a_cut_off_question_counts() {
    let case = Case::resting(asked(), Queue::Sleeps).cached_as(Status::Running);
    let command = case.heal(0);
    let log = case.log.act(command).act(answer("approve", "a1", "\"yes\""));
    assert!(matches!(log.ask(&answer("approve", "a2", "\"no\"")), Err(Refusal::NoSuchQuestion { .. })));
    let log = log.claimed("n-2").asks("approve", Form::Text);
    assert!(
        log.names().ends_with(&["wait.started", "wait.resolved"]),
        "the question was asked twice: {:?}",
        log.names()
    );
    let jumped = asked().act(Command::Jump(jump_to("j1", "a")));
    assert!(matches!(jumped.ask(&answer("approve", "a1", "\"yes\"")), Err(Refusal::NoSuchQuestion { .. })));
}

#[test]
fn a_remedy_for_an_older_end_does_nothing() {
    let case = Case::resting(asked(), Queue::Sleeps).cached_as(Status::Running);
    let command = case.heal(0);
    let answered = case.log.act(answer("approve", "a1", "\"yes\""));
    assert!(matches!(answered.ask(&command), Err(Refusal::NothingToDo { .. })));
}

#[test]
fn two_healers_do_no_more_than_one() {
    for (log, queue, status) in [
        (asked(), Queue::Sleeps, Some(Status::Running)),
        (released(Log::running()), Queue::Missing, None),
        (failed_with(1), Queue::Ready, None),
    ] {
        let case = Case { status, ..Case::resting(log, queue) };
        let command = case.heal(0);
        let healed = case.log.act(command.clone());
        assert!(matches!(healed.ask(&command), Err(Refusal::NothingToDo { .. })));
    }
}

#[test]
fn a_run_without_a_stable_event_is_parked_and_says_so() {
    let log = released(Log::running().started("a", 1));
    let case = Case::resting(log, Queue::Ready).cached_as(Status::Waiting);
    let command = case.heal(0);
    let log = case.log.act(command);
    assert_eq!(log.status(), Status::Parked);
    assert_eq!(log.state().summary.trouble.as_ref().unwrap().message, "no stable event found");
}

#[test]
fn a_new_task_changes_nothing_else_of_the_run() {
    let case = Case::resting(asked(), Queue::Missing);
    let mut log = case.log.clone();
    let before = log.state().summary.clone();
    let decision = log.try_act(&case.heal(0)).unwrap();
    assert_eq!(decision.task, TaskMove::Renew(Millis::NEVER), "the task of a waiting run is dormant");
    let after = log.state().summary.clone();
    let same = Summary {
        as_of: before.as_of,
        head: before.head,
        bytes: before.bytes,
        last_event_at: before.last_event_at,
        recoveries: before.recoveries,
        recovered_at: before.recovered_at,
        ..after
    };
    assert_eq!(same, before);
}

#[test]
fn a_failed_step_with_attempts_left_is_retried() {
    let case = Case::resting(failed_with(2), Queue::Ready);
    let log = case.log.clone().act(case.heal(0)).claimed("n-2");
    let step = &log.state().ops[&path("b")];
    let crate::state::OpKind::Step(step) = &step.kind else { panic!("a step") };
    assert!(matches!(step.progress, crate::state::StepProgress::Retry(_)));
}

#[test]
fn graceful_hand_overs_cost_nothing() {
    let mut log = Log::running().started("long", 1);
    for n in 2..5 {
        log = log.released(Release::HandOver).claimed(&format!("n-{n}")).started("long", n);
    }
    let summary = &log.state().summary;
    assert_eq!((summary.attempt, summary.recoveries), (0, 0));
}

#[test]
fn undoing_a_seam_restores_the_old_branch() {
    let case = Case::resting(asked(), Queue::Sleeps).cached_as(Status::Running);
    let command = case.heal(0);
    let before = case.log.state().ops.len();
    let log = case.log.act(command).act(Command::UndoSeam(note("u1")));
    assert_eq!(log.state().ops.len(), before, "the operations of the old branch are visible again");
    assert_eq!(log.status(), Status::Waiting);
    assert_eq!(log.state().branches.iter().count(), 3, "nothing was deleted");
    assert!(matches!(log.ask(&Command::UndoSeam(note("u2"))), Err(Refusal::NothingToDo { .. })));
}

#[test]
fn a_reset_keeps_stable_events() {
    let log = Log::running().completed("a").started("b", 1).act(Command::Reset(note("x1")));
    assert_eq!(log.status(), Status::Queued);
    assert!(log.state().ops.contains_key(&path("a")) && !log.state().ops.contains_key(&path("b")));
    assert_eq!(log.names().iter().filter(|name| **name == "note.added").count(), 1);
    let over = Log::running().finishes();
    assert!(matches!(over.ask(&Command::Reset(note("x2"))), Err(Refusal::Finished { .. })));
}

#[test]
fn a_requeue_leaves_a_note_and_a_new_task() {
    let log = asked();
    let decision = log.ask(&Command::Requeue(note("x1"))).unwrap();
    assert_eq!(decision.task, TaskMove::Renew(log.now));
    let log = log.act(Command::Requeue(note("x1")));
    assert_eq!(log.ask(&Command::Requeue(note("x1"))).unwrap(), crate::Decision::default());
}

#[test]
fn the_catalogue_has_every_rule_once() {
    let mut codes: Vec<Code> = CATALOGUE.iter().map(|rule| rule.code).collect();
    codes.sort();
    codes.dedup();
    assert_eq!((codes.len(), CATALOGUE.len()), (22, 22));
    for rule in CATALOGUE {
        let texts = [rule.title, rule.wrong, rule.remedy].concat();
        assert!(!texts.contains('\\') && !texts.contains("  "), "{}", rule.code);
        assert_eq!(rule.code.to_string().parse(), Ok(rule.code));
        assert_eq!(rule.code.rule().title, rule.title);
        assert_eq!(rule.name.parse(), Ok(rule.code));
        assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", rule.name);
        assert_eq!(Code::from_code(rule.name), None, "a log holds codes, not names");
    }
    let mut names: Vec<&str> = CATALOGUE.iter().map(|rule| rule.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 22);
    assert!("Z9".parse::<Code>().is_err());
}

#[test]
fn rule_names_never_change() {
    let names: Vec<String> = CATALOGUE.iter().map(|rule| rule.code.label()).collect();
    insta::assert_snapshot!(names.join("\n"), @r"
    log-damaged (K1)
    newer-release (K2)
    wrong-row (C1)
    unreadable-record (U1)
    incomplete-jump (D2)
    hidden-question (A2)
    phantom-wait (A1)
    missing-end (A3)
    unhandled-failure (A4)
    crash-loop (P1)
    worker-lost (O2)
    missed-wake (W1)
    signal-mismatch (W2)
    task-missing (O1)
    remote-task-missing (O3)
    silent-step (H1)
    no-worker (N1)
    no-version (E2)
    code-changed (V1)
    followed-run-stalled (F1)
    stale-lock (L1)
    claimant-lost (L2)
    ");
}

#[test]
fn a_rule_is_accepted_by_code_and_by_name() {
    for text in ["O2", "o2", "worker-lost", "Worker_Lost", "worker lost"] {
        assert_eq!(text.parse(), Ok(Code::O2), "{text}");
        assert_eq!(serde_json::from_value::<Code>(text.into()).unwrap(), Code::O2, "{text}");
    }
    assert_eq!(serde_json::to_value(Code::O2).unwrap(), "O2", "documents and logs hold the code");
    let error = "worker-lots".parse::<Code>().unwrap_err().to_string();
    assert!(error.contains("(did you mean worker-lost?)"), "{error}");
    assert!(serde_json::from_str::<Code>("\"nonsense\"").is_err());
}
