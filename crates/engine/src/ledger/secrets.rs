//! Secrets: what steps need and nobody may read. Definitions, inputs and events have their names; the values are known to
//! this process alone.
//!
//! Invariant: no text reaches a log or a task before registered values are taken out of it. There are two ways in, an
//! owner's append and a commit, and both pass `Secrets::keep_out`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use goldseam_core::redact::Unhidable;
use goldseam_core::{Command, Failure, Limits, Payload, Redactor, RunId};

use crate::ledger::error::{Error, Result};

/// A text that is never shown: it has no `Display`, its `Debug` tells nothing, and it cannot be serialised. Cheap to clone.
///
/// So it cannot become the output of a step, or stand in a log line by mistake:
///
/// ```compile_fail,E0277
/// # use goldseam_engine::{Context, Error, Result, secrets::Secret};
/// async fn workflow(ctx: Context, _: ()) -> Result<()> {
///     ctx.step("login", || async { Ok::<_, Error>(Secret::from("opensesame")) }).await?;
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
    /// The value of an environment variable.
    pub fn from_env(variable: &str) -> Result<Self, SecretError> {
        let variable = || variable.to_owned();
        match std::env::var(variable()) {
            Ok(value) if value.trim().is_empty() => Err(SecretError::Missing { variable: variable() }),
            Ok(value) => Ok(value.into()),
            Err(std::env::VarError::NotPresent) => Err(SecretError::Missing { variable: variable() }),
            Err(std::env::VarError::NotUnicode(_)) => Err(SecretError::NoText { variable: variable() }),
        }
    }

    /// The value. Pass it on to what needs it, and keep it nowhere.
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

/// Why a secret cannot be had. It never tells the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Set the variable.
    #[error("the environment variable {variable} is to hold a secret, and is not set or empty")]
    Missing {
        /// The variable.
        variable: String,
    },
    /// Write it as text.
    #[error("the environment variable {variable} is to hold a secret, and is no text in UTF-8")]
    NoText {
        /// The variable.
        variable: String,
    },
    /// Take another value.
    #[error("the secret {name} cannot be kept out of logs: {why}")]
    Unhidable {
        /// Its name.
        name: String,
        /// Why.
        why: Unhidable,
    },
}

/// The secrets of an engine by name, and the filter that keeps them out of everything that it writes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secrets {
    named: BTreeMap<String, Secret>,
    redactor: Redactor,
}

impl Secrets {
    /// Secrets without names: only kept out.
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

    /// A secret by name. One that is missing here may be known to another engine, or to this one tomorrow.
    pub(crate) fn named(&self, name: &str) -> Result<Secret> {
        let missing = || {
            let known: Vec<&str> = self.named.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let message = format!(
                "this engine has no secret {name:?}; it has: {known}. Register it with `.secret({name:?}, …)`"
            );
            Error::from(Failure::retryable(message).with_code("no-such-secret"))
        };
        self.named.get(name).cloned().ok_or_else(missing)
    }

    /// Takes secrets out of the texts of a command. Payloads are data and stay; that one holds a secret is said once, here.
    pub(crate) fn keep_out(&self, run: &RunId, command: &mut Command) {
        if !self.redactor.has_values() {
            return;
        }
        command.redact(&self.redactor);
        for (place, payload) in command.payloads() {
            if self.redactor.finds(payload.as_str()) {
                tracing::warn!(%run, place, "a payload holds a registered secret, and is kept in the log as it is");
            }
        }
    }

    /// The same for somebody who has it by reference.
    pub(crate) fn kept_out<'c>(&self, run: &RunId, command: &'c Command) -> Cow<'c, Command> {
        if !self.redactor.has_values() {
            return Cow::Borrowed(command);
        }
        let mut command = command.clone();
        self.keep_out(run, &mut command);
        Cow::Owned(command)
    }

    /// A failure as the log will have it. Code that goes by it must see what a replay will see.
    pub(crate) fn out_of(&self, mut failure: Failure) -> Failure {
        self.redactor.edit_failure(&mut failure);
        failure
    }

    /// Details of a heartbeat without secrets: they are a help and no result.
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
    fn a_secret_shows_nothing_of_itself() {
        let secret = Secret::from("opensesame42");
        assert_eq!((format!("{secret:?}").as_str(), secret.expose()), ("Secret", "opensesame42"));
    }

    #[test]
    fn a_variable_that_is_not_there_is_named() {
        let error = Secret::from_env("GOLDSEAM_NO_SUCH_SECRET").unwrap_err();
        assert!(error.to_string().contains("GOLDSEAM_NO_SUCH_SECRET"), "{error}");
        assert_eq!(Secret::from_env("PATH").unwrap().expose(), std::env::var("PATH").unwrap());
    }

    #[test]
    fn a_secret_that_cannot_be_hidden_is_refused_by_its_name() {
        let error = Secrets::default().add("pin", "1234".into()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("pin") && !text.contains("1234"), "{text}");
    }

    #[test]
    fn a_name_that_nobody_knows_is_told_with_those_that_are_known() {
        let mut secrets = Secrets::default();
        secrets.add("stripe", "opensesame42".into()).unwrap();
        assert_eq!(secrets.named("stripe").unwrap().expose(), "opensesame42");
        let error = secrets.named("strip").unwrap_err();
        assert_eq!(error.code(), Some("no-such-secret"));
        let text = error.to_string();
        assert!(text.contains("\"strip\"") && text.contains("it has: stripe"), "{text}");
        assert!(!text.contains("opensesame42"));
    }

    #[test]
    fn details_of_a_heartbeat_lose_their_secrets() {
        let mut secrets = Secrets::default();
        secrets.add("door", "opensesame42".into()).unwrap();
        let limits = Limits::default();
        let details = Payload::of(&["at", "opensesame42"], &limits).unwrap();
        assert_eq!(secrets.out_of_details(details, &limits).as_str(), r#"["at","[secret]"]"#);
    }
}
