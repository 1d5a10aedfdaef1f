//! `goldseam terminate`.

use clap::Args;
use goldseam::RunId;
use goldseam::unstable::core::event::Terminated;
use goldseam_api::doc::change::NewNote;

use super::actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// End a run now, without its code and without compensation
///
/// For runs that cancel cannot end: their code is gone, they are parked, or their log is damaged. Nothing is
/// compensated; the log records what is left standing. Open children get a cancel request. The current owner loses the
/// run.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  goldseam terminate ord-7 --reason 'refunded by hand, ticket 4711' --yes\n\nTry goldseam cancel first: it runs the compensations."
)]
pub(crate) struct TerminateArgs {
    /// The run
    run: String,
    /// Why; kept in the run's history
    #[arg(long)]
    reason: String,
    /// Who; defaults to the user name
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Confirm that nothing will be compensated
    #[arg(long)]
    yes: bool,
}

pub(crate) async fn run(app: &App, args: TerminateArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    if !args.yes {
        return Err(CliError::usage(
            format!("terminate ends {run} permanently and compensates nothing"),
            format!("look first with goldseam show {run}, then add --yes"),
        ));
    }
    let caller = actor::caller(args.by);
    let reason = NewNote { by: None, reason: args.reason };
    let done = app.api().await?.terminate(&caller, &run, reason).await?;
    let mut lines = vec![format!("terminated {run}")];
    lines.extend(left_standing(&done.left));
    Ok(app.print_result(&run, &done, &lines.join("\n")))
}

/// Lists what a termination left standing.
pub(crate) fn left_standing(left: &Terminated) -> Vec<String> {
    let list = |names: Vec<&str>| names.join(", ");
    let paths = |paths: &[goldseam::Path]| list(paths.iter().map(goldseam::Path::as_str).collect());
    let mut lines = Vec::new();
    if !left.standing.is_empty() {
        lines.push(format!("left standing, not compensated: {}", paths(&left.standing)));
    }
    if !left.undoing.is_empty() {
        lines.push(format!("compensation interrupted: {}", paths(&left.undoing)));
    }
    if !left.remote.is_empty() {
        lines.push(format!("remote steps, tasks cancelled: {}", paths(&left.remote)));
    }
    if !left.children.is_empty() {
        lines.push(format!(
            "children with a cancel request: {}",
            list(left.children.iter().map(RunId::as_str).collect())
        ));
    }
    lines.extend(left.unknown.iter().map(|why| format!("may be incomplete: {why}")));
    lines
}
