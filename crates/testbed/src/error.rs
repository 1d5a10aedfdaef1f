//! Errors of test servers.

use std::fmt;

/// Why a server could not be started or controlled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestbedError {
    /// A program is missing and could not be installed.
    Missing {
        /// The program.
        program: &'static str,
        /// What to do.
        hint: String,
    },
    /// A program was run and failed.
    Failed {
        /// What failed.
        what: String,
        /// The end of its output.
        message: String,
    },
}

impl TestbedError {
    /// The failure of `what`, with its message.
    pub(crate) fn failed(what: impl Into<String>, message: impl fmt::Display) -> Self {
        Self::Failed { what: what.into(), message: message.to_string().trim().to_owned() }
    }
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { program, hint } => write!(f, "{program} is not installed: {hint}"),
            Self::Failed { what, message } if message.is_empty() => write!(f, "{what} failed"),
            Self::Failed { what, message } => write!(f, "{what} failed: {message}"),
        }
    }
}

impl std::error::Error for TestbedError {}
