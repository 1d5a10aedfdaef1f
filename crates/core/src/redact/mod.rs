//! Keeping secrets out of what people read: the one filter for logs, errors and views.
//!
//! Invariant: text that nothing applies to is handed back as it is, without a copy. What is hidden is replaced whole by
//! [`MARK`], so that not even its length is told.
//!
//! | module | holds |
//! |---|---|
//! | `values` | what was registered, in every form that it travels in |
//! | [`names`] | keys whose values are secret, whatever they are |
//! | `json` | documents, filtered as text: nothing else in them changes |
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

/// What stands where a secret was.
pub const MARK: &str = "[secret]";

/// Shorter values cannot be registered: they stand in too much that is no secret.
pub const VALUE_BYTES_MIN: usize = 6;

/// Why a value cannot be registered. It never tells the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unhidable {
    /// Take a longer one.
    #[error("it has fewer than {VALUE_BYTES_MIN} bytes, and would hide much that is no secret")]
    TooShort,
    /// Take one that cannot be guessed.
    #[error("it is a part of the mark that stands where secrets were")]
    Mark,
}

/// The one filter: hides registered values wherever they stand, and whatever stands under the name of a secret.
#[derive(Clone, Default)]
pub struct Redactor {
    values: Values,
    names: Names,
}

impl Redactor {
    /// A filter that hides what stands under these names, and no value yet.
    pub fn new(names: Names) -> Self {
        Self { values: Values::default(), names }
    }

    /// Registers a value: from now on it is hidden as it is, and as JSON, a URL, base64 or Rust would write it. A value of
    /// several lines is hidden line by line, too. Blanks around it do not count.
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

    /// Whether a value of this name is a secret, whatever it is.
    pub fn is_secret_name(&self, name: &str) -> bool {
        self.names.has(name)
    }

    /// Whether a registered value stands in the text.
    pub fn finds(&self, text: &str) -> bool {
        self.values.find(text, 0).is_some()
    }

    /// The text without registered values.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.values.hidden(text)
    }

    /// The JSON text without registered values, and without what stands under the name of a secret. Everything else stays
    /// as it was written; `null`, `true` and `false` are nobody's secret. Text that is no JSON loses its registered values.
    pub fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.values.is_empty() && self.names.is_empty() {
            true => Cow::Borrowed(text),
            false => json::hidden(text, &self.values, &self.names),
        }
    }

    /// Whether any value is registered.
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// Takes registered values out of a failure.
    pub fn edit_failure(&self, failure: &mut Failure) {
        self.edit(&mut failure.message);
        failure.code.iter_mut().for_each(|code| self.edit(code));
    }

    /// Takes registered values out of a text.
    pub fn edit(&self, text: &mut String) {
        if let Cow::Owned(hidden) = self.text(text) {
            *text = hidden;
        }
    }
}

/// Values are never shown.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("names", &self.names).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
