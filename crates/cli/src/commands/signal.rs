//! `goldseam signal`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::change::NewSignal;

use super::actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::payload;

/// Send a signal to a run
///
/// The signal waits in the run's mail until the run reads it, and is delivered once, in order.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam signal ord-7 paid --data '{\"cents\":4200}'\n  goldseam signal ord-7 paid --data @payment.json --id payment-311   (a repeat is ignored)"
)]
pub(crate) struct SignalArgs {
    /// The run
    run: String,
    /// Name of the signal
    name: String,
    /// Content: JSON, @file, or - for stdin; defaults to null
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    data: Option<String>,
    /// Deduplicates: a repeat with the same id changes nothing
    #[arg(long)]
    id: Option<String>,
}

pub(crate) async fn run(app: &App, args: SignalArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let payload = payload::read(args.data.as_deref())?;
    let new = NewSignal { name: args.name, payload, id: args.id };
    let sent = app.api().await?.signal(&actor::caller(None), &run, new).await?;
    if let Some(warning) = &sent.warning {
        app.warn(warning);
    }
    Ok(app.print_result(&run, &sent, &format!("sent {} to {run}", sent.signal)))
}
