//! Foreign states in the same store. A store that cannot keep them passes all cases.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::task::{NewTask, Task, TaskState};
use goldseam_core::{Failure, Limits, Millis, Payload, QueueName, TaskId};
use goldseam_store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam_store::{FaultyStore, ForeignStates, TaskFilter};

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::client::feed::HealedSubject;
use goldseam_engine::client::queue::Want;
use goldseam_engine::heal::foreign::{ForeignOptions, ForeignReport, TaskLookup, TaskStanding};
use goldseam_engine::heal::sweeper::{Fate, SweepOptions};
use goldseam_engine::ledger::config::Recovery;
use goldseam_engine::{Client, OsEntropy, SystemClock};

fn at_once() -> SweepOptions {
    SweepOptions { stale_after: Some(Duration::ZERO), foreign: asked(), ..SweepOptions::default() }
}

fn asked() -> Option<ForeignOptions> {
    Some(ForeignOptions::default())
}

fn default_queue() -> QueueName {
    QueueName::new("default").unwrap()
}

/// A state as another program writes it, with blanks and extra fields.
fn state(name: &str, status: &str, task: &str) -> String {
    format!(
        "{{ \"id\": \"{name}\",\n  \"status\":\"{status}\", \"orchestrator_task_id\": \"{task}\", \"z\": 1.10,\n  \
         \"updated_at\": \"2026-01-02T03:04:05Z\", \"steps\": [ {{\"n\": 12345678901234567890123}} ] }}"
    )
}

/// A harness with foreign states.
struct Fixtures<'a> {
    harness: Harness<'a>,
    place: &'a dyn ForeignStates,
}

impl<'a> Fixtures<'a> {
    /// None if the store cannot keep them.
    fn on(fixture: &'a Fixture) -> Option<Self> {
        Some(Self { harness: Harness::on(fixture), place: fixture.store.foreign()? })
    }

    async fn put(&self, name: &str, body: &str) {
        self.harness.damage().put_foreign(&id(name), body).await;
    }

    async fn body(&self, name: &str) -> String {
        let page = self.place.states(None, 100).await.unwrap();
        page.items.into_iter().find(|state| state.id == id(name)).unwrap().body
    }

    /// The task that the state names, if the queue has it.
    async fn task(&self, name: &str) -> Option<Task> {
        let body: serde_json::Value = serde_json::from_str(&self.body(name).await).unwrap();
        let task = TaskId::new(body["orchestrator_task_id"].as_str().unwrap()).unwrap();
        self.harness.client.queue().get(&task).await.ok()
    }

    async fn all_tasks(&self) -> Vec<Task> {
        self.harness.store().tasks(TaskFilter { limit: 100, ..TaskFilter::default() }).await.unwrap()
    }

    async fn sweep(&self) -> ForeignReport {
        sweep(&self.harness.client, at_once()).await
    }

    /// A task of another program, and how it ended; none: it waits.
    async fn task_that(&self, name: &str, end: Option<TaskState>) {
        let queue = self.harness.client.queue();
        queue.submit(new_task(name, None)).await.unwrap();
        let id = TaskId::new(name).unwrap();
        if end == Some(TaskState::Cancelled) {
            queue.cancel(&id).await.unwrap();
            return;
        }
        let Some(end) = end else { return };
        let want = Want { owner: "theirs".to_owned(), queue: queue_of(name), kind: None, limit: 1 };
        let task = queue.claim(want).await.unwrap().remove(0);
        match end {
            TaskState::Completed => drop(queue.complete(&id, task.fence, Payload::null()).await.unwrap()),
            TaskState::Failed => {
                drop(queue.fail(&id, task.fence, Failure::terminal("broken")).await.unwrap());
            }
            _ => {}
        }
    }
}

/// A separate queue, so a claim finds only this task.
fn queue_of(name: &str) -> QueueName {
    QueueName::new(format!("q-{name}")).unwrap()
}

fn new_task(name: &str, silence_max: Option<Duration>) -> NewTask {
    NewTask {
        id: TaskId::new(name).unwrap(),
        kind: "workflow.orchestrate".to_owned(),
        queue: queue_of(name),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max,
    }
}

async fn sweep(client: &Client, options: SweepOptions) -> ForeignReport {
    client.sweeper(options).sweep().await.unwrap().foreign.unwrap()
}

fn fates(report: &ForeignReport) -> Vec<(&str, Fate)> {
    report.stalled.iter().map(|stalled| (stalled.id.as_str(), stalled.fate.clone())).collect()
}

/// A state without its task gets the task that its owner expects, and does not change otherwise.
pub async fn a_foreign_state_without_its_task_gets_a_new_one(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    for status in ["running", "waiting_signal", "compensating"] {
        let name = format!("wf-{}", status.replace('_', "-"));
        fixtures.put(&name, &state(&name, status, "gone")).await;
    }
    let report = fixtures.sweep().await;
    assert_eq!((report.scanned, report.healed, report.healthy, report.skipped), (3, 3, 0, 0), "{report:?}");
    assert_eq!(report.stalled[0].evidence, "its task gone is missing");
    let task = fixtures.task("wf-running").await.unwrap();
    assert_eq!(task.kind, "workflow.orchestrate");
    assert_eq!(task.key.as_deref(), Some("wf-running:orchestrate:2026-01-02T03:04:05Z"));
    assert_eq!((task.queue.as_str(), task.state), ("default", TaskState::Ready));
    assert_eq!(task.payload.as_str(), r#"{"workflow_id":"wf-running"}"#);
    let expected = state("wf-running", "running", task.id.as_str());
    assert_eq!(fixtures.body("wf-running").await, expected);
    let again = fixtures.sweep().await;
    assert_eq!((again.scanned, again.healthy, again.stalled.len()), (3, 3, 0), "{again:?}");
}

/// A finished task moves nothing, however it ended; a ready or claimed one does.
pub async fn a_foreign_state_is_judged_by_its_task(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    let ends = [
        ("completed", Some(TaskState::Completed)),
        ("failed", Some(TaskState::Failed)),
        ("cancelled", Some(TaskState::Cancelled)),
        ("held", Some(TaskState::Claimed)),
        ("waits", None),
    ];
    for (name, end) in ends {
        fixtures.task_that(&format!("t-{name}"), end).await;
        fixtures.put(name, &state(name, "running", &format!("t-{name}"))).await;
    }
    let report = fixtures.sweep().await;
    assert_eq!(
        fates(&report),
        [("cancelled", Fate::Healed), ("completed", Fate::Healed), ("failed", Fate::Healed)]
    );
    assert_eq!((report.scanned, report.healthy), (5, 2));
    for name in ["held", "waits"] {
        assert_eq!(fixtures.body(name).await, state(name, "running", &format!("t-{name}")));
    }
}

/// A silent claimant loses the task, and a new task replaces it.
pub async fn foreign_state_with_an_expired_lease_gets_a_new_task(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    let queue = fixtures.harness.client.queue();
    queue.submit(new_task("t", Some(Duration::from_millis(1)))).await.unwrap();
    let want = Want { owner: "theirs".to_owned(), queue: queue_of("t"), kind: None, limit: 1 };
    let claimed = queue.claim(want).await.unwrap().remove(0);
    fixtures.put("wf", &state("wf", "running", "t")).await;
    eventually("its lease is over", || async { fixtures.sweep().await.healed == 1 }).await;
    let new = fixtures.task("wf").await.unwrap();
    assert_eq!((new.state, new.queue.as_str()), (TaskState::Ready, "default"));
    let late = queue.complete(&claimed.id, claimed.fence, Payload::null()).await;
    assert!(late.is_err(), "the old claimant is refused");
}

/// States that ended, are paused, have no task or cannot be parsed are skipped.
pub async fn irrelevant_foreign_states_are_skipped(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    let bodies = [
        ("a", state("a", "completed", "gone")),
        ("b", state("b", "failed", "gone")),
        ("c", state("c", "paused", "gone")),
        ("d", r#"{"id":"d","status":"running","updated_at":1}"#.to_owned()),
        ("e", r#"{"id":"e","status":"running","orchestrator_task_id":null,"updated_at":1}"#.to_owned()),
        ("f", "no JSON at all".to_owned()),
        ("g", state("another", "running", "gone")),
    ];
    for (name, body) in &bodies {
        fixtures.put(name, body).await;
    }
    let report = fixtures.sweep().await;
    assert_eq!((report.scanned, report.skipped, report.stalled.len()), (7, 7, 0), "{report:?}");
    // Settled states are not read again, and one without valid JSON has no text; the others are unchanged.
    for state in fixtures.place.states(None, 100).await.unwrap().items {
        assert!(bodies.iter().any(|(name, body)| state.id == id(name) && state.body == *body), "{state:?}");
    }
    assert_eq!(fixtures.all_tasks().await, []);
}

/// A dry run only reports, and a finding must hold while the state is unchanged.
pub async fn a_foreign_state_must_have_been_stalled_for_a_while(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    fixtures.put("wf", &state("wf", "running", "gone")).await;
    let dry = sweep(&fixtures.harness.client, SweepOptions { dry_run: true, ..at_once() }).await;
    assert_eq!((fates(&dry), dry.healed), (vec![("wf", Fate::Reported)], 0));
    let hour = SweepOptions { stale_after: Some(Duration::from_secs(3600)), ..at_once() };
    let mut patient = fixtures.harness.client.sweeper(hour);
    let first = patient.sweep().await.unwrap().foreign.unwrap();
    let second = patient.sweep().await.unwrap().foreign.unwrap();
    assert_eq!((fates(&first), fates(&second)), (vec![("wf", Fate::Young)], vec![("wf", Fate::Young)]));
    assert_eq!(first.stalled[0].since, second.stalled[0].since);
    fixtures.put("wf", &state("wf", "compensating", "gone")).await;
    eventually("its owner's write restarts the wait", || async {
        let report = fixtures
            .harness
            .client
            .sweeper(SweepOptions { foreign: asked(), ..SweepOptions::default() })
            .sweep()
            .await
            .unwrap();
        report.foreign.unwrap().stalled[0].since > first.stalled[0].since
    })
    .await;
    let third = patient.sweep().await.unwrap().foreign.unwrap();
    assert!(third.stalled[0].since > first.stalled[0].since);
    assert_eq!(fixtures.all_tasks().await, []);
    assert_eq!(fixtures.body("wf").await, state("wf", "compensating", "gone"));
}

/// Concurrent sweepers create one task, and a finished task is replaced again.
pub async fn many_sweepers_give_a_foreign_state_one_task(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    fixtures.put("wf", &state("wf", "running", "gone")).await;
    for count in 1..=3 {
        let sweeps = (0..8).map(|_| async { fixtures.sweep().await.healed });
        let healed: u64 = futures_util::future::join_all(sweeps).await.into_iter().sum();
        assert_eq!((healed, fixtures.all_tasks().await.len()), (1, count));
        let task = fixtures.task("wf").await.unwrap();
        let want = Want { owner: "w".to_owned(), queue: default_queue(), kind: None, limit: 1 };
        let queue = fixtures.harness.client.queue();
        let claimed = queue.claim(want).await.unwrap().remove(0);
        assert_eq!(claimed.id, task.id);
        queue.complete(&claimed.id, claimed.fence, Payload::null()).await.unwrap();
        let feed = fixtures.harness.client.recoveries(None, 100).await.unwrap();
        assert_eq!(feed.len(), count, "each heal is in the feed once: {feed:?}");
        let HealedSubject::Record(newest) = &feed[0].subject else { panic!("not a record: {feed:?}") };
        let named = (feed[0].recovered.rule.as_str(), newest.heal.state.as_ref().map(|state| state.as_str()));
        assert_eq!(named, ("foreign", Some("wf")));
    }
}

/// The sweeps of an engine heal foreign states.
pub async fn an_engine_heals_foreign_states(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    fixtures.put("wf", &state("wf", "waiting_signal", "gone")).await;
    let engine = fixtures.harness.builder_like(Recovery::default(), Some(Duration::from_millis(20)));
    let engine = engine.foreign_states(ForeignOptions::default()).start().await.unwrap();
    eventually("it has a task", || async { fixtures.task("wf").await.is_some() }).await;
    engine.shutdown().await;
}

/// Whichever call fails, the next sweep leaves one task that the state names.
pub async fn failing_store_leaves_foreign_state_to_the_next_sweep(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    for fault in [CallFault::FailBefore, CallFault::LoseReply] {
        for number in 1..20 {
            let name = format!("wf-{number}-{}", fault == CallFault::LoseReply);
            fixtures.put(&name, &state(&name, "running", "gone")).await;
            let before = fixtures.all_tasks().await.len();
            let link = Arc::new(FaultyStore::new(
                Arc::clone(fixtures.harness.store()),
                FaultPlan::pass().at(number, fault),
            ));
            let limits = Limits { store_patience: Duration::ZERO, ..Limits::default() };
            let client = Client::with(link.clone(), Arc::new(SystemClock), Arc::new(OsEntropy), limits);
            let _ = client.sweeper(at_once()).sweep().await;
            fixtures.sweep().await;
            let task = fixtures.task(&name).await.unwrap();
            assert_eq!(task.state, TaskState::Ready, "{fault:?} {number}");
            assert_eq!(fixtures.body(&name).await, state(&name, "running", task.id.as_str()));
            assert_eq!(fixtures.all_tasks().await.len(), before + 1, "{fault:?} {number}");
            let reached = link.calls().iter().any(|call| call.op == StoreMethod::SwapForeign);
            fixtures.put(&name, &state(&name, "completed", "gone")).await;
            if reached && link.count() < number {
                break;
            }
        }
    }
}

/// A queue outside Goldseam.
#[derive(Debug)]
struct Theirs;

#[async_trait::async_trait]
impl TaskLookup for Theirs {
    async fn look_up(&self, task: &str) -> Result<TaskStanding, Box<dyn std::error::Error + Send + Sync>> {
        match task {
            "live" => Ok(TaskStanding::Live),
            "late" => Ok(TaskStanding::LeaseOver { why: "since noon".to_owned() }),
            "down" => Err("their queue does not answer".into()),
            _ => Ok(TaskStanding::Missing),
        }
    }
}

/// The system that keeps the states reports the standing of their tasks, and new tasks go to its queue.
pub async fn foreign_tasks_are_looked_up_in_their_own_queue(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    for task in ["live", "late", "down", "gone"] {
        fixtures.put(&format!("wf-{task}"), &state(&format!("wf-{task}"), "running", task)).await;
    }
    let queue = QueueName::new("theirs").unwrap();
    let kind = "orchestrate".to_owned();
    let foreign = Some(ForeignOptions { queue, kind, lookup: Some(Arc::new(Theirs)) });
    let report = sweep(&fixtures.harness.client, SweepOptions { foreign, ..at_once() }).await;
    let failed = Fate::Failed("their queue does not answer".to_owned());
    let expected = [("wf-down", failed), ("wf-gone", Fate::Healed), ("wf-late", Fate::Healed)];
    assert_eq!((fates(&report), report.healthy), (expected.to_vec(), 1));
    assert_eq!(report.stalled[2].evidence, "its task late is held by a dead claimant: since noon");
    let new = fixtures.task("wf-gone").await.unwrap();
    assert_eq!((new.queue.as_str(), new.kind.as_str()), ("theirs", "orchestrate"));
    assert_eq!(fixtures.all_tasks().await.len(), 2, "the others are as they were");
}

/// An engine without the option does not change foreign states.
pub async fn engines_leave_foreign_states_alone_unless_asked(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    let body = state("wf", "running", "a-task-of-their-own-queue");
    fixtures.put("wf", &body).await;
    // Later sweeps also heal at once: the run below may lose its task after the first sweep.
    let recovery = Recovery { stale_after: Duration::from_millis(1), ..Recovery::default() };
    let sweeps = || fixtures.harness.builder_like(recovery.clone(), Some(Duration::from_millis(20)));
    let engine = sweeps().start().await.unwrap();
    // It has swept once it has healed a run that was stalled before it started.
    fixtures.harness.start("two", "r", "true").await;
    let task = fixtures.harness.task("r").await.unwrap();
    fixtures.harness.damage().lose_task(&task.id).await;
    let swept = || async { fixtures.harness.row("r").await.summary.recoveries > 0 };
    eventually("it has swept", swept).await;
    engine.shutdown().await;
    assert_eq!(fixtures.body("wf").await, body);
    let engine = sweeps().foreign_states(ForeignOptions::default()).start().await.unwrap();
    eventually("it was asked to", || async { fixtures.body("wf").await != body }).await;
    engine.shutdown().await;
}

/// A stale claim is cancelled with an audit entry.
pub async fn a_lapsed_foreign_task_is_cancelled_with_an_audit_entry(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    let queue = fixtures.harness.client.queue();
    queue.submit(new_task("t", Some(Duration::from_millis(1)))).await.unwrap();
    let want = Want { owner: "theirs".to_owned(), queue: queue_of("t"), kind: None, limit: 1 };
    queue.claim(want).await.unwrap().remove(0);
    fixtures.put("wf", &state("wf", "running", "t")).await;
    eventually("it is healed", || async { fixtures.sweep().await.healed == 1 }).await;
    let over = queue.get(&TaskId::new("t").unwrap()).await.unwrap();
    let entry = &over.audit.last().unwrap().what;
    assert!(entry.starts_with("cancelled, held by theirs: its task t is held by a dead claimant"), "{entry}");
}

/// A settled state is read once, and again after it changes.
pub async fn a_settled_foreign_state_is_read_again_once_it_changes(fixture: &Fixture) {
    let Some(fixtures) = Fixtures::on(fixture) else { return };
    fixtures.put("wf", &state("wf", "completed", "t")).await;
    let sweeper = tokio::sync::Mutex::new(fixtures.harness.client.sweeper(at_once()));
    let sweep = || async { sweeper.lock().await.sweep().await.unwrap().foreign.unwrap() };
    assert_eq!(sweep().await.skipped, 1);
    sweep().await;
    fixtures.put("wf", &state("wf", "running", "gone")).await;
    assert_eq!(sweep().await.healed, 1);
}
