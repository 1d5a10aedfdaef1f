//! Results of cases and searches.

use std::collections::BTreeMap;
use std::time::Duration;

use goldseam_core::RunId;
use goldseam_engine::{EngineError, Outcome};
use serde::de::DeserializeOwned;

use super::failed::describe_outcome;
use super::world::Effect;

/// The result of one case.
#[derive(Debug, Clone)]
pub(super) struct CaseResult {
    pub(super) outcome: Outcome,
    pub(super) effects: BTreeMap<String, Effect>,
    /// Number of starts of each step's body.
    pub(super) begun: BTreeMap<String, u64>,
    /// Appends of the first node.
    pub(super) appends: u64,
    pub(super) crashes: u64,
    pub(super) mail: Mail,
    /// The run that received each message.
    pub(super) recipients: Vec<Option<RunId>>,
    /// Duration in virtual time.
    pub(super) took: Duration,
}

/// Delivery faults of signals and answers, summed over all cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mail {
    /// Number of signals that arrived before a run waited for them.
    pub early: u64,
    /// Number of messages that were lost and sent again later.
    pub lost: u64,
    /// Number of messages that arrived a second time.
    pub twice: u64,
}

/// How often an effect happened: the maximum over all cases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Most {
    /// Number of requests. More than one means that a step was interrupted and began again.
    pub times: u64,
    /// Number of requests that count: requests with the same key count once.
    pub counts: u64,
}

/// The result of a search in which all cases passed.
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
    pub(super) fn new(calm: &CaseResult) -> Self {
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

    pub(super) fn add(&mut self, result: &CaseResult) {
        self.cases += 1;
        self.crashes += result.crashes;
        self.mail.early += result.mail.early;
        self.mail.lost += result.mail.lost;
        self.mail.twice += result.mail.twice;
        for (name, effect) in &result.effects {
            let most = self.effects.entry(name.clone()).or_default();
            most.times = most.times.max(effect.times());
            most.counts = most.counts.max(effect.counts());
        }
        for (step, times) in &result.begun {
            let most = self.begun.entry(step.clone()).or_default();
            *most = (*most).max(*times);
        }
    }

    /// Returns the number of cases, including the one without faults.
    pub fn cases(&self) -> u64 {
        self.cases
    }

    /// Returns the number of node crashes in all cases.
    pub fn crashes(&self) -> u64 {
        self.crashes
    }

    /// Returns how many signals and answers arrived early, were lost, or arrived twice in all cases.
    pub fn mail(&self) -> Mail {
        self.mail
    }

    /// Returns the output of the workflow. Fails if the run did not complete, or if the output is not a `T`.
    pub fn outcome<T: DeserializeOwned>(&self) -> Result<T, EngineError> {
        match &self.outcome {
            Outcome::Completed(output) => {
                output.read().map_err(|source| EngineError::NotThatType { what: "the run's output", source })
            }
            Outcome::Failed(_) | Outcome::Cancelled(_) => Err(EngineError::NotThatType {
                what: "how the run ended",
                source: serde::de::Error::custom(describe_outcome(&self.outcome)),
            }),
        }
    }

    /// Returns how the run ended without faults.
    pub fn ended(&self) -> &Outcome {
        &self.outcome
    }

    /// Returns how often this effect happened: the maximum over all cases; see [`World::did`](super::World::did).
    pub fn effects(&self, effect: &str) -> Most {
        self.effects.get(effect).copied().unwrap_or_default()
    }

    /// Returns how often the body of the step at this path began: the maximum over all cases.
    ///
    /// The body begins once, and again after each crash that interrupted it and each failure that is retried.
    pub fn begun(&self, step: &str) -> u64 {
        self.begun.get(step).copied().unwrap_or(0)
    }

    /// Returns the steps whose bodies began more than once in some case. These must be safe to repeat.
    pub fn begun_again(&self) -> impl Iterator<Item = (&str, u64)> {
        self.begun.iter().filter(|(_, times)| **times > 1).map(|(step, times)| (step.as_str(), *times))
    }

    /// Returns the virtual duration of the run without faults, sleeps included.
    pub fn took(&self) -> Duration {
        self.took
    }
}
