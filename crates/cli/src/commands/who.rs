//! Who does something, and why: shared by the commands that change a run.

use clap::Args;
use goldseam::client::By;

/// Who and why.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Why; stays in the run's history
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// Who; the name of the user unless given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Who {
    /// Whether a reason was given.
    pub(crate) fn says_why(&self) -> bool {
        !self.reason.is_empty()
    }

    /// As the engine takes it.
    pub(crate) fn by(self) -> By {
        By { who: name(self.by), reason: self.reason, id: None }
    }
}

/// The name that was given, or the user's.
pub(crate) fn name(given: Option<String>) -> Option<String> {
    given.or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty()))
}
