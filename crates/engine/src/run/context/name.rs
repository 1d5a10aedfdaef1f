//! Names of operations: a word, or a word and a key.

use goldseam_core::{IdError, StepName};

/// The name of a step, wait, question or child: `"charge"`, or `("pick", line.id)`.
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

impl<K: ToString> From<(&str, K)> for Name {
    fn from((name, key): (&str, K)) -> Self {
        Self { name: name.to_owned(), key: Some(key.to_string()) }
    }
}
