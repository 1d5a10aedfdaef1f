//! The error of workflow functions and steps.

use std::error::Error as StdError;
use std::fmt;

use goldseam_core::{Class, Failure, Hint, NextStep, Path};

use crate::ledger::error::EngineError;

/// The result of a workflow function, of a step, and of a program that uses an engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a workflow, a step or a call of the engine failed.
///
/// The operator `?` converts any other error into it: every [`std::error::Error`], `anyhow::Error`,
/// `Box<dyn Error + Send + Sync>`, [`EngineError`] and texts. A converted error has the class *unknown*, which is
/// retried like *retryable*; [`ResultExt`] and [`Error::terminal`] set another class.
///
/// An error of the engine keeps its code and its hint, and `fn main() -> goldseam::Result<()>` prints both:
///
/// ```
/// # async fn demo() -> goldseam::Result<()> {
/// use goldseam::prelude::*;
///
/// let Err(error) = goldseam::connect("mysql:shop").await else { unreachable!("not a store URL") };
/// let error = goldseam::Error::from(error);
/// assert_eq!(error.code(), Some("GS0206"));
/// assert!(format!("{error:?}").starts_with("error[GS0206]: "));
/// assert!(error.hint().is_some_and(|hint| hint.starts_with("pass sqlite:PATH")));
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(demo()).unwrap();
/// ```
pub struct Error {
    failure: Failure,
    kind: ErrorKind,
    hint: Option<Box<Hint>>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ErrorKind {
    Plain,
    Cancelled,
    Continue,
}

impl Error {
    /// Creates an error that is not retried.
    ///
    /// ```
    /// use goldseam::{Class, Error};
    ///
    /// assert_eq!(Error::terminal("card declined").failure().class, Class::Terminal);
    /// ```
    pub fn terminal(message: impl Into<String>) -> Self {
        Failure::terminal(message).into()
    }

    /// Creates an error that is retried.
    ///
    /// ```
    /// use goldseam::{Class, Error};
    ///
    /// assert_eq!(Error::retryable("bank is closed").failure().class, Class::Retryable);
    /// ```
    pub fn retryable(message: impl Into<String>) -> Self {
        Failure::retryable(message).into()
    }

    /// The failure as the log records it.
    pub fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Whether the run is being cancelled. Return this error to the caller; compensations then run.
    pub fn is_cancelled(&self) -> bool {
        self.kind == ErrorKind::Cancelled
    }

    /// Whether a wait or an attempt ran out of time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.failure.code.as_deref(), Some("timeout" | "heartbeat-timeout"))
    }

    /// The short stable code for programs, if there is one: `timeout`, `cancelled`, the code of an [`EngineError`]
    /// such as `GS0206`, or the code that the author chose.
    pub fn code(&self) -> Option<&str> {
        self.failure.code.as_deref()
    }

    /// What to do next, if the error came from the engine or a store and the message does not say it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref().map(|hint| &**hint)
    }

    /// The steps in the hint, as values: what a program can do next.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// use goldseam::NextStep;
    ///
    /// let client = goldseam::Client::new(goldseam::open_store(&url).await?);
    /// let run = client.start("greet", "greet-1", "Ada").await?;
    /// client.terminate(run.id(), "not needed".into()).await?;
    /// let Err(error) = client.pause(run.id(), "too late".into()).await else { unreachable!("it has ended") };
    /// let error = goldseam::Error::from(error);
    /// assert_eq!(error.hint(), Some("`show greet-1` shows how it ended"));
    /// assert_eq!(error.next_steps().collect::<Vec<_>>(), [&NextStep::show(run.id())]);
    /// # Ok(()) }
    /// ```
    pub fn next_steps(&self) -> impl Iterator<Item = &NextStep> {
        self.hint.iter().flat_map(|hint| hint.steps())
    }

    /// The error that was converted into this one, in this process. The log keeps only its text.
    pub fn source(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.source.as_deref()
    }

    /// The converted error or one of its causes, if one has the type `T`.
    ///
    /// ```
    /// let error = goldseam::Error::from(std::io::Error::other("disk"));
    /// assert!(error.downcast_ref::<std::io::Error>().is_some());
    /// ```
    pub fn downcast_ref<T: StdError + 'static>(&self) -> Option<&T> {
        causes(self.source.as_deref()?).find_map(|cause| cause.downcast_ref::<T>())
    }

    /// Converts into a standard error, for functions that return `anyhow::Result` or `Box<dyn Error>`.
    ///
    /// If such an error is converted back, it still has its class and code, and a cancelled run is still cancelled.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn checkout(ctx: Context, order: String) -> anyhow::Result<String> {
    ///     let charged = ctx.step("charge", || async { Ok("paid ".to_owned()) }).await;
    ///     Ok(charged.map_err(Error::into_std)? + &order)
    /// }
    /// # fn main() {}
    /// ```
    pub fn into_std(self) -> impl StdError + Send + Sync + 'static {
        StdForm(self)
    }

    fn with_class(mut self, class: Class) -> Self {
        self.failure.class = class;
        self
    }

    fn of_failure(failure: Failure, kind: ErrorKind) -> Self {
        Self { failure, kind, hint: None, source: None }
    }

    pub(crate) fn cancelled() -> Self {
        let failure = Failure::terminal("the run is being cancelled").with_code("cancelled");
        Self::of_failure(failure, ErrorKind::Cancelled)
    }

    pub(crate) fn timeout(path: &Path) -> Self {
        Failure::terminal(format!("wait {path} timed out")).with_code("timeout").into()
    }

    pub(crate) fn of_step(path: &Path, failure: Failure) -> Self {
        let message = format!("step {path} failed: {}", failure.message);
        let kind = if failure.code.as_deref() == Some("cancelled") {
            ErrorKind::Cancelled
        } else {
            ErrorKind::Plain
        };
        Self::of_failure(Failure { message, ..failure }, kind)
    }

    pub(crate) fn continue_as_new() -> Self {
        let failure = Failure::terminal("the run continues as new").with_code("continue");
        Self::of_failure(failure, ErrorKind::Continue)
    }

    pub(crate) fn is_continue(&self) -> bool {
        self.kind == ErrorKind::Continue
    }

    /// Keeps class, code and kind of the first cause that has them.
    fn of_source(source: Box<dyn StdError + Send + Sync>) -> Self {
        let source = match source.downcast::<StdForm>() {
            Ok(carried) => return carried.0,
            Err(source) => source,
        };
        let source = match source.downcast::<Failure>() {
            Ok(failure) => return Self::of_failure(*failure, ErrorKind::Plain),
            Err(source) => source,
        };
        let mut error =
            Self::of_failure(Failure::new(Class::Unknown, message_of(&*source)), ErrorKind::Plain);
        for cause in causes(&*source) {
            if let Some(StdForm(known)) = cause.downcast_ref() {
                error.failure = Failure { message: error.failure.message, ..known.failure.clone() };
                (error.kind, error.hint) = (known.kind, known.hint.clone());
                break;
            }
            if let Some(failure) = cause.downcast_ref::<Failure>() {
                error.failure = Failure { message: error.failure.message, ..failure.clone() };
                break;
            }
            if let Some(refused) = cause.downcast_ref::<EngineError>() {
                error.failure.code = Some(refused.code().to_owned());
                error.hint = refused.hint().map(Box::new);
                break;
            }
        }
        error.source = Some(source);
        error
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::of_source(error.into())
    }
}

impl From<Error> for Box<dyn StdError> {
    fn from(error: Error) -> Self {
        Box::new(StdForm(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.failure, f)
    }
}

/// What `main` prints: the code, the message and the hint.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code() {
            Some(code) => write!(f, "error[{code}]: {}", self.failure.message)?,
            None => f.write_str(&self.failure.message)?,
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  help: {hint}"),
            None => Ok(()),
        }
    }
}

/// An [`Error`] as a standard error. `Error` is not one itself, or `?` could not convert every error into it.
struct StdForm(Error);

impl StdError for StdForm {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref()?.source()
    }
}

impl fmt::Display for StdForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for StdForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + Send + Sync + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |cause| (*cause).source())
}

/// The text of an error and of its causes. A cause whose text the error already ends with is not repeated.
fn message_of(error: &(dyn StdError + Send + Sync + 'static)) -> String {
    let mut message = String::new();
    for cause in causes(error) {
        let text = cause.to_string();
        if message.is_empty() {
            message = text;
        } else if !message.ends_with(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
    }
    message
}

/// Sets the class of the error in a result.
pub trait ResultExt<T> {
    /// Makes the error terminal: no retry can help.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// fn parse(amount: &str) -> goldseam::Result<u64> {
    ///     amount.parse::<u64>().terminal()
    /// }
    /// assert_eq!(parse("ten").unwrap_err().failure().class, goldseam::Class::Terminal);
    /// ```
    fn terminal(self) -> Result<T>;

    /// Makes the error retryable.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// let read = std::fs::read("/no/such/file").retryable();
    /// assert_eq!(read.unwrap_err().failure().class, goldseam::Class::Retryable);
    /// ```
    fn retryable(self) -> Result<T>;
}

impl<T, E: Into<Error>> ResultExt<T> for Result<T, E> {
    fn terminal(self) -> Result<T> {
        self.map_err(|error| error.into().with_class(Class::Terminal))
    }

    fn retryable(self) -> Result<T> {
        self.map_err(|error| error.into().with_class(Class::Retryable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("charging")]
    struct Outer(#[source] Box<dyn StdError + Send + Sync>);

    #[test]
    fn an_error_keeps_its_class_and_code_inside_another() {
        let inner = Error::terminal("card declined").into_std();
        let error = Error::from(Outer(Box::new(inner)));
        assert_eq!(error.failure().class, Class::Terminal);
        assert_eq!(error.to_string(), "charging: card declined");
    }

    #[test]
    fn a_cancelled_error_stays_cancelled_as_a_standard_error() {
        assert!(Error::from(Error::cancelled().into_std()).is_cancelled());
        assert!(Error::from(Outer(Box::new(Error::cancelled().into_std()))).is_cancelled());
        let boxed: Box<dyn StdError> = Error::cancelled().into();
        assert_eq!(boxed.to_string(), "the run is being cancelled");
    }

    #[test]
    fn texts_and_boxed_errors_convert() {
        assert_eq!(Error::from("no stock").to_string(), "no stock");
        assert_eq!(Error::from("no stock".to_owned()).failure().class, Class::Unknown);
        let boxed: Box<dyn StdError + Send + Sync> = "no stock".into();
        assert_eq!(format!("{:?}", Error::from(boxed)), "no stock");
    }

    #[test]
    fn a_cause_that_the_message_repeats_appears_once() {
        let error = Error::from(Outer(Box::new(std::io::Error::other(Error::terminal("disk").into_std()))));
        assert_eq!(error.to_string(), "charging: disk");
    }
}
