//! `goldseam withdraw`.

use clap::Args;
use goldseam::RunId;
use goldseam::core::event::Request;
use goldseam_api::doc::ending::NewWithdrawal;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Take back a jump or a request to cancel that no worker has acted on
///
/// `goldseam why` shows what is pending. Once a step is being undone for it, or a worker has the run, a request can no
/// longer be taken back.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam withdraw ord-7\n  goldseam withdraw ord-7 --cancel --reason 'the customer wants it after all'"
)]
pub(crate) struct WithdrawArgs {
    /// The run
    run: String,
    /// Take back the jump
    #[arg(long, conflicts_with = "cancel")]
    jump: bool,
    /// Take back the request to cancel
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: WithdrawArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let what = match (args.jump, args.cancel) {
        (true, _) => Some(Request::Jump),
        (_, true) => Some(Request::Cancel),
        _ => None,
    };
    let caller = args.who.caller();
    let new = NewWithdrawal { what, by: None, reason: args.who.reason };
    let done = app.api().await?.withdraw(&caller, &run, new).await?;
    let words = match done.what {
        Request::Jump => format!("took back the jump of {run}; it goes on where it was"),
        Request::Cancel => format!("took back the request to cancel {run}; it goes on"),
    };
    Ok(app.did(&run, &done, &words))
}
