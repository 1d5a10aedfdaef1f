//! Redaction: the only filter that keeps secrets out of logs, errors and views.
//!
//! Invariant: text without secrets is returned unchanged, without a copy. [`MARK`] replaces a secret as a whole, so
//! that not even its length is visible.
//!
//! | module | holds |
//! |---|---|
//! | `values` | registered values, in every encoding |
//! | [`names`] | keys whose values are always secret |
//! | `json` | JSON documents, filtered as text: nothing else in them changes |
//! | `command` | the texts of a command, before they become events |

mod command;
mod json;
pub mod names;
mod values;

use std::borrow::Cow;
use std::fmt;

use crate::error::Failure;

pub use names::Names;
use values::Values;

/// The text that replaces a secret.
pub const MARK: &str = "[secret]";

/// Minimum length of a registered value: shorter ones occur in too many ordinary texts.
pub const VALUE_BYTES_MIN: usize = 6;

/// The reason why a value cannot be registered. It never contains the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unhidable {
    /// Use a longer value.
    #[error("it has fewer than {VALUE_BYTES_MIN} bytes and would also hide ordinary text")]
    TooShort,
    /// Use a value that is harder to guess.
    #[error("it is part of the text that replaces secrets")]
    Mark,
}

/// A filter that hides registered values in any text, and the values of fields with the name of a secret.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Values,
    names: Names,
}

impl Redactor {
    /// Creates a filter for these names, without any registered value.
    pub fn new(names: Names) -> Self {
        Self { values: Values::default(), names }
    }

    /// Registers a value: the filter hides the value and its encodings in JSON, URLs, base64 and Rust. It also hides
    /// each line of a value with several lines. Surrounding whitespace is ignored.
    pub fn hide(&mut self, value: &str) -> Result<(), Unhidable> {
        let value = value.trim();
        if value.len() < VALUE_BYTES_MIN {
            return Err(Unhidable::TooShort);
        }
        if MARK.contains(value) {
            return Err(Unhidable::Mark);
        }
        self.values.add(value);
        Ok(())
    }

    /// Returns whether values of this name are always secret.
    pub fn is_secret_name(&self, name: &str) -> bool {
        self.names.has(name)
    }

    /// Returns whether the text contains a registered value.
    pub fn finds(&self, text: &str) -> bool {
        self.values.find(text, 0).is_some()
    }

    /// Replaces the registered values in a text.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.values.hidden(text)
    }

    /// Replaces the registered values in a JSON text, and the values under the name of a secret, except `null`,
    /// `true` and `false`. Everything else is unchanged. In text that is not JSON, only registered values are
    /// replaced.
    pub fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.values.is_empty() && self.names.is_empty() {
            true => Cow::Borrowed(text),
            false => json::hidden(text, &self.values, &self.names),
        }
    }

    /// Returns whether any value is registered.
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Replaces the registered values in a failure.
    pub fn edit_failure(&self, failure: &mut Failure) {
        self.edit(&mut failure.message);
        failure.code.iter_mut().for_each(|code| self.edit(code));
    }

    /// Replaces the registered values in a text.
    pub fn edit(&self, text: &mut String) {
        if let Cow::Owned(hidden) = self.text(text) {
            *text = hidden;
        }
    }
}

/// Hides the values.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("names", &self.names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
