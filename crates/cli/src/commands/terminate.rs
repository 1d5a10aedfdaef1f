//! `goldseam terminate`.

use clap::Args;
use goldseam::RunId;
use goldseam::core::event::Terminated;
use goldseam_api::doc::change::Reason;

use super::who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// End a run now, without its code and without compensation
///
/// For runs that cancel cannot end: their code is gone, they are parked, or their log is damaged. Nothing is undone;
/// what is left standing is recorded and shown. Open children are asked to cancel. A worker that has the run loses it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  goldseam terminate ord-7 --reason 'refunded by hand, ticket 4711' --yes\n\nTry goldseam cancel first: it runs the compensations."
)]
pub(crate) struct TerminateArgs {
    /// The run
    run: String,
    /// Why; stays in the run's history
    #[arg(long)]
    reason: String,
    /// Who; the name of the user unless given
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// End it; nothing is undone
    #[arg(long)]
    yes: bool,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: TerminateArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    if !args.yes {
        return Err(Fail::usage(
            format!("terminate ends {run} for good and undoes nothing"),
            format!("look first: goldseam show {run}; then add --yes"),
        ));
    }
    let (caller, reason) = (who::caller(args.by), Reason { by: None, reason: args.reason });
    let done = app.api().await?.terminate(&caller, &run, reason).await?;
    let mut words = vec![format!("terminated {run}")];
    words.extend(left(&done.left));
    Ok(app.did(&run, &done, &words.join("\n")))
}

/// What a termination left standing, a line each.
pub(crate) fn left(left: &Terminated) -> Vec<String> {
    let list = |names: Vec<&str>| names.join(", ");
    let paths = |paths: &[goldseam::Path]| list(paths.iter().map(goldseam::Path::as_str).collect());
    let mut lines = Vec::new();
    if !left.standing.is_empty() {
        lines.push(format!("left standing, not undone: {}", paths(&left.standing)));
    }
    if !left.undoing.is_empty() {
        lines.push(format!("was being undone: {}", paths(&left.undoing)));
    }
    if !left.remote.is_empty() {
        lines.push(format!("handed out to workers, tasks dropped: {}", paths(&left.remote)));
    }
    if !left.children.is_empty() {
        lines.push(format!(
            "children, asked to cancel: {}",
            list(left.children.iter().map(RunId::as_str).collect())
        ));
    }
    lines.extend(left.unknown.iter().map(|why| format!("may be incomplete: {why}")));
    lines
}
