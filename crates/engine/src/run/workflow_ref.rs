//! References to workflows: a name, a registered function, or a typed constant.

use std::any::{TypeId, type_name};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;

use goldseam_core::id::{IdLiteral, kind};

use crate::ledger::workflow_error::{Error, Result};
use crate::run::context::{Context, FromPayload};

/// A workflow by its name, with the types of its input and output.
///
/// Use it where the function is not registered: in a program that only starts runs.
///
/// ```
/// use goldseam::prelude::*;
///
/// const CHECKOUT: Workflow<String, u32> = Workflow::named("checkout");
///
/// async fn order(client: &Client) -> goldseam::Result<u32> {
///     let run = client.start(&CHECKOUT, "order-17", &"tea".to_owned()).await?;
///     Ok(run.result().await?)
/// }
/// # fn main() {}
/// ```
pub struct Workflow<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Workflow<I, O> {
    /// Names a workflow. In a constant, a text that cannot be a name is a compile error.
    ///
    /// ```compile_fail
    /// use goldseam::prelude::*;
    ///
    /// const CHECKOUT: Workflow<String, u32> = Workflow::named("check out");
    /// ```
    ///
    /// # Panics
    ///
    /// If the text cannot be a name: it consists of letters, digits, `.`, `_` and `-`.
    pub const fn named(name: &'static str) -> Self {
        let _checked = IdLiteral::<kind::Workflow>::new(name);
        Self { name, types: PhantomData }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl<I, O> Clone for Workflow<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Workflow<I, O> {}

impl<I, O> fmt::Debug for Workflow<I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workflow").field(&self.name).finish()
    }
}

/// The output type of a run that was started by name: [`RunHandle::result`](crate::RunHandle::result) then takes the
/// type from its caller.
#[derive(Debug, Clone, Copy)]
pub struct Untyped;

/// A reference to a workflow that takes the input `I`.
///
/// | reference | input and output |
/// |---|---|
/// | a function that is registered on this engine, `checkout` | those of the function, checked by the compiler |
/// | a typed constant, `&CHECKOUT` (see [`Workflow`]) | those of the constant, checked by the compiler |
/// | a name, `"checkout"` | any |
///
/// `Marker` only tells the implementations apart, and the compiler infers it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow with the input `{I}`",
    note = "pass the workflow function, a `&Workflow<Input, Output>`, or its name as `&str`",
    note = "a workflow function takes `(Context, Input)`; pass a reference to exactly its input type"
)]
pub trait WorkflowRef<I: ?Sized, Marker> {
    /// The output of the workflow; [`Untyped`] if the reference does not know it.
    type Output;

    /// What the reference points to.
    #[doc(hidden)]
    fn target(&self) -> WorkflowTarget<'_>;
}

/// What a reference points to.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum WorkflowTarget<'a> {
    /// A name.
    Name(&'a str),
    /// A function.
    Function {
        /// Its type.
        id: TypeId,
        /// Its path, for messages.
        label: &'static str,
    },
}

/// Marks a reference by name.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByName;

/// Marks a reference by function.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByFunction;

/// Marks a typed constant.
#[doc(hidden)]
#[derive(Debug)]
pub struct ByConstant;

impl<I: ?Sized> WorkflowRef<I, ByName> for &str {
    type Output = Untyped;

    fn target(&self) -> WorkflowTarget<'_> {
        WorkflowTarget::Name(self)
    }
}

impl<I: ?Sized> WorkflowRef<I, ByName> for &String {
    type Output = Untyped;

    fn target(&self) -> WorkflowTarget<'_> {
        WorkflowTarget::Name(self)
    }
}

impl<I, O: FromPayload> WorkflowRef<I, ByConstant> for &Workflow<I, O> {
    type Output = O;

    fn target(&self) -> WorkflowTarget<'_> {
        WorkflowTarget::Name(self.name)
    }
}

impl<F, Fut, I, O, E> WorkflowRef<I, ByFunction> for F
where
    F: Fn(Context, I) -> Fut + 'static,
    Fut: Future<Output = Result<O, E>>,
    O: FromPayload,
    E: Into<Error>,
{
    type Output = O;

    fn target(&self) -> WorkflowTarget<'_> {
        WorkflowTarget::Function { id: TypeId::of::<F>(), label: type_name::<F>() }
    }
}
