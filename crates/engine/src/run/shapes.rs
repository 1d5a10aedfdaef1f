//! Shapes of the types that workflows read, each computed once, and the messages for values that do not fit.

use std::any::type_name;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use crate::ledger::sync::lock;
use goldseam_core::Payload;
use goldseam_core::form::Form;
use goldseam_core::shape::{Accepted, Shape};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Maximum length of a message.
const TEXT_MAX: usize = 1_000;

/// A type: its name, and its code, because names may be shared.
type Key = (&'static str, usize);

static KNOWN: LazyLock<Mutex<HashMap<Key, Arc<Accepted>>>> = LazyLock::new(Mutex::default);

/// What `T` accepts. Computed at the first call.
pub(crate) fn of<T: DeserializeOwned>() -> Arc<Accepted> {
    let find: fn() -> Accepted = Accepted::by::<T>;
    let key = (type_name::<T>(), find as usize);
    let known = || lock(&KNOWN);
    if let Some(found) = known().get(&key) {
        return Arc::clone(found);
    }
    // Without the lock, because the type's own code runs.
    let found = Arc::new(find());
    Arc::clone(known().entry(key).or_insert(found))
}

/// The form of an answer of type `T`.
pub(crate) fn form_of<T: DeserializeOwned>() -> Form {
    let accepted = of::<T>();
    match accepted.shape {
        Shape::Text { like: "" } => Form::Text,
        _ => accepted.schema().map_or(Form::Any, Form::Schema),
    }
}

/// Describes how `value` differs from what `T` accepts: kinds and field names, but no values, which may be secret.
pub(crate) fn misfit<T: DeserializeOwned>(what: &str, value: &Payload, error: &serde_json::Error) -> String {
    let value: Value = value.read().unwrap_or_default();
    let misfit = of::<T>().shape.misfit(&value, names_only(error));
    cut(&format!("{what} does not fit the code ({}): {misfit}", type_name::<T>()))
}

/// Limits the length of a text; a shortened one ends with a whole word and `…`.
fn cut(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(TEXT_MAX) else { return text.to_owned() };
    let kept = &text[..end];
    let is_whole = !text[end..].starts_with(char::is_alphanumeric);
    let kept = kept.rsplit_once(' ').filter(|_| !is_whole).map_or(kept, |(words, _)| words);
    format!("{} …", kept.trim_end_matches([',', ';', ':']))
}

/// The message of serde, if it contains only names.
fn names_only(error: &serde_json::Error) -> Option<String> {
    let message = error.to_string();
    let message = message.split(" at line ").next().unwrap_or_default();
    ["missing field", "duplicate field"]
        .iter()
        .any(|start| message.starts_with(start))
        .then(|| message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_message_ends_with_a_whole_word() {
        assert_eq!(cut("short"), "short");
        let long = format!("{}, enormous", "word ".repeat(199) + "words");
        assert!(long.chars().count() > TEXT_MAX);
        let text = cut(&long);
        assert!(text.ends_with(" words …") && text.chars().count() <= TEXT_MAX + 2, "{text}");
        assert!(cut(&"ü".repeat(2 * TEXT_MAX)).ends_with('…'));
    }
}
