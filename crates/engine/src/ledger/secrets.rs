//! Secrets: values that steps need and that no log may contain. Definitions, inputs and events contain their names;
//! only this process knows the values.
//!
//! Invariant: registered values are redacted from every text before it reaches a log or a task. Texts enter by an
//! owner's append or by a commit, and both call `Secrets::keep_out`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use goldseam_core::redact::Unhidable;
use goldseam_core::{Command, Failure, Limits, Payload, Redactor, RunId};

use crate::ledger::workflow_error::{Error, Result};

/// A text that is never shown: it has no `Display`, its `Debug` hides the value, and it cannot be serialized. Cheap
/// to
/// clone.
///
/// So a step cannot return it by mistake, and a log line cannot contain it:
///
/// ```compile_fail,E0277
/// # use goldseam_engine::{Context, Error, Result, secrets::Secret};
/// async fn workflow(ctx: Context, _: ()) -> Result<()> {
///     ctx.step("login", || async { Ok(Secret::from("opensesame")) }).await?;
///     Ok(())
/// }
/// ```
///
/// ```compile_fail,E0277
/// println!("{}", goldseam_engine::secrets::Secret::from("opensesame"));
/// ```
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Reads an environment variable.
    pub fn from_env(variable: &str) -> Result<Self, SecretError> {
        let variable = || variable.to_owned();
        match std::env::var(variable()) {
            Ok(value) if value.trim().is_empty() => Err(SecretError::Missing { variable: variable() }),
            Ok(value) => Ok(value.into()),
            Err(std::env::VarError::NotPresent) => Err(SecretError::Missing { variable: variable() }),
            Err(std::env::VarError::NotUnicode(_)) => Err(SecretError::NoText { variable: variable() }),
        }
    }

    /// The value. Pass it to the code that needs it, and do not store it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value.into())
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self(value.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Why a secret is not usable. Never contains the value.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set or empty.
    #[error("environment variable {variable} must contain a secret, but is not set or is empty")]
    Missing {
        /// The variable.
        variable: String,
    },
    /// The variable is not UTF-8.
    #[error("environment variable {variable} must contain a secret, but is not valid UTF-8")]
    NoText {
        /// The variable.
        variable: String,
    },
    /// The value cannot be redacted reliably.
    #[error("secret {name} cannot be kept out of logs: {why}")]
    Unhidable {
        /// Its name.
        name: String,
        /// Why.
        why: Unhidable,
    },
}

/// The secrets of an engine by name, and the redactor that keeps them out of everything the engine writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    named: BTreeMap<String, Secret>,
    redactor: Redactor,
}

impl Secrets {
    /// Secrets without names, which are only redacted.
    pub(crate) fn of(redactor: Redactor) -> Self {
        Self { named: BTreeMap::new(), redactor }
    }

    pub(crate) fn add(&mut self, name: &str, secret: Secret) -> Result<(), SecretError> {
        let unhidable = |why| SecretError::Unhidable { name: name.to_owned(), why };
        self.redactor.hide(secret.expose()).map_err(unhidable)?;
        self.named.insert(name.to_owned(), secret);
        Ok(())
    }

    pub(crate) fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// Looks up a secret by name. A missing one is retryable: another engine may have it, or this one after a
    /// restart.
    pub(crate) fn named(&self, name: &str) -> Result<Secret> {
        let missing = || {
            let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!(
                "this engine has no secret {name:?}; registered: {known}. Register it with `.secret({name:?}, …)`"
            );
            Error::from(Failure::retryable(message).with_code("no-such-secret"))
        };
        self.named.get(name).cloned().ok_or_else(missing)
    }

    /// Redacts secrets from the texts of a command. Payloads are user data and are not changed; if one contains a
    /// secret, a
    /// warning is logged.
    pub(crate) fn keep_out(&self, run: &RunId, command: &mut Command) {
        if !self.redactor.has_values() {
            return;
        }
        command.redact(&self.redactor);
        for (place, payload) in command.payloads() {
            if self.redactor.finds(payload.as_str()) {
                tracing::warn!(%run, place, "payload contains a registered secret and is stored unredacted");
            }
        }
    }

    /// Returns the command with secrets redacted, and clones it only if there are secrets.
    pub(crate) fn kept_out<'c>(&self, run: &RunId, command: &'c Command) -> Cow<'c, Command> {
        if !self.redactor.has_values() {
            return Cow::Borrowed(command);
        }
        let mut command = command.clone();
        self.keep_out(run, &mut command);
        Cow::Owned(command)
    }

    /// Redacts a failure. Code must see the failure as a replay will see it.
    pub(crate) fn out_of(&self, mut failure: Failure) -> Failure {
        self.redactor.edit_failure(&mut failure);
        failure
    }

    /// Redacts the details of a heartbeat.
    pub(crate) fn out_of_details(&self, details: Payload, limits: &Limits) -> Payload {
        match self.redactor.json(details.as_str()) {
            Cow::Borrowed(_) => details,
            Cow::Owned(text) => Payload::parse(&text, limits).unwrap_or_else(|_| Payload::null()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_of_a_secret_hides_its_value() {
        let secret = Secret::from("opensesame42");
        assert_eq!((format!("{secret:?}").as_str(), secret.expose()), ("Secret", "opensesame42"));
    }

    #[test]
    fn missing_variable_is_named_in_the_error() {
        let error = Secret::from_env("GOLDSEAM_NO_SUCH_SECRET").unwrap_err();
        assert!(error.to_string().contains("GOLDSEAM_NO_SUCH_SECRET"), "{error}");
        assert_eq!(Secret::from_env("PATH").unwrap().expose(), std::env::var("PATH").unwrap());
    }

    #[test]
    fn unredactable_secret_is_refused_by_name() {
        let error = Secrets::default().add("pin", "1234".into()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("pin") && !text.contains("1234"), "{text}");
    }

    #[test]
    fn unknown_secret_error_lists_registered_names() {
        let mut secrets = Secrets::default();
        secrets.add("stripe", "opensesame42".into()).unwrap();
        assert_eq!(secrets.named("stripe").unwrap().expose(), "opensesame42");
        let error = secrets.named("strip").unwrap_err();
        assert_eq!(error.code(), Some("no-such-secret"));
        let text = error.to_string();
        assert!(text.contains("\"strip\"") && text.contains("registered: stripe"), "{text}");
        assert!(!text.contains("opensesame42"));
    }

    #[test]
    fn heartbeat_details_are_redacted() {
        let mut secrets = Secrets::default();
        secrets.add("door", "opensesame42".into()).unwrap();
        let limits = Limits::default();
        let details = Payload::of(&["at", "opensesame42"], &limits).unwrap();
        assert_eq!(secrets.out_of_details(details, &limits).as_str(), r#"["at","[secret]"]"#);
    }
}
