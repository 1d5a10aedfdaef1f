//! Errors of conditions, with the place in the text.

use std::fmt;

/// The kind of error in a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionProblem {
    /// The text does not follow the grammar, or exceeds a limit.
    Syntax,
    /// A name is unknown.
    Name,
    /// A value does not have the type of what it is compared with.
    Type,
}

/// The reason why a text is not a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionError {
    /// The kind of error.
    pub problem: ConditionProblem,
    /// The whole text; cut if it is too long.
    pub text: String,
    /// Where the error is, in bytes from the start of the text.
    pub at: usize,
    /// Length of the wrong part, in bytes; 0 at the end of the text.
    pub length: usize,
    /// What is wrong.
    pub what: String,
    /// What was expected, or what to do.
    pub hint: String,
}

impl ConditionError {
    /// Returns the code of the error.
    pub fn code(&self) -> &'static str {
        match self.problem {
            ConditionProblem::Syntax => "GS0139",
            ConditionProblem::Name => "GS0140",
            ConditionProblem::Type => "GS0141",
        }
    }

    /// Returns the place in characters, from 1.
    pub fn column(&self) -> usize {
        self.text.get(..self.at).map_or(0, |before| before.chars().count()) + 1
    }

    /// Returns the text with a caret under the place. Characters that cannot be printed are shown as `?`.
    pub fn caret(&self) -> String {
        let shown = |text: &str| -> String {
            text.chars().map(|c| if crate::argument::is_control(c) { '?' } else { c }).collect()
        };
        let (before, rest) = self.text.split_at_checked(self.at).unwrap_or((&self.text, ""));
        let wrong = rest.get(..self.length).unwrap_or(rest).chars().count().max(1);
        format!("{}\n{}{}", shown(&self.text), " ".repeat(before.chars().count()), "^".repeat(wrong))
    }
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (character {} of the condition)", self.what, self.column())
    }
}

impl std::error::Error for ConditionError {}
