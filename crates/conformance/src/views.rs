//! The views of SQL stores, compared with `derive`.
//!
//! Views are the only part of a store that reads events. Everything that a view shows of a run is therefore computed
//! a second time, from the log by `derive` and from the records of tasks and nodes, and both must be equal.

mod derived;

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::codec::{chain, decode};
use goldseam_core::command::Owned;
use goldseam_core::task::Task;
use goldseam_core::{Failure, Path, Payload, QueueName, RunId, Seq, derive};
use goldseam_store::api::{Append, NodeRecord, NodeState, RunFilter};

use self::derived::{Derived, Known, event, happened, job};
use super::Fixture;
use super::make::{ALL, T, append, at, run, task, task_id};
use super::random_runs::{RandomRun, jump_to, local, record, reset};

/// A way to query the views of a store directly.
#[async_trait]
pub trait Views: Debug + Send + Sync + 'static {
    /// Returns the rows of a query, as text.
    async fn ask(&self, sql: &str) -> Vec<Cells>;

    /// Returns SQL that converts a time of a view to milliseconds.
    fn millis(&self, column: &str) -> String;
}

/// A row as text; none is null.
pub type Cells = Vec<Option<String>>;

const STEP: &str = "id, step_id, status, {started_at}, {completed_at}, {last_heartbeat_at}, attempt, retry_count, \
    failure_reason, error_message, job_run_id, owner";
const RUN: &str = "id, workflow_name, status, goldseam_status, parent_run_id, owner, {owner_beat_at}, {created_at}, \
    {completed_at}, {recovered_at}, failure_reason, error_message";
const EVENT: &str = "workflow_run_id, id, event_type, {created_at}, branch, step_id, attempt";
const NEWS: &str = "workflowId, workflowName, type, attempt, reason, {timestamp}";

/// Returns these columns of a view, with times in milliseconds.
pub async fn shown(views: &dyn Views, columns: &str, from: &str) -> Vec<Cells> {
    let mut sql = "SELECT ".to_owned();
    for (at, piece) in columns.split(['{', '}']).enumerate() {
        sql += &if at % 2 == 1 { views.millis(piece) } else { piece.to_owned() };
    }
    views.ask(&format!("{sql} FROM {from}")).await
}

/// Describes where a view of this run differs from `derive` or from the records of tasks and nodes; none if they
/// agree.
///
/// A log that cannot be derived and a damaged row are not compared.
pub async fn difference(fixture: &Fixture, run: &RunId) -> Option<String> {
    let views = fixture.views.as_deref()?;
    let known = Known::of(fixture).await;
    let life = Derived::read(fixture, run).await?;
    let of_run = format!("workflow_run_id = '{run}'");
    let mut steps = shown(views, STEP, &format!("workflow_run_steps WHERE {of_run}")).await;
    steps.sort_by_key(|cells| cells[1].clone().map(|path| Path::new(&path).unwrap()));
    let wanted: Vec<Cells> = life.steps().iter().map(|(path, step)| known.step(&life, path, step)).collect();
    let mut all = vec![(steps, wanted)];
    if life.is_cached(fixture).await {
        let found = shown(views, RUN, &format!("workflow_runs WHERE id = '{run}'")).await;
        all.push((found, vec![known.run(&life)]));
    }
    let history = format!("workflow_execution_history WHERE {of_run} ORDER BY id");
    let wanted = life.history.iter().map(|recorded| event(&life, recorded)).collect();
    all.push((shown(views, EVENT, &history).await, wanted));
    let mut found = shown(views, NEWS, &format!("workflow_events WHERE workflowId = '{run}'")).await;
    let mut wanted: Vec<Cells> =
        life.history.iter().filter_map(|recorded| happened(&life, recorded)).collect();
    found.sort();
    wanted.sort();
    all.push((found, wanted));
    let events = || life.history.iter().map(|recorded| recorded.event.name()).collect::<Vec<_>>();
    let (found, wanted) = all.into_iter().find(|(found, wanted)| found != wanted)?;
    Some(format!("{run} is shown as\n{found:#?}\nand is\n{wanted:#?}\n{:?}", events()))
}

/// Asserts that every view agrees with this run.
async fn shows_as_derived(fixture: &Fixture, run: &RunId) {
    if let Some(difference) = difference(fixture, run).await {
        panic!("{difference}");
    }
}

/// Describes where a view of any run differs.
pub async fn any_difference(fixture: &Fixture) -> Option<String> {
    let page = fixture.store.runs(RunFilter { limit: ALL, ..RunFilter::default() }).await.unwrap();
    for row in page.items {
        if let Some(difference) = difference(fixture, &row.summary.run).await {
            return Some(difference);
        }
    }
    None
}

const JOB: &str = "id, job_name, queue, status, workflow_run_id, step_id, owner, {created_at}, {started_at}, \
    {completed_at}, {last_heartbeat_at}, retry_count, delivery_count, failure_reason, error_message";
/// The query for stale steps from the runbook, without the store's own time functions.
const STALE: &str = "workflow_run_steps wrs JOIN workflow_runs wr ON wr.id = wrs.workflow_run_id \
    WHERE wrs.status = 'running' AND wr.status = 'running' ORDER BY wrs.id";
/// Number of steps of a random run.
const STEPS: u32 = 80;
const ALL_VIEWS: [&str; 5] =
    ["workflow_runs", "workflow_run_steps", "workflow_execution_history", "job_runs", "workflow_events"];

/// The golden histories of the core, event by event: views show everything that was ever written.
pub async fn golden_histories_are_shown_as_derived(fixture: &Fixture) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../core/tests/golden");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|file| file.extension().is_some_and(|ext| ext == "jsonl")).collect();
    files.sort();
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().replace('_', "-");
        let id = run(&name);
        let mut history = Vec::new();
        for (seq, body) in (1..).map(Seq).zip(std::fs::read_to_string(&file).unwrap().lines()) {
            history.push(decode(seq, body).unwrap());
            let row = derive(&id, &history, chain(body)).unwrap().summary;
            fixture.append(Append { row: Some(Box::new(row)), ..append(&name, seq.0 - 1, &[body]) }).await;
            shows_as_derived(fixture, &id).await;
        }
    }
}

/// Random runs, examined on their way.
pub async fn random_runs_are_shown_as_derived(fixture: &Fixture, seed: u64) {
    if fixture.views.is_none() {
        return;
    }
    let mut life = RandomRun::begin(fixture, &format!("life-{seed}"), seed).await;
    for step in 0..STEPS {
        life.step().await;
        if step % 3 == 0 {
            shows_as_derived(fixture, &life.run).await;
        }
    }
    shows_as_derived(fixture, &life.run).await;
}

/// A step that was running after the cutoff of a new branch disappears; its events stay.
pub async fn steps_of_a_left_branch_are_not_shown(fixture: &Fixture) {
    let Some(views) = fixture.views.as_deref() else { return };
    let mut life = RandomRun::begin(fixture, "r", 1).await;
    life.claim(1).await;
    life.owned(vec![life.completed("a")]).await;
    life.owned(vec![life.completed("b")]).await;
    life.owned(vec![life.started("c")]).await;
    let steps = || views.ask("SELECT step_id, status FROM workflow_run_steps ORDER BY step_id");
    let row = |step: &str, status: &str| vec![Some(step.to_owned()), Some(status.to_owned())];
    assert_eq!(steps().await, [row("a", "completed"), row("b", "completed"), row("c", "running")]);
    assert!(life.act(&jump_to("j", "b")).await);
    assert_eq!(steps().await, [row("a", "completed")], "b and c ran on the branch that was left");
    shows_as_derived(fixture, &life.run).await;
    life.claim(2).await;
    life.owned(vec![life.started("b")]).await;
    assert_eq!(steps().await, [row("a", "completed"), row("b", "running")]);
    assert!(life.act(&reset("o")).await);
    assert_eq!(steps().await, [row("a", "completed")]);
    shows_as_derived(fixture, &life.run).await;
    let branches = "SELECT branch, count(*) FROM workflow_execution_history GROUP BY branch ORDER BY branch";
    let branches = views.ask(branches).await;
    assert_eq!(
        branches.iter().map(|cells| cells[0].as_deref().unwrap()).collect::<Vec<_>>(),
        ["1", "2", "3"]
    );
}

/// A remote step runs while a worker has its task, and only then the query for stale steps finds it.
pub async fn a_remote_step_runs_while_a_worker_has_its_task(fixture: &Fixture) {
    let Some(views) = fixture.views.as_deref() else { return };
    let mut life = RandomRun::begin(fixture, "r", 1).await;
    life.claim(1).await;
    let started = life.remote(0);
    let id = started.remote.as_ref().unwrap().task.clone();
    life.owned(vec![Owned::StepStarted(started)]).await;
    life.owned(vec![Owned::Release(goldseam_core::event::Release::Unload)]).await;
    let stale = || shown(views, "wrs.step_id, {wrs.last_heartbeat_at}, wrs.owner, wr.goldseam_status", STALE);
    assert!(stale().await.is_empty(), "no worker has it");
    shows_as_derived(fixture, &life.run).await;
    let task = fixture.find(id.as_str()).await.unwrap();
    let claimed = task.clone().claimed("w-1", at(5_000));
    fixture.replace(claimed.clone(), task.version).await;
    let seen = |at: i64| [vec![text("r0"), text(T.0 + at), text("w-1"), text("waiting")]];
    assert_eq!(stale().await, seen(5_000));
    fixture.replace(claimed.clone().beaten(1, at(9_000)).unwrap(), claimed.version).await;
    assert_eq!(stale().await, seen(9_000), "the heartbeat of a job counts for its step");
    shows_as_derived(fixture, &life.run).await;
    life.brings(id.as_str(), Err(Failure::retryable("no memory"))).await;
    assert!(stale().await.is_empty(), "it waits for its next attempt");
    shows_as_derived(fixture, &life.run).await;
}

/// A step of a node is alive by its own heartbeats or, without any, by its node's beats; a crash changes nothing
/// until another node owns the run.
pub async fn a_local_step_is_alive_by_its_own_or_its_nodes_heartbeats(fixture: &Fixture) {
    let Some(views) = fixture.views.as_deref() else { return };
    let mut life = RandomRun::begin(fixture, "r", 1).await;
    fixture.clock.set(at(20));
    fixture.store.beat(&record(1)).await.unwrap();
    life.claim(1).await;
    life.owned(vec![life.started("s1"), life.started("s2")]).await;
    life.keep_details(1).await;
    let signs = || shown(views, "wrs.step_id, {wrs.last_heartbeat_at}, wrs.owner", STALE);
    let own = life.now().0;
    let seen =
        |s1: i64, s2: i64| [vec![text("s1"), text(s1), text("n-1")], vec![text("s2"), text(s2), text("n-1")]];
    assert_eq!(signs().await, seen(own, T.0 + 20));
    fixture.clock.set(at(60_000));
    fixture.store.beat(&record(1)).await.unwrap();
    assert_eq!(signs().await, seen(own, T.0 + 60_000), "a step's own heartbeat counts");
    fixture.store.beat(&NodeRecord { state: NodeState::Gone, ..record(1) }).await.unwrap();
    shows_as_derived(fixture, &life.run).await;
    life.wait(Duration::from_secs(1)).await;
    fixture.store.beat(&record(2)).await.unwrap();
    let beat = life.now().0;
    life.claim(2).await;
    life.owned(vec![life.started("s1")]).await;
    shows_as_derived(fixture, &life.run).await;
    assert_eq!(
        signs().await[0],
        [text("s1"), text(beat), text("n-2")],
        "the heartbeat of an older attempt does not count"
    );
}

/// Users' tasks in every state, with their attempts; tasks of the engine itself are not jobs.
pub async fn jobs_match_their_records(fixture: &Fixture) {
    let Some(views) = fixture.views.as_deref() else { return };
    let failed = |code: &str| Failure::retryable("no luck").with_code(code);
    let claimed = |name: &str| task(name).claimed("w-1", at(10));
    let again = claimed("again").failed(1, failed("timeout"), at(20)).unwrap();
    let mut tasks = vec![
        task("ready"),
        claimed("claimed"),
        claimed("beaten").beaten(1, at(30)).unwrap(),
        claimed("done").completed(1, Payload::null(), at(40)).unwrap(),
        again.clone(),
        Task { attempts_max: 2, ..again.clone() }
            .claimed("w-2", at(500))
            .failed(2, failed("oom"), at(600))
            .unwrap(),
        claimed("cancelled").cancelled(at(50)).unwrap(),
        claimed("dead").reclaimed("it was silent", 0, at(60)),
        Task { queue: QueueName::new("goldseam-mail").unwrap(), ..task("mail") },
        Task { queue: QueueName::new("goldseam-heartbeat").unwrap(), ..claimed("details") },
        super::make::advance("r", "own"),
    ];
    tasks[5].id = task_id("failed");
    for task in &tasks {
        fixture.submit(task.clone()).await;
    }
    tasks.sort_by_key(|task| task.id.clone());
    let found = shown(views, JOB, "job_runs ORDER BY id").await;
    let wanted: Vec<Cells> = tasks.iter().filter_map(job).collect();
    assert_eq!(found, wanted);
    let mut life = RandomRun::begin(fixture, "r", 1).await;
    life.claim(1).await;
    let started = life.remote(0);
    let id = started.remote.as_ref().unwrap().task.clone();
    life.owned(vec![Owned::StepStarted(started)]).await;
    life.given_up(&id).await;
    let silent =
        format!("SELECT status, step_id, retry_count, failure_reason FROM job_runs WHERE id = '{id}'");
    let seen = [text("cancelled"), text("r0"), text("0"), text("heartbeat-timeout")];
    assert_eq!(views.ask(&silent).await, [seen], "the log knows why it was dropped");
}

/// Whatever a log or a row contains, a view shows the readable part, and the rest as it is.
pub async fn damage_is_shown_and_stops_no_view(fixture: &Fixture) {
    let (Some(views), Some(damage)) = (fixture.views.as_deref(), &fixture.damage) else { return };
    let mut life = RandomRun::begin(fixture, "r", 1).await;
    life.claim(1).await;
    let odd = "{\"nul\":\"a\\u0000\\\\u0000\",\"half\":\"\\ud800\",\"huge\":1e999999}";
    for (step, output) in [("a", odd), ("b", "null"), ("c", "1")] {
        // Older releases accepted such payloads.
        let output: Payload = serde_json::from_str(output).unwrap();
        life.owned(vec![local(life.completed(step), output)]).await;
    }
    shows_as_derived(fixture, &life.run).await;
    let last = life.end();
    for body in [
        "",
        "{",
        "[]",
        "null",
        "{\"v\":1,\"at\":\"x\",\"branch\":[],\"event\":{\"type\":\"branch.opened\",\"data\":{\"branch\":\"x\"}}}",
        "{\"at\":1e99,\"branch\":1,\"event\":{\"type\":\"step.failed\",\"data\":{\"path\":7,\"failure\":8}}}",
        "{\"at\":9223372036854775807,\"branch\":1,\"event\":{\"type\":\"step.started\",\"data\":5}}",
    ] {
        damage.corrupt(&life.run, last, body).await;
        for view in ALL_VIEWS {
            views.ask(&format!("SELECT * FROM {view}")).await;
        }
        let steps = views.ask("SELECT step_id FROM workflow_run_steps WHERE step_id IN ('a', 'b')").await;
        assert_eq!(steps.len(), 2, "{body}");
    }
    damage.corrupt(&life.run, last, "{").await;
    let torn = format!("SELECT event_type, event_payload FROM workflow_execution_history WHERE id = {last}");
    assert_eq!(views.ask(&torn).await, [[None, text("\"{\"")]]);
    damage.lose_row(&life.run).await;
    damage.lose_event(&life.run, Seq(2)).await;
    for view in ALL_VIEWS {
        views.ask(&format!("SELECT * FROM {view}")).await;
    }
    let runs = views.ask("SELECT id, status FROM workflow_runs").await;
    assert_eq!(runs, [[text("r"), None]], "a run without a row is listed without a status");
}

/// Creates a store for the runbook: `silent` waits for a worker that has long been silent, `alive` for one that is
/// alive, `long` executes a step without heartbeats in a node that beats, and `fallen` lost two nodes. Nodes beat by
/// the store's clock; everything else is old.
pub async fn stalled(fixture: &Fixture) {
    for (name, beaten) in [("silent", T), ("alive", fixture.store.now().await.unwrap())] {
        let mut life = RandomRun::begin(fixture, name, 1).await;
        life.claim(1).await;
        let started = life.remote(0);
        let id = started.remote.as_ref().unwrap().task.clone();
        life.owned(vec![Owned::StepStarted(started)]).await;
        let task = fixture.find(id.as_str()).await.unwrap();
        let version = task.version;
        fixture.replace(Task { heartbeat_at: Some(beaten), ..task.claimed("w-1", T) }, version).await;
    }
    let mut life = RandomRun::begin(fixture, "long", 1).await;
    fixture.store.beat(&record(1)).await.unwrap();
    life.claim(1).await;
    life.owned(vec![life.started("pack")]).await;
    let mut life = RandomRun::begin(fixture, "fallen", 1).await;
    life.claim(1).await;
    for by in [2, 3] {
        life.takes_over(by).await;
    }
}

/// Returns the SQL of a page for this store: blocks fenced as `sql` followed by the stores that they run on.
pub fn blocks<'a>(page: &'a str, store: &str) -> Vec<&'a str> {
    let mut blocks = Vec::new();
    for piece in page.split("\n```sql").skip(1) {
        let (stores, rest) = piece.split_once('\n').unwrap();
        let (sql, _) = rest.split_once("\n```").unwrap();
        assert!(!stores.trim().is_empty(), "the block names no store: {sql}");
        if stores.split_whitespace().any(|name| name == store) {
            blocks.push(sql);
        }
    }
    blocks
}

fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use goldseam_core::Status;

    use super::*;

    /// The same random runs at the same moments reach everything that views can show.
    #[tokio::test]
    async fn random_runs_reach_everything_a_view_can_show() {
        let mut steps = BTreeSet::new();
        let mut runs = BTreeSet::new();
        let mut events = BTreeSet::new();
        let fixture = Fixture::memory();
        for seed in 0..100 {
            let mut life = RandomRun::begin(&fixture, &format!("life-{seed}"), seed).await;
            for _ in 0..STEPS {
                life.step().await;
                let known = Known::of(&fixture).await;
                let derived = Derived::read(&fixture, &life.run).await.unwrap();
                for (path, step) in derived.steps() {
                    let cells = known.step(&derived, path, step);
                    let kind = &path.as_str()[..1];
                    steps
                        .extend([2, 8].map(|at| format!("{kind} {}", cells[at].clone().unwrap_or_default())));
                }
                let cells = known.run(&derived);
                runs.extend([cells[3].clone().unwrap(), format!("{:?}", &cells[2..4])]);
                events.extend(derived.history.iter().map(|recorded| recorded.event.name()));
            }
        }
        for status in
            ["pending", "running", "completed", "cancelled", "error", "heartbeat-timeout", "canceled"]
        {
            assert!(
                steps.contains(&format!("s {status}")) && steps.contains(&format!("r {status}")),
                "{status}: {steps:?}"
            );
        }
        assert!(steps.contains("s failed") && steps.contains("s timeout"), "{steps:?}");
        assert!(Status::ALL.iter().all(|status| runs.contains(status.as_str())), "{runs:?}");
        let worked_on = format!("{:?}", [text("running"), text("waiting")]);
        assert!(runs.contains(&worked_on), "{runs:?}");
        for event in
            ["branch.opened", "compensation.completed", "jump.requested", "run.recovered", "step.timeout"]
        {
            assert!(events.contains(event), "{event}");
        }
    }
}
