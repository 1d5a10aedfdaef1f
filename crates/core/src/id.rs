//! Ids: one strict parser for every string that becomes a key, a path or an argument.
//!
//! Invariant: an [`Id`] matches `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` and contains no `..`. Every constructor checks
//! this, so a store may build keys and file names from an id without escaping.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest id, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// The kind of thing that an [`Id`] names; shown in the error when a string is refused.
pub trait Kind {
    /// What it is in an error: the noun of the glossary, and whether users call it an id or a name.
    const NOUN: &'static str;
}

/// A checked name of a `K`. Cheap to clone.
pub struct Id<K> {
    text: Arc<str>,
    kind: PhantomData<fn() -> K>,
}

/// The reason why a string is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a valid {noun}: {reason}")]
pub struct IdError {
    /// What was expected: `run id`, `signal name`.
    pub noun: &'static str,
    /// The refused text, cut to a printable length.
    pub text: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

impl IdError {
    /// Returns the error for `text`, cut to a printable length.
    pub(crate) fn new(noun: &'static str, text: &str, reason: &'static str) -> Self {
        Self { noun, text: text.chars().take(64).collect(), reason }
    }
}

impl<K: Kind> Id<K> {
    /// Checks `text` and returns it as an id.
    pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
        let text = text.as_ref();
        match flaw(text) {
            None => Ok(Self { text: Arc::from(text), kind: PhantomData }),
            Some(reason) => Err(IdError::new(K::NOUN, text, reason)),
        }
    }
}

impl<K> AsRef<str> for Id<K> {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

const fn flaw(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Some("it is empty");
    }
    if bytes.len() > ID_BYTES_MAX {
        return Some("it is longer than 128 bytes");
    }
    if !bytes[0].is_ascii_alphanumeric() {
        return Some("it must start with a letter or a digit");
    }
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_alphanumeric() && !matches!(bytes[at], b'.' | b'_' | b'-') {
            return Some("only letters, digits, `.`, `_` and `-` are allowed");
        }
        at += 1;
    }
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at - 1] == b'.' && bytes[at] == b'.' {
            return Some("it must not contain `..`");
        }
        at += 1;
    }
    None
}

/// The text of an id in the source code, checked at compile time.
///
/// ```
/// use goldseam_core::id::{IdLiteral, QueueName, kind};
///
/// const MAIN: IdLiteral<kind::Queue> = IdLiteral::new("main");
/// assert_eq!(MAIN.id(), QueueName::new("main").unwrap());
/// ```
///
/// An invalid text in a constant does not compile:
///
/// ```compile_fail
/// use goldseam_core::id::{IdLiteral, kind};
///
/// const MAIN: IdLiteral<kind::Queue> = IdLiteral::new("not an id");
/// ```
pub struct IdLiteral<K> {
    text: &'static str,
    kind: PhantomData<fn() -> K>,
}

impl<K> IdLiteral<K> {
    /// Checks `text`. Use it in a constant, where an invalid text is a compile error.
    ///
    /// # Panics
    ///
    /// If `text` is not an id.
    pub const fn new(text: &'static str) -> Self {
        match flaw(text) {
            None => Self { text, kind: PhantomData },
            Some(reason) => panic!("{}", reason),
        }
    }

    /// Returns the text.
    pub const fn as_str(&self) -> &'static str {
        self.text
    }

    /// Returns the id.
    pub fn id(&self) -> Id<K> {
        Id { text: Arc::from(self.text), kind: PhantomData }
    }
}

impl<K> Id<K> {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        Self { text: Arc::clone(&self.text), kind: PhantomData }
    }
}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<K> Eq for Id<K> {}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl<K> Hash for Id<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl<K> Borrow<str> for Id<K> {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl<K: Kind> FromStr for Id<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl<K: Kind> TryFrom<&str> for Id<K> {
    type Error = IdError;

    fn try_from(text: &str) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl<K: Kind> TryFrom<String> for Id<K> {
    type Error = IdError;

    fn try_from(text: String) -> Result<Self, IdError> {
        Self::new(text)
    }
}

impl<K> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(text).map_err(serde::de::Error::custom)
    }
}

/// Marker types for the kinds of ids. They have no values.
pub mod kind {
    use super::Kind;

    /// A run of a workflow.
    pub enum Run {}
    /// A workflow definition.
    pub enum Workflow {}
    /// One incarnation of an engine process.
    pub enum Node {}
    /// A queue entry.
    pub enum Task {}
    /// A named queue.
    pub enum Queue {}
    /// A lane of a queue.
    pub enum Lane {}
    /// A named lock.
    pub enum Lock {}
    /// A signal's name.
    pub enum Signal {}
    /// A step's name or key.
    pub enum Step {}
    /// The key of a tag.
    pub enum Tag {}
    /// The name of a published value.
    pub enum PublishedValue {}
    /// A state of claimed work.
    pub enum ClaimedWork {}

    impl Kind for Run {
        const NOUN: &'static str = "run id";
    }
    impl Kind for Workflow {
        const NOUN: &'static str = "workflow id";
    }
    impl Kind for Node {
        const NOUN: &'static str = "node id";
    }
    impl Kind for Task {
        const NOUN: &'static str = "task id";
    }
    impl Kind for Queue {
        const NOUN: &'static str = "queue id";
    }
    impl Kind for Lane {
        const NOUN: &'static str = "lane id";
    }
    impl Kind for Lock {
        const NOUN: &'static str = "lock id";
    }
    impl Kind for Signal {
        const NOUN: &'static str = "signal name";
    }
    impl Kind for Step {
        const NOUN: &'static str = "step id";
    }
    impl Kind for Tag {
        const NOUN: &'static str = "tag id";
    }
    impl Kind for PublishedValue {
        const NOUN: &'static str = "published value name";
    }
    impl Kind for ClaimedWork {
        const NOUN: &'static str = "state id";
    }
}

/// The id of a run.
pub type RunId = Id<kind::Run>;
/// The name of a workflow.
pub type WorkflowName = Id<kind::Workflow>;
/// The id of one incarnation of an engine process; random per start.
pub type NodeId = Id<kind::Node>;
/// The id of a queue entry.
pub type TaskId = Id<kind::Task>;
/// The name of a queue.
pub type QueueName = Id<kind::Queue>;
/// The name of a lane: at most one of its tasks is claimed at a time.
pub type LaneName = Id<kind::Lane>;
/// The name of a lock.
pub type LockName = Id<kind::Lock>;
/// The name of a signal.
pub type SignalName = Id<kind::Signal>;
/// The name of a step, or its key.
pub type StepName = Id<kind::Step>;
/// The key of a tag.
pub type TagKey = Id<kind::Tag>;
/// The name of a value that a run publishes.
pub type ValueName = Id<kind::PublishedValue>;
/// The state of claimed work that its claimant reports, as in `testing`.
pub type WorkState = Id<kind::ClaimedWork>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_accepted() {
        for text in ["a", "order-17", "A.b_c-9", "0", &"x".repeat(128)] {
            assert_eq!(RunId::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn empty_id_rejected_everywhere() {
        for text in ["", " ", ".", "..", "a..b", "-a", "a/b", "a b", "ä", "a\0", "a\n", &"x".repeat(129)] {
            assert!(RunId::new(text).is_err(), "{text:?} was accepted");
            let quoted = serde_json::to_string(text).unwrap();
            assert!(serde_json::from_str::<RunId>(&quoted).is_err(), "{text:?} was decoded");
        }
    }

    #[test]
    fn an_id_is_found_sorted_and_shown_as_its_text() {
        let [a, b] = ["a", "b"].map(|text| RunId::new(text).unwrap());
        assert!(a < b && a == a.clone() && a != b);
        assert_eq!(std::collections::BTreeMap::from([(a.clone(), 1), (b.clone(), 2)]).get("b"), Some(&2));
        let hashed = std::collections::HashSet::from([a.clone(), b]);
        assert_eq!(hashed.get("a"), Some(&a));
        assert_eq!((format!("{a:>3}"), format!("{a:?}")), ("  a".to_owned(), "\"a\"".to_owned()));
        assert_eq!(serde_json::to_string(&a).unwrap(), "\"a\"");
    }

    #[test]
    fn every_way_to_make_an_id_checks_it() {
        let good = RunId::new("r-1").unwrap();
        assert_eq!("r-1".parse(), Ok(good.clone()));
        assert_eq!((RunId::try_from("r-1"), RunId::try_from("r-1".to_owned())), (Ok(good.clone()), Ok(good)));
        let refused = RunId::new("a b");
        assert_eq!(("a b".parse(), RunId::try_from("a b")), (refused.clone(), refused.clone()));
        assert_eq!(RunId::try_from("a b".to_owned()), refused);
    }

    #[test]
    fn the_error_says_what_was_wrong() {
        let error = RunId::new("a/b").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""a/b" is not a valid run id: only letters, digits, `.`, `_` and `-` are allowed"#
        );
        for (text, reason) in [
            ("", "it is empty"),
            (&*"x".repeat(200), "it is longer than 128 bytes"),
            ("-a", "it must start with a letter or a digit"),
            ("a..b", "it must not contain `..`"),
        ] {
            assert_eq!(RunId::new(text).unwrap_err().reason, reason);
        }
    }
}
