//! What can go wrong with a server for tests.

use std::fmt;

/// Why there is no server, or why it did not do as it was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A program is not there and could not be installed.
    Missing {
        /// The program.
        program: &'static str,
        /// What to do about it.
        hint: String,
    },
    /// A program was run and failed.
    Failed {
        /// What it was to do.
        what: String,
        /// The end of what it said.
        said: String,
    },
}

impl Error {
    /// `what` failed, and this was said about it.
    pub(crate) fn failed(what: impl Into<String>, said: impl fmt::Display) -> Self {
        Self::Failed { what: what.into(), said: said.to_string().trim().to_owned() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, hint } => write!(f, "{program} is not installed: {hint}"),
            Self::Failed { what, said } if said.is_empty() => write!(f, "{what} failed"),
            Self::Failed { what, said } => write!(f, "{what} failed: {said}"),
        }
    }
}

impl std::error::Error for Error {}
