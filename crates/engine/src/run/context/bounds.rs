//! The bounds on what authors pass to the engine, as traits of their own: the compiler then explains a mistake in our
//! words. Every type that fits has them.
//!
//! `do_not_recommend` makes the compiler report these traits, and not the bounds behind them.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ledger::workflow_error::Result;

/// A value that the log of a run can keep: everything that serde can write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written to the log of a run",
    label = "a run keeps this value as JSON",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to the type, and to the types inside it"
)]
pub trait ToPayload: Serialize {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + ?Sized> ToPayload for T {}

/// A value that can be read from the log of a run: everything that serde can read and that borrows nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from the log of a run",
    label = "a run keeps this value as JSON",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to the type, and to the types inside it",
    note = "a value that is read from a log borrows nothing: take `String` instead of `&str`, `Vec<T>` instead of `&[T]`",
    note = "if the type is `!` or `_`, the compiler does not know it: write `let value: Type = …`"
)]
pub trait FromPayload: DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> FromPayload for T {}

/// The result of a step: it is written to the log once, and read from it in every replay.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a step",
    label = "the log keeps the result of this step as JSON",
    note = "add `#[derive(serde::Serialize, serde::Deserialize)]` to the type, and to the types inside it",
    note = "if nothing after the step needs the value, return `Ok(())`; keep connections and handles outside of steps"
)]
pub trait StepOutput: Serialize + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> StepOutput for T {}

/// The future of a body: of a step, a group, a probe or a compensation.
#[diagnostic::on_unimplemented(
    message = "the body must return a future of a `goldseam::Result`, and `{Self}` is not one",
    label = "the body of this operation returns something else",
    note = "a body is a closure around async code: `|| charge(&order)` with `async fn charge(…) -> goldseam::Result<T>`, \
            or `|| async {{ Ok(value) }}`",
    note = "if the function has another error type, let `?` convert it: `|| async {{ Ok(charge(&order).await?) }}`"
)]
pub trait BodyFuture<T>: Future<Output = Result<T>> {}

#[diagnostic::do_not_recommend]
impl<T, F: Future<Output = Result<T>>> BodyFuture<T> for F {}

/// The future of a workflow function.
#[diagnostic::on_unimplemented(
    message = "a workflow function must return a future of a `Result`, and `{Self}` is not one",
    label = "this function is not a workflow",
    note = "a workflow is `async fn name(ctx: Context, input: Input) -> goldseam::Result<Output>`"
)]
pub trait WorkflowFuture<O, E>: Future<Output = Result<O, E>> {}

#[diagnostic::do_not_recommend]
impl<O, E, F: Future<Output = Result<O, E>>> WorkflowFuture<O, E> for F {}
