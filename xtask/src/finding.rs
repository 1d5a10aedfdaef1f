//! A violation that a check reports.

use std::fmt;

/// A violation and its fix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// From 1.
    pub(crate) line: usize,
    what: String,
    fix: String,
}

impl Finding {
    /// Describes a violation at a place, and its fix.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), fix: fix.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} → {}", self.path, self.line, self.what, self.fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_violation_and_fix() {
        let finding = Finding::new("a.rs", 3, "it is wrong", "right it");
        assert_eq!(finding.to_string(), "a.rs:3: it is wrong → right it");
    }
}
