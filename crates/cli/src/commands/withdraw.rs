//! `goldseam withdraw`.

use clap::Args;
use goldseam::RunId;
use goldseam::unstable::core::event::Request;
use goldseam_api::doc::ending::NewWithdrawal;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Withdraw a jump or a cancel request that no worker has acted on
///
/// `goldseam why` shows pending requests. Once a compensation has begun, or a worker has the run, a request can no
/// longer be withdrawn.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam withdraw ord-7\n  goldseam withdraw ord-7 --cancel --reason 'the customer wants it after all'"
)]
pub(crate) struct WithdrawArgs {
    /// The run
    run: String,
    /// Withdraw the jump
    #[arg(long, conflicts_with = "cancel")]
    jump: bool,
    /// Withdraw the cancel request
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: WithdrawArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let what = match (args.jump, args.cancel) {
        (true, _) => Some(Request::Jump),
        (_, true) => Some(Request::Cancel),
        _ => None,
    };
    let caller = args.actor.caller();
    let new = NewWithdrawal { what, by: None, reason: args.actor.reason };
    let done = app.api().await?.withdraw(&caller, &run, new).await?;
    let text = match done.what {
        Request::Jump => format!("withdrew the jump of {run}; the run continues where it was"),
        Request::Cancel => format!("withdrew the cancel request of {run}; the run continues"),
    };
    Ok(app.print_result(&run, &done, &text))
}
