//! The actor and the reason of a change.

use clap::Args;
use goldseam_api::Caller;
use goldseam_api::doc::change::NewNote;

/// The actor and the reason of a change.
#[derive(Debug, Args)]
pub(crate) struct Actor {
    /// Why; kept in the run's history
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Who; defaults to the user name
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
}

impl Actor {
    pub(crate) fn caller(&self) -> Caller {
        caller(self.by.clone())
    }

    pub(crate) fn reason(self) -> NewNote {
        NewNote { by: None, reason: self.reason }
    }
}

/// The named actor, or the user from the environment.
pub(crate) fn caller(given: Option<String>) -> Caller {
    Caller::named(given.or_else(|| std::env::var("USER").ok().filter(|user| !user.is_empty())))
}
