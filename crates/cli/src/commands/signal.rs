//! `goldseam signal`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::change::NewSignal;

use super::who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::payload;

/// Send a signal to a run
///
/// It waits in the run's mail until the run looks for it, and is delivered once, in order.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam signal ord-7 paid --data '{\"cents\":4200}'\n  goldseam signal ord-7 paid --data @payment.json --id payment-311   (twice is once)"
)]
pub(crate) struct SignalArgs {
    /// The run
    run: String,
    /// Name of the signal
    name: String,
    /// Content: JSON, @file, or - for stdin; null unless given
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    data: Option<String>,
    /// Deduplicates: the same id again changes nothing
    #[arg(long)]
    id: Option<String>,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: SignalArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let payload = payload::read(args.data.as_deref())?;
    let new = NewSignal { name: args.name, payload, id: args.id };
    let sent = app.api().await?.signal(&who::caller(None), &run, new).await?;
    if let Some(warning) = &sent.warning {
        app.warn(warning);
    }
    Ok(app.did(&run, &sent, &format!("sent {} to {run}", sent.signal)))
}
