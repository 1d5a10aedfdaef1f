//! Questions to people. A question may stay open without limit; an answer that does not fit its form is refused.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;
use goldseam_core::Millis;
use goldseam_core::event::{InputRequested, WaitStarted};
use goldseam_core::form::Form;
use goldseam_core::state::{Found, Mail};

use super::{Context, FromPayload, Name, wait};
use crate::ledger::workflow_error::{Error, Result};
use crate::run::live_run::Spot;

impl Context {
    /// Asks a person and waits for the answer. The form is derived from `T`, unless one is set.
    /// [`RunHandle::answer`](crate::RunHandle::answer) answers it.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn expense(ctx: Context, amount: u32) -> goldseam::Result<bool> {
    ///     ctx.ask("approve", format!("Pay {amount}?")).await
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("expense", expense).start().await?;
    /// let run = engine.start(expense, "e-1", &250).await?;
    /// run.wait_until(|run| !run.inputs.is_empty()).await?;
    /// // The answer must be a boolean.
    /// assert!(run.answer("approve", "perhaps").await.is_err());
    /// run.answer("approve", &true).await?;
    /// assert!(run.result().await?);
    /// # Ok(()) }
    /// ```
    pub fn ask<T: FromPayload>(&self, name: impl Into<Name>, prompt: impl Into<String>) -> Ask<'_, T> {
        let spot = self.spot(name);
        let prompt = prompt.into();
        Ask { ctx: self, spot, prompt, form: None, timeout: None, value: PhantomData }
    }
}

/// A question to a person; see [`Context::ask`].
///
/// ```
/// use goldseam::prelude::*;
///
/// async fn survey(ctx: Context, _: ()) -> goldseam::Result<String> {
///     let name: String = ctx.ask("name", "Your name?").text().await?;
///     let size: String = ctx.ask("size", "Which size?").choice(["S", "M", "L"]).await?;
///     let age = serde_json::json!({ "type": "integer", "minimum": 0 });
///     match ctx.ask::<u32>("age", "Your age?").schema(age).timeout(days(1)).await {
///         Ok(age) => Ok(format!("{name}, {size}, {age}")),
///         Err(error) if error.is_timeout() => Ok(format!("{name}, {size}")),
///         Err(error) => Err(error),
///     }
/// }
/// # fn main() {}
/// ```
#[must_use = "nothing is asked until it is awaited: add `.await?`"]
pub struct Ask<'a, T> {
    ctx: &'a Context,
    spot: Result<Spot>,
    prompt: String,
    form: Option<Form>,
    timeout: Option<Duration>,
    value: PhantomData<fn() -> T>,
}

impl<T> Ask<'_, T> {
    /// Requires a text.
    pub fn text(mut self) -> Self {
        self.form = Some(Form::Text);
        self
    }

    /// Requires one of these choices.
    pub fn choice<C: Into<String>>(mut self, choices: impl IntoIterator<Item = C>) -> Self {
        self.form = Some(Form::Choice(choices.into_iter().map(Into::into).collect()));
        self
    }

    /// Requires an answer that satisfies this JSON Schema.
    pub fn schema(mut self, schema: serde_json::Value) -> Self {
        self.form = Some(Form::Schema(schema));
        self
    }

    /// Sets a timeout, after which the question fails with an error for which [`Error::is_timeout`] holds.
    pub fn timeout(mut self, span: Duration) -> Self {
        self.timeout = Some(span);
        self
    }
}

impl<'a, T: FromPayload + 'a> IntoFuture for Ask<'a, T> {
    type Output = Result<T>;
    type IntoFuture = BoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { ctx, spot, prompt, form, timeout, value: _ } = self;
        Box::pin(async move {
            let spot = spot?;
            let wanted = |now: Millis| {
                let path = spot.path.clone();
                let ord = spot.ord;
                let due = timeout.map(|span| now + span);
                let form = form.unwrap_or_else(crate::run::shapes::form_of::<T>);
                let prompt = prompt.chars().take(ctx.live.ledger.limits.text_bytes_max).collect();
                let ask = InputRequested { path: path.clone(), ord, prompt, form };
                let wait = WaitStarted {
                    inputs: vec![path.clone()],
                    path,
                    ord,
                    signals: vec![],
                    schemas: BTreeMap::new(),
                    children: vec![],
                    due,
                };
                (wait, Some(ask))
            };
            match wait::wait(ctx, &spot, wanted).await? {
                Found::Mail(Mail::Answer { answer, .. }) => {
                    Ok(ctx.read_logged(&format!("the answer to {}", spot.path), &answer).await)
                }
                Found::Mail(_) => ctx.mismatch(&spot).await,
                Found::Timer => Err(Error::timeout(&spot.path)),
            }
        })
    }
}
