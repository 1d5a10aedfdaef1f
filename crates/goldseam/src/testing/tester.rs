//! What is tested, and the searches.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use goldseam_core::task::Task;
use goldseam_core::{Limits, Payload, QueueName, RunId};
use goldseam_engine::{EngineError, Outcome, Result as StepResult};
use serde::Serialize;

use super::case::Case;
use super::failed::{Failed, Flaw};
use super::people::{Message, Says, Worker};
use super::report::{Report, Shown};
use super::stage::{on_own_thread, play};
use super::world::World;
use crate::Builder;

type Setup = dyn Fn(Builder, World) -> Builder + Send + Sync;
type Allow = dyn Fn(&Outcome) -> bool + Send + Sync;
type Check = dyn Fn(&World) -> Result<(), String> + Send + Sync;

/// Cases that a search makes at the most, unless told otherwise.
const CASES_MAX: u64 = 2_000;
/// Virtual time without an event after which a run does not end.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// A workflow under test; see the [module](crate::testing).
///
/// The searches block: they have a thread and a runtime of their own, so a plain `#[test]` is enough, and
/// `#[tokio::test]` does as well.
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
    /// Tests what `setup` registers. It is called for every node that starts, with the world of the case.
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
            flaw: Some("say what is to be run: .run(\"workflow\", &input)".to_owned()),
        }
    }

    /// What is run: a workflow, with this input.
    #[must_use]
    pub fn run(mut self, workflow: &str, input: &impl Serialize) -> Self {
        self.flaw = None;
        self.workflow = workflow.to_owned();
        self.input = self.payload("the input", input);
        self
    }

    /// The run's id, `test` unless told otherwise.
    #[must_use]
    pub fn id(mut self, id: &str) -> Self {
        match RunId::new(id) {
            Ok(_) => self.run = id.to_owned(),
            Err(error) => self.flaw = Some(error.to_string()),
        }
        self
    }

    /// Somebody sends this signal once a run waits for it; each call is one signal. Children get theirs too.
    #[must_use]
    pub fn signal(mut self, name: &str, payload: &impl Serialize) -> Self {
        let value = self.payload("a signal", payload);
        self.script.push(Message { says: Says::Signal(name.to_owned()), value });
        self
    }

    /// Somebody answers the question of this name once it is asked; each call is one answer.
    #[must_use]
    pub fn answer(mut self, question: &str, answer: &impl Serialize) -> Self {
        let value = self.payload("an answer", answer);
        self.script.push(Message { says: Says::Answer(question.to_owned()), value });
        self
    }

    /// Somebody does the remote steps of this queue. The task has its input as `payload`, and the key to pass on in
    /// `step`.
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

    /// Also allows ends that differ from the one without faults: where a step is `at_most_once`, a crash may fail it.
    /// Effects are not compared then.
    #[must_use]
    pub fn allow(mut self, allow: impl Fn(&Outcome) -> bool + Send + Sync + 'static) -> Self {
        self.allow = Some(Box::new(allow));
        self
    }

    /// Looks at the world after every case; an error fails the test.
    #[must_use]
    pub fn check(mut self, check: impl Fn(&World) -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    /// How many cases a search may make, 2,000 unless told otherwise.
    #[must_use]
    pub fn cases_max(mut self, cases: u64) -> Self {
        self.cases_max = cases;
        self
    }

    /// How long nothing may happen in virtual time, sleeps apart, before a run counts as stuck: an hour unless told
    /// otherwise.
    #[must_use]
    pub fn patience(mut self, span: Duration) -> Self {
        self.patience = span;
        self
    }

    fn payload(&mut self, what: &str, value: &impl Serialize) -> Payload {
        Payload::of(value, &Limits::default()).unwrap_or_else(|error| {
            self.flaw = Some(format!("{what}: {}", EngineError::from(error)));
            Payload::null()
        })
    }

    /// Runs the workflow without faults, skipping time.
    pub fn once(&self) -> Result<Report, Failed> {
        self.search(|_| Ok(Vec::new()))
    }

    /// Runs the workflow with a crash before and after every append of the node that began it; another node goes on.
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

    /// Runs the workflow with the faults of each of these seeds.
    pub fn seeded(&self, seeds: Range<u64>) -> Result<Report, Failed> {
        self.search(|_| Ok(seeds.map(Case::Seed).collect()))
    }

    /// Runs the workflow once more with what went wrong in this case.
    pub fn case(&self, case: Case) -> Result<Report, Failed> {
        self.search(|_| Ok(vec![case]))
    }

    /// The run without faults first: every other case is compared with it.
    fn search(&self, cases: impl FnOnce(&Shown) -> Result<Vec<Case>, Flaw> + Send) -> Result<Report, Failed> {
        let failed = |flaw| Failed::new(&self.workflow, Case::Calm, flaw, String::new());
        if let Some(flaw) = &self.flaw {
            return Err(failed(Flaw::Setup(flaw.clone())));
        }
        on_own_thread(|| {
            let calm = play(self, Case::Calm, None)?;
            let mut report = Report::of(&calm);
            for case in cases(&calm).map_err(failed)? {
                report.add(&play(self, case, Some(&calm))?);
            }
            Ok(report)
        })
    }

    /// Compares a case with the one without faults, and asks the user's own check.
    pub(super) fn judge(&self, world: &World, here: &Shown, calm: Option<&Shown>) -> Result<(), Flaw> {
        if let Some(calm) = calm {
            let same = here.outcome == calm.outcome;
            if !same && !self.allow.as_ref().is_some_and(|allow| allow(&here.outcome)) {
                let (calm, here) = (super::failed::ended(&calm.outcome), super::failed::ended(&here.outcome));
                return Err(Flaw::OtherOutcome { calm, here });
            }
            let names = here.effects.keys().chain(calm.effects.keys());
            for effect in names.filter(|_| same) {
                let counts = |shown: &Shown| shown.effects.get(effect).map_or(0, super::Effect::counts);
                if counts(here) != counts(calm) {
                    let (calm, here, effect) = (counts(calm), counts(here), effect.clone());
                    return Err(Flaw::OtherEffect { effect, calm, here });
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
