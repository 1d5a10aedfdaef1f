//! What a search showed.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::RunId;
use goldseam_engine::{EngineError, Outcome};
use serde::de::DeserializeOwned;

use super::failed::ended;
use super::world::Effect;

/// What one case showed.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) outcome: Outcome,
    pub(super) effects: BTreeMap<String, Effect>,
    /// How often the body of each step began.
    pub(super) begun: BTreeMap<String, u64>,
    /// Appends of the first node.
    pub(super) appends: u64,
    pub(super) crashes: u64,
    pub(super) mail: Mail,
    /// Who got each message.
    pub(super) got: Vec<Option<RunId>>,
    /// Virtual time that it took.
    pub(super) took: Duration,
}

/// What became of signals and answers on their way, in all cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mail {
    /// How many came before anybody waited for them.
    pub early: u64,
    /// How many were lost, and sent again later.
    pub lost: u64,
    /// How many came a second time.
    pub twice: u64,
}

/// How often an effect was done, at the most in one case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Most {
    /// How often it was asked for: more than once means that a step was cut off and began again.
    pub times: u64,
    /// How often it counts: requests with the same key are one.
    pub counts: u64,
}

/// What a search showed: all of its cases passed.
#[derive(Debug, Clone)]
pub struct Report {
    cases: u64,
    crashes: u64,
    mail: Mail,
    outcome: Outcome,
    effects: BTreeMap<String, Most>,
    begun: BTreeMap<String, u64>,
    took: Duration,
}

impl Report {
    pub(super) fn of(calm: &Shown) -> Self {
        let mut report = Self {
            cases: 0,
            crashes: 0,
            mail: Mail::default(),
            outcome: calm.outcome.clone(),
            effects: BTreeMap::new(),
            begun: BTreeMap::new(),
            took: calm.took,
        };
        report.add(calm);
        report
    }

    pub(super) fn add(&mut self, shown: &Shown) {
        self.cases += 1;
        self.crashes += shown.crashes;
        self.mail.early += shown.mail.early;
        self.mail.lost += shown.mail.lost;
        self.mail.twice += shown.mail.twice;
        for (name, effect) in &shown.effects {
            let most = self.effects.entry(name.clone()).or_default();
            most.times = most.times.max(effect.times());
            most.counts = most.counts.max(effect.counts());
        }
        for (step, times) in &shown.begun {
            let most = self.begun.entry(step.clone()).or_default();
            *most = (*most).max(*times);
        }
    }

    /// How many cases there were, the one without faults included.
    pub fn cases(&self) -> u64 {
        self.cases
    }

    /// How many nodes died in all of them.
    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// How many signals and answers came early, were lost, or came twice in all of them.
    pub fn mail(&self) -> Mail {
        self.mail
    }

    /// What the workflow returned.
    pub fn outcome<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        match &self.outcome {
            Outcome::Completed(output) => {
                output.read().map_err(|source| EngineError::NotThatType { what: "the run's output", source })
            }
            Outcome::Failed(_) | Outcome::Cancelled(_) => Err(EngineError::NotThatType {
                what: "how the run ended",
                source: serde::de::Error::custom(ended(&self.outcome)),
            }),
        }
    }

    /// How the run ended without faults.
    pub fn ended(&self) -> &Outcome {
        &self.outcome
    }

    /// How often this effect was done, at the most in one case; see [`World::did`](super::World::did).
    pub fn effects(&self, effect: &str) -> Most {
        self.effects.get(effect).copied().unwrap_or_default()
    }

    /// How often the body of the step at this path began, at the most in one case. It is asked for once at least, and
    /// again after each crash that cut it off and each failure with a retry.
    pub fn begun(&self, step: &str) -> u64 {
        self.begun.get(step).copied().unwrap_or(0)
    }

    /// The steps whose bodies began more than once in some case: these must bear it.
    pub fn begun_again(&self) -> impl Iterator<Item = (&str, u64)> {
        self.begun.iter().filter(|(_, times)| **times > 1).map(|(step, times)| (step.as_str(), *times))
    }

    /// The time that the run without faults would have taken; sleeping took none of it here.
    pub fn took(&self) -> Duration {
        self.took
    }
}
