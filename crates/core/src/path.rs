//! Paths: the place of an operation in a workflow.
//!
//! A path is `arm/segment`, a segment `name[:key][#count]`. The arm is the group step, the join index or the key that
//! the author chose, so a path does not depend on the timing of parallel arms.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{IdError, StepName};

/// Longest path, in bytes.
pub const PATH_BYTES_MAX: usize = 1024;

/// The identity of a step, wait, timer, question or child within a run. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<str>);

impl Path {
    /// Returns the outermost arm: the workflow function itself.
    pub fn root() -> Self {
        Self(Arc::from(""))
    }

    /// Checks `text` and returns it as a path.
    pub fn new(text: &str) -> Result<Self, IdError> {
        let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"._-:#/~".contains(b);
        let reason = if text.len() > PATH_BYTES_MAX {
            "it is longer than 1024 bytes"
        } else if !text.as_bytes().iter().all(allowed) {
            "only letters, digits and `._-:#/~` are allowed"
        } else {
            return Ok(Self(Arc::from(text)));
        };
        Err(IdError::new("step id", text, reason))
    }

    /// Returns the path of the `count`-th operation called `name` (with `key`) in this arm.
    pub fn child(&self, name: &StepName, key: Option<&StepName>, count: u32) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(self.0.len() + name.as_str().len() + 8);
        if !self.0.is_empty() {
            text.push_str(&self.0);
            text.push('/');
        }
        text.push_str(name.as_str());
        if let Some(key) = key {
            text.push(':');
            text.push_str(key.as_str());
        }
        if count > 1 {
            let _ = write!(text, "#{count}");
        }
        Self(Arc::from(text))
    }

    /// Returns the arm that this operation belongs to.
    pub fn arm(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(arm, _)| arm)
    }

    /// Returns the last segment, which people call this operation.
    pub fn leaf(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, leaf)| leaf)
    }

    /// Returns the name in the last segment, without key and count.
    pub fn name(&self) -> &str {
        let leaf = self.leaf();
        leaf.split([':', '#']).next().unwrap_or(leaf)
    }

    /// Returns the whole path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl std::borrow::Borrow<str> for Path {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_arm_name_key_and_count() {
        let name = StepName::new("pick").unwrap();
        let key = StepName::new("line-7").unwrap();
        let arm = Path::root().child(&StepName::new("lines").unwrap(), None, 1);
        let path = arm.child(&name, Some(&key), 2);
        assert_eq!(path.as_str(), "lines/pick:line-7#2");
        assert_eq!((path.arm(), path.leaf(), path.name()), ("lines", "pick:line-7#2", "pick"));
    }

    #[test]
    fn only_a_further_call_is_counted() {
        let name = StepName::new("pick").unwrap();
        let counted = [1, 2, 3].map(|count| Path::root().child(&name, None, count).to_string());
        assert_eq!(counted, ["pick", "pick#2", "pick#3"]);
        let outer = Path::new("pick#3").unwrap();
        assert_eq!((outer.arm(), outer.leaf(), outer.name()), ("", "pick#3", "pick"));
    }

    #[test]
    fn a_path_is_found_and_shown_as_its_text() {
        let path = Path::new("a/b").unwrap();
        assert_eq!(std::collections::HashMap::from([(path.clone(), 1)]).get("a/b"), Some(&1));
        assert_eq!((format!("{path:>5}"), format!("{path:?}")), ("  a/b".to_owned(), "\"a/b\"".to_owned()));
        assert_eq!(serde_json::to_string(&path).unwrap(), "\"a/b\"");
        assert_eq!(serde_json::from_str::<Path>("\"a/b\"").unwrap(), path);
    }

    #[test]
    fn hostile_paths_are_refused() {
        for text in ["a b", "a\0", "ä", &"x".repeat(1025)] {
            assert!(Path::new(text).is_err(), "{text:?}");
            assert!(serde_json::from_value::<Path>(text.into()).is_err(), "{text:?}");
        }
        assert!(Path::new(&"x".repeat(1024)).is_ok());
    }
}
