//! Who does something, and why: shared by the commands that change a run.

use clap::Args;
use goldseam_api::Caller;
use goldseam_api::doc::change::Reason;

/// Who and why.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Why; stays in the run's history
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Who; the name of the user unless given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Who {
    /// Who.
    pub(crate) fn caller(&self) -> Caller {
        caller(self.by.clone())
    }

    /// Why.
    pub(crate) fn reason(self) -> Reason {
        Reason { by: None, reason: self.reason }
    }
}

/// Whoever was named, or the user.
pub(crate) fn caller(given: Option<String>) -> Caller {
    Caller::named(given.or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty())))
}
