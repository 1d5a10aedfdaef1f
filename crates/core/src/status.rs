//! The status of a run.

use serde::{Deserialize, Serialize};

/// The status of a run. A cache: `derive` computes the truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No node owns it: it has not begun, or it is ready to continue.
    Queued,
    /// A node owns it.
    Running,
    /// It waits for a signal, an answer, a child or a remote step.
    Waiting,
    /// It waits for a time.
    Sleeping,
    /// An operator stopped it.
    Paused,
    /// It is compensating.
    Compensating,
    /// It needs an operator.
    Parked,
    /// It returned.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// Every status, in the order of a run's life.
    pub const ALL: [Self; 10] = [
        Self::Queued,
        Self::Running,
        Self::Waiting,
        Self::Sleeping,
        Self::Paused,
        Self::Compensating,
        Self::Parked,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Returns whether the run has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Returns whether the run is expected to make progress without an operator.
    pub fn is_active(self) -> bool {
        !self.is_terminal() && !matches!(self, Self::Paused | Self::Parked)
    }

    /// Returns the word in JSON, SQL and on screen.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Sleeping => "sleeping",
            Self::Paused => "paused",
            Self::Compensating => "compensating",
            Self::Parked => "parked",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The error for a text that is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a status{near}; statuses are: queued, running, waiting, sleeping, paused, compensating, parked, completed, failed, cancelled",
    near = crate::argument::meant(.0, Status::ALL.map(Status::as_str))
)]
pub struct NoStatus(String);

impl std::str::FromStr for Status {
    type Err = NoStatus;

    fn from_str(text: &str) -> Result<Self, NoStatus> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or_else(|| NoStatus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_one_word_and_a_place_in_life() {
        let table = [
            ("queued", true, false),
            ("running", true, false),
            ("waiting", true, false),
            ("sleeping", true, false),
            ("paused", false, false),
            ("compensating", true, false),
            ("parked", false, false),
            ("completed", false, true),
            ("failed", false, true),
            ("cancelled", false, true),
        ];
        for (status, (word, active, terminal)) in Status::ALL.into_iter().zip(table) {
            assert_eq!((status.as_str(), word.parse()), (word, Ok(status)));
            assert_eq!(serde_json::to_value(status).unwrap(), word);
            assert_eq!((status.is_active(), status.is_terminal()), (active, terminal), "{word}");
        }
        assert_eq!("lost".parse::<Status>(), Err(NoStatus("lost".to_owned())));
        assert_eq!(format!("{:>8}", Status::Failed), "  failed");
    }
}
