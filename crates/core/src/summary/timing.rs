//! When a run begins, and by when it must have ended.

use super::Summary;
use crate::error::Failure;
use crate::moment::iso;
use crate::time::Millis;

impl Summary {
    /// Returns when the run begins, if its start is delayed and it has not begun.
    pub fn begins_at(&self) -> Option<Millis> {
        self.start_at.filter(|_| !self.started && !self.status.is_terminal())
    }

    /// Returns when the run's advance task is due if the run can move: now, unless its start is delayed.
    pub fn ready_at(&self, now: Millis) -> Millis {
        self.begins_at().map_or(now, |at| at.max(now))
    }

    /// Returns when the run times out. None if it has no deadline, or is ending or going back to a step already.
    pub fn times_out_at(&self) -> Option<Millis> {
        let is_ending = self.compensating || self.cancel.is_some() || self.status.is_terminal();
        self.deadline.filter(|_| !is_ending)
    }

    /// Returns whether the deadline has passed and the log does not record that yet.
    pub fn is_overdue(&self, now: Millis) -> bool {
        self.times_out_at().is_some_and(|deadline| deadline <= now)
    }

    /// Returns when the advance task of a run that an operator stopped is due: at the deadline, or never.
    pub fn stopped_until(&self) -> Millis {
        self.times_out_at().unwrap_or(Millis::NEVER)
    }

    /// Removes a deadline that has passed: an operator went back to a step.
    pub(crate) fn renew_deadline(&mut self, now: Millis) {
        self.deadline = self.deadline.filter(|deadline| *deadline > now);
    }

    /// Returns why a run failed whose deadline passed. `own` is a failure of the code while the run was stopped.
    pub fn timeout_failure(&self, own: Option<&Failure>) -> Failure {
        let when =
            self.deadline.map_or_else(|| "its deadline".to_owned(), |at| format!("its deadline {}", iso(at)));
        let said = match own.filter(|own| !matches!(own.code.as_deref(), Some("cancelled" | "timeout"))) {
            Some(own) => format!("; its code then failed: {}", own.message),
            None => String::new(),
        };
        Failure::terminal(format!("the run timed out: {when} has passed{said}")).with_code("timeout")
    }
}
