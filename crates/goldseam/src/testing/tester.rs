//! The workflow under test, its script, and the searches.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use goldseam_core::state::request_signal;
use goldseam_core::task::Task;
use goldseam_core::{Limits, Payload, QueueName, RunId};
use goldseam_engine::{EngineError, Outcome, Result as StepResult};
use serde::Serialize;

use super::actors::{Message, MessageKind, Worker};
use super::case::Case;
use super::case_run::{on_new_thread, run_case};
use super::failed::{Failed, Flaw, describe_outcome};
use super::report::{CaseResult, Report};
use super::world::World;
use crate::Builder;

type Setup = dyn Fn(Builder, World) -> Builder + Send + Sync;
type Allow = dyn Fn(&Outcome) -> bool + Send + Sync;
type Check = dyn Fn(&World) -> Result<(), String> + Send + Sync;

/// Default maximum number of cases in a search.
const CASES_MAX: u64 = 2_000;
/// Default virtual time without an event after which a run counts as stuck.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A workflow under test; see the [module](crate::testing).
///
/// The searches block the calling thread and run on their own thread and runtime. Call them from `#[test]` or
/// `#[tokio::test]`.
pub struct Tester {
    pub(super) setup: Box<Setup>,
    pub(super) workflow: String,
    pub(super) run: String,
    pub(super) input: Payload,
    pub(super) script: Vec<Message>,
    pub(super) workers: Vec<Worker>,
    pub(super) patience: Duration,
    allow: Option<Box<Allow>>,
    check: Option<Box<Check>>,
    cases_max: u64,
    flaw: Option<String>,
}

impl Tester {
    /// Creates a tester. `setup` registers the workflows; the tester calls it for each node that starts, with the world
    /// of the case.
    pub fn new(setup: impl Fn(Builder, World) -> Builder + Send + Sync + 'static) -> Self {
        Self {
            setup: Box::new(setup),
            workflow: String::new(),
            run: "test".to_owned(),
            input: Payload::null(),
            script: Vec::new(),
            workers: Vec::new(),
            patience: PATIENCE,
            allow: None,
            check: None,
            cases_max: CASES_MAX,
            flaw: Some("no workflow to run: call .run(\"workflow\", &input)".to_owned()),
        }
    }

    /// Sets the workflow to run and its input.
    #[must_use]
    pub fn run(mut self, workflow: &str, input: &(impl Serialize + ?Sized)) -> Self {
        self.flaw = None;
        self.workflow = workflow.to_owned();
        self.input = self.payload("invalid input", input);
        self
    }

    /// Sets the id of the run. The default is `test`.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        match RunId::new(id) {
            Ok(_) => self.run = id.to_owned(),
            Err(error) => self.flaw = Some(error.to_string()),
        }
        self
    }

    /// Adds a signal, sent once when a run, or a child of it, waits for it. Call it once per signal.
    #[must_use]
    pub fn signal(mut self, name: &str, payload: &(impl Serialize + ?Sized)) -> Self {
        let value = self.payload("invalid signal", payload);
        self.script.push(Message { kind: MessageKind::Signal(name.to_owned()), value });
        self
    }

    /// Adds a request, sent once when a run, or a child of it, waits for it. Call it once per request.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// use goldseam::testing::Tester;
    ///
    /// async fn basket(ctx: Context, _: ()) -> goldseam::Result<u32> {
    ///     let line = ctx.requests::<u32>("add_line").next().await?;
    ///     let total = *line.value();
    ///     line.answer(&total).await?;
    ///     ctx.publish("total", &total).await?;
    ///     Ok(total)
    /// }
    ///
    /// let tester = Tester::new(|engine, _| engine.workflow("basket", basket));
    /// let report = tester.run("basket", &()).request("add_line", &7).every_crash().unwrap();
    /// assert_eq!(report.outcome::<u32>().unwrap(), 7);
    /// ```
    #[must_use]
    pub fn request(mut self, name: &str, payload: &impl Serialize) -> Self {
        let value = self.payload("invalid request", payload);
        match request_signal(name) {
            Ok(signal) => {
                let kind = MessageKind::Signal(signal.as_str().to_owned());
                self.script.push(Message { kind, value });
            }
            Err(error) => self.flaw = Some(error.to_string()),
        }
        self
    }

    /// Adds an answer to the question of this name, sent once when it is asked. Call it once per answer.
    #[must_use]
    pub fn answer(mut self, question: &str, answer: &(impl Serialize + ?Sized)) -> Self {
        let value = self.payload("invalid answer", answer);
        self.script.push(Message { kind: MessageKind::Answer(question.to_owned()), value });
        self
    }

    /// Adds a worker that executes the remote steps of this queue.
    ///
    /// `payload` of the task is the input of the step; `step` holds its idempotency key.
    #[must_use]
    pub fn worker<T, F>(mut self, queue: &str, work: F) -> Self
    where
        T: Serialize,
        F: Fn(&World, &Task) -> StepResult<T> + Send + Sync + 'static,
    {
        let work = move |world: &World, task: &Task| {
            let value = work(world, task).map_err(|error| error.failure().clone())?;
            Payload::of(&value, &Limits::default())
                .map_err(|error| goldseam_core::Failure::terminal(error.to_string()))
        };
        match QueueName::new(queue) {
            Ok(queue) => self.workers.push(Worker { queue, work: Box::new(work) }),
            Err(error) => self.flaw = Some(error.to_string()),
        }
        self
    }

    /// Accepts outcomes that differ from the one without faults. For example, a crash may fail an `at_most_once` step.
    ///
    /// Effects are not compared in such a case.
    #[must_use]
    pub fn allow(mut self, allow: impl Fn(&Outcome) -> bool + Send + Sync + 'static) -> Self {
        self.allow = Some(Box::new(allow));
        self
    }

    /// Adds a check of the world after every case. An error fails the test.
    #[must_use]
    pub fn check(mut self, check: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// Sets the maximum number of cases in a search. The default is 2,000.
    #[must_use]
    pub fn cases_max(mut self, cases: u64) -> Self {
        self.cases_max = cases;
        self
    }

    /// Sets the virtual time without an event, sleeps excluded, after which a run counts as stuck. The default is an
    /// hour.
    #[must_use]
    pub fn patience(mut self, span: Duration) -> Self {
        self.patience = span;
        self
    }

    fn payload(&mut self, what: &str, value: &(impl Serialize + ?Sized)) -> Payload {
        Payload::of(value, &Limits::default()).unwrap_or_else(|error| {
            self.flaw = Some(format!("{what}: {}", EngineError::from(error)));
            Payload::null()
        })
    }

    /// Runs the workflow once, without faults.
    pub fn once(&self) -> Result<Report, Failed> {
        self.search(|_| Ok(Vec::new()))
    }

    /// Runs the workflow once for each crash point: before and after each append of the first node. Another node then
    /// continues the run.
    pub fn every_crash(&self) -> Result<Report, Failed> {
        self.search(|calm| {
            let appends = calm.appends;
            if appends.saturating_mul(2) > self.cases_max {
                return Err(Flaw::TooMany { appends, cases_max: self.cases_max });
            }
            Ok((1..=appends)
                .flat_map(|number| [Case::CrashBefore(number), Case::CrashAfter(number)])
                .collect())
        })
    }

    /// Runs the workflow once for each of these seeds, with the faults of the seed.
    pub fn seeded(&self, seeds: Range<u64>) -> Result<Report, Failed> {
        self.search(|_| Ok(seeds.map(Case::Seed).collect()))
    }

    /// Runs the workflow without faults and then with the faults of this case, to repeat a failure.
    pub fn case(&self, case: Case) -> Result<Report, Failed> {
        self.search(|_| Ok(vec![case]))
    }

    /// Runs the case without faults first, because every other case is compared with it.
    fn search(
        &self,
        cases: impl FnOnce(&CaseResult) -> Result<Vec<Case>, Flaw> + Send,
    ) -> Result<Report, Failed> {
        let failed = |flaw| Failed::new(&self.workflow, Case::Calm, flaw, String::new());
        if let Some(flaw) = &self.flaw {
            return Err(failed(Flaw::Setup(flaw.clone())));
        }
        on_new_thread(|| {
            let calm = run_case(self, Case::Calm, None)?;
            let mut report = Report::new(&calm);
            for case in cases(&calm).map_err(failed)? {
                report.add(&run_case(self, case, Some(&calm))?);
            }
            Ok(report)
        })
    }

    /// Compares a case with the one without faults, then runs the user's check.
    pub(super) fn judge(
        &self,
        world: &World,
        here: &CaseResult,
        calm: Option<&CaseResult>,
    ) -> Result<(), Flaw> {
        if let Some(calm) = calm {
            let same = here.outcome == calm.outcome;
            if !same && !self.allow.as_ref().is_some_and(|allow| allow(&here.outcome)) {
                return Err(Flaw::OtherOutcome {
                    calm: describe_outcome(&calm.outcome),
                    here: describe_outcome(&here.outcome),
                });
            }
            let names = here.effects.keys().chain(calm.effects.keys());
            for effect in names.filter(|_| same) {
                let counts =
                    |result: &CaseResult| result.effects.get(effect).map_or(0, super::Effect::counts);
                if counts(here) != counts(calm) {
                    return Err(Flaw::OtherEffect {
                        effect: effect.clone(),
                        calm: counts(calm),
                        here: counts(here),
                    });
                }
            }
        }
        match &self.check {
            Some(check) => check(world).map_err(Flaw::Check),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Tester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tester")
            .field("workflow", &self.workflow)
            .field("run", &self.run)
            .field("script", &self.script)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}
