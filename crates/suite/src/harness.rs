//! Shared by the cases: workflows, ways to stop them in the middle, and forged events.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam_conformance::{Damage, Fixture};
use goldseam_core::decide::Stamped;
use goldseam_core::seal::{Place, seal};
use goldseam_core::task::Task;
use goldseam_core::{Event, Millis, Path, Payload, QueueName, Recorded, RunId, Status, WriteId};
use goldseam_store::{Append, Expect, Row, Store, TaskFilter};

use super::eventually;
use goldseam_engine::client::doctor::{Checkup, DoctorOptions};
use goldseam_engine::ledger::config::{Config, Recovery};
use goldseam_engine::run::context::Context;
use goldseam_engine::{Builder, Client, Engine, Error};

/// A store with runs to heal.
#[derive(Debug)]
pub struct Harness<'a> {
    /// The store and its clock.
    pub fixture: &'a Fixture,
    /// A client.
    pub client: Client,
    /// Counts of step executions.
    pub witness: EffectCounter,
}

/// Counts effects by name.
#[derive(Debug, Clone, Default)]
pub struct EffectCounter(Arc<Mutex<BTreeMap<String, u32>>>);

impl EffectCounter {
    /// Counts one more.
    pub fn saw(&self, what: &str) -> u32 {
        let mut all = self.0.lock().unwrap();
        let count = all.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// The count.
    pub fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }
}

/// Creates a run id.
pub fn id(run: &str) -> RunId {
    RunId::new(run).unwrap()
}

fn quick() -> Config {
    Config {
        beat: Duration::from_millis(100),
        watch: Duration::from_millis(20),
        grace: Duration::from_millis(50),
        linger: Duration::from_millis(20),
        poll: Duration::from_millis(50),
        drain: Duration::from_millis(20),
        sweep: None,
        // A case heals explicitly, at the moment that it chooses.
        monitor: Duration::from_secs(3_600),
        ..Config::default()
    }
}

impl<'a> Harness<'a> {
    /// Creates a harness on this store.
    pub fn on(fixture: &'a Fixture) -> Self {
        let client = Client::new(Arc::clone(&fixture.store));
        Self { fixture, client, witness: EffectCounter::default() }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.fixture.store
    }

    /// The handle that damages the store.
    pub fn damage(&self) -> &Arc<dyn Damage> {
        self.fixture.damage.as_ref().expect("a fixture of this suite can damage its data")
    }

    /// A builder of an engine that does not sweep.
    pub fn builder(&self) -> Builder {
        self.builder_with(quick())
    }

    /// A builder with this recovery and sweep interval.
    pub fn builder_like(&self, recovery: Recovery, sweep: Option<Duration>) -> Builder {
        self.builder_with(Config { recovery, sweep, ..quick() })
    }

    /// A builder whose engine keeps waiting runs in memory for this long.
    pub fn builder_lingering(&self, linger: Duration) -> Builder {
        self.builder_with(Config { linger, ..quick() })
    }

    /// A builder whose engine compares `walk` rows with their logs in each sweep.
    pub fn builder_walking(&self, walk: u32, sweep: Duration) -> Builder {
        self.builder_with(Config { walk: Some(walk), sweep: Some(sweep), ..quick() })
    }

    /// A builder whose engine takes runs from these queues.
    pub fn builder_taking(&self, queues: Vec<QueueName>) -> Builder {
        self.builder_with(Config { queues, ..quick() })
    }

    fn builder_with(&self, config: Config) -> Builder {
        Engine::builder(Arc::clone(self.store())).config(config)
    }

    /// An engine of `two`: `a`, then `b`, which ends only if its input is true.
    pub async fn two_steps(&self) -> Engine {
        self.two_steps_on(self.builder()).await
    }

    /// The engine of `two` on another builder.
    pub async fn two_steps_on(&self, builder: Builder) -> Engine {
        let witness = self.witness.clone();
        let work = move |ctx: Context, open: bool| {
            let witness = witness.clone();
            async move {
                let a = ctx.step("a", || seen(&witness, "a")).await?;
                let b = ctx.step("b", || at_the_door(&witness, "b", open)).await?;
                Ok::<u32, Error>(a + b)
            }
        };
        builder.workflow("two", work).plan("two", ["a", "b"]).start().await.unwrap()
    }

    /// The engine of `two` whose `b` ends at once.
    pub async fn two_steps_open(&self) -> Engine {
        let witness = self.witness.clone();
        let work = move |ctx: Context, _: bool| {
            let witness = witness.clone();
            async move {
                let a = ctx.step("a", || seen(&witness, "a")).await?;
                let b = ctx.step("b", || at_the_door(&witness, "b", true)).await?;
                Ok::<u32, Error>(a + b)
            }
        };
        self.builder().workflow("two", work).plan("two", ["a", "b"]).start().await.unwrap()
    }

    /// An engine of `asking`: `a`, then a question, then `c`.
    pub async fn asking(&self) -> Engine {
        let witness = self.witness.clone();
        let work = move |ctx: Context, (): ()| {
            let witness = witness.clone();
            async move {
                ctx.step("a", || seen(&witness, "a")).await?;
                let answer: String = ctx.ask("approve", "Ship it?").await?;
                ctx.step("c", || seen(&witness, "c")).await?;
                Ok::<String, Error>(answer)
            }
        };
        self.builder().workflow("asking", work).start().await.unwrap()
    }

    /// An engine of `waits`, which waits for a signal, a time or a child, by its input.
    pub async fn waiting(&self) -> Engine {
        self.waiting_on(self.builder()).await
    }

    /// The engine of `waits` on another builder.
    pub async fn waiting_on(&self, builder: Builder) -> Engine {
        let work = |ctx: Context, what: String| async move {
            match what.as_str() {
                "signal" => ctx.signal::<u32>("go").await,
                "child" => ctx.child::<u32>("kid", "waits", &"signal").await,
                _ => {
                    ctx.sleep("nap", Duration::from_millis(what.parse().unwrap_or(0))).await?;
                    Ok::<u32, Error>(7)
                }
            }
        };
        builder.workflow("waits", work).start().await.unwrap()
    }

    /// Starts a run.
    pub async fn start(&self, workflow: &str, run: &str, input: &str) {
        let input = Payload::parse(input, &goldseam_core::Limits::default()).unwrap();
        self.client.start(workflow, &id(run), &input).await.unwrap();
    }

    /// Waits until the run has this status.
    pub async fn reaches(&self, run: &str, status: Status) {
        let run = id(run);
        let reached = || async { self.client.get(&run).await.is_ok_and(|summary| summary.status == status) };
        eventually(&format!("{run} is {status}"), reached).await;
    }

    /// Waits until a step was executed `times` times.
    pub async fn sees(&self, what: &str, times: u32) {
        eventually(&format!("{what} is seen {times} times"), || async { self.witness.count(what) >= times })
            .await;
    }

    /// Waits until the log has an event with this name.
    pub async fn has_event(&self, run: &str, name: &str) {
        let there = || async { self.names(run).await.iter().any(|event| event == name) };
        eventually(&format!("{run} has {name}"), there).await;
    }

    /// A run of `two` between `a` and `b`, without an owner.
    pub async fn between_steps(&self, run: &str) {
        let engine = self.two_steps().await;
        engine.start("two", run, &false).await.unwrap();
        self.has_event(run, "step.completed").await;
        engine.shutdown().await;
        self.reaches(run, Status::Queued).await;
    }

    /// A run of `asking` with an open question, without an owner.
    pub async fn at_the_question(&self, run: &str) {
        self.asked(run).await.shutdown().await;
    }

    /// Like [`Harness::at_the_question`], with the engine that could continue it.
    pub async fn asked(&self, run: &str) -> Engine {
        let engine = self.asking().await;
        self.start("asking", run, "null").await;
        self.reaches(run, Status::Waiting).await;
        self.rests(run).await;
        engine
    }

    /// A run of `waits` that waits, without an owner.
    pub async fn at_rest(&self, run: &str, input: &str, status: Status) {
        let engine = self.waiting().await;
        self.start("waits", run, input).await;
        self.reaches(run, status).await;
        self.rests(run).await;
        engine.shutdown().await;
    }

    /// Waits until the run has no owner.
    pub async fn rests(&self, run: &str) {
        let run = id(run);
        let free = || async { self.client.get(&run).await.is_ok_and(|summary| summary.owner.is_none()) };
        eventually(&format!("{run} has no owner"), free).await;
    }

    /// Names of the run's events.
    pub async fn names(&self, run: &str) -> Vec<String> {
        let history = self.client.history(&id(run)).await.unwrap_or_default();
        history.iter().map(|recorded| recorded.event.name().to_owned()).collect()
    }

    /// The recoveries of a run, by rule.
    pub async fn rules(&self, run: &str) -> Vec<String> {
        let history = self.client.readable(&id(run)).await.unwrap();
        let rule = |recorded: &Recorded| match &recorded.event {
            Event::RunRecovered(recovered) => {
                assert!(recovered.attempt >= 1, "rule {} records attempt 0", recovered.rule);
                Some(recovered.rule.clone())
            }
            _ => None,
        };
        history.iter().filter_map(rule).collect()
    }

    /// The cached row.
    pub async fn row(&self, run: &str) -> Row {
        self.store().head(&id(run)).await.unwrap().unwrap().row.unwrap()
    }

    /// Writes a wrong row.
    pub async fn lie(&self, run: &str, change: impl FnOnce(&mut goldseam_core::Summary)) {
        let mut row = self.row(run).await;
        let expect = Expect::Version(row.version());
        change(&mut row.summary);
        assert_eq!(self.store().put_row(row, expect).await.unwrap(), goldseam_store::Written::Done);
    }

    /// The run's advance task.
    pub async fn task(&self, run: &str) -> Option<Task> {
        let id = self.row(run).await.task?;
        let filter = TaskFilter { id: Some(id), limit: 1, ..TaskFilter::default() };
        self.store().tasks(filter).await.unwrap().into_iter().next()
    }

    /// Changes the run's advance task in an invalid way.
    pub async fn tamper(&self, run: &str, change: impl FnOnce(Task) -> Task) {
        let task = self.task(run).await.unwrap();
        let expect = Expect::Version(task.version);
        let version = task.version + 1;
        let changed = Task { version, ..change(task) };
        assert_eq!(self.store().put_task(changed, expect).await.unwrap(), goldseam_store::Written::Done);
    }

    /// Appends events without a decision, as a faulty writer might. The row matches the log.
    pub async fn forge(&self, run: &str, events: Vec<Event>) {
        let run = id(run);
        let state = self.client.state(&run).await.unwrap();
        let summary = &state.summary;
        let now = self.store().now().await.unwrap();
        let place = Place {
            after: summary.as_of,
            prev: summary.head,
            branch: summary.branch,
            epoch: None,
            write: WriteId(u64::try_from(now.0).unwrap_or(1)),
        };
        let sealed = seal(place, events.into_iter().map(|event| Stamped { at: now, event }).collect());
        let row = goldseam_core::seal::row_after(summary, &sealed).unwrap();
        let append = Append {
            run,
            after: summary.as_of,
            bodies: sealed.bodies,
            row: Some(Box::new(row)),
            tasks: Vec::new(),
        };
        self.store().append(append).await.unwrap();
    }

    /// Examines the whole store and heals.
    pub async fn fix(&self) -> Checkup {
        self.client.doctor(DoctorOptions { fix: true, ..DoctorOptions::default() }).await.unwrap()
    }

    /// Examines the whole store without a write.
    pub async fn look(&self) -> Checkup {
        self.client.doctor(DoctorOptions::default()).await.unwrap()
    }

    /// The codes of the doctor's findings, without a write.
    pub async fn codes(&self) -> Vec<String> {
        self.look().await.findings.iter().map(|finding| finding.code.to_string()).collect()
    }

    /// The output of the run.
    pub async fn result<T: serde::de::DeserializeOwned>(&self, run: &str) -> T {
        self.client.handle(id(run)).result().await.unwrap()
    }
}

async fn seen(witness: &EffectCounter, what: &str) -> Result<u32, Error> {
    witness.saw(what);
    Ok(1)
}

async fn at_the_door(witness: &EffectCounter, what: &str, open: bool) -> Result<u32, Error> {
    witness.saw(what);
    if !open {
        std::future::pending::<()>().await;
    }
    Ok(1)
}

/// Creates a path.
pub fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

/// A time that never comes.
pub const NEVER: Millis = Millis::NEVER;
