//! Names of operations: a word, or a word and a key.

use goldseam_core::{IdError, StepName};

/// The name of a step, wait, question or child: `"charge"`, or with a key that tells the rounds of a loop apart,
/// `("pick", line.id)`.
///
/// Name and key consist of letters, digits, `.`, `_` and `-`, and begin with a letter or a digit. An operation with
/// another name fails with an error that says so.
#[derive(Debug, Clone)]
pub struct Name {
    name: String,
    key: Option<String>,
}

impl Name {
    pub(crate) fn checked(self) -> Result<(StepName, Option<StepName>), IdError> {
        let key = self.key.map(StepName::new).transpose()?;
        Ok((StepName::new(self.name)?, key))
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), key: None }
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self { name, key: None }
    }
}

impl From<&String> for Name {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

impl<K: ToString> From<(String, K)> for Name {
    fn from((name, key): (String, K)) -> Self {
        Self { name, key: Some(key.to_string()) }
    }
}

impl<K: ToString> From<(&str, K)> for Name {
    fn from((name, key): (&str, K)) -> Self {
        Self { name: name.to_owned(), key: Some(key.to_string()) }
    }
}
