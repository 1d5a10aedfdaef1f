//! `goldseam signal`.

use clap::Args;
use goldseam::unstable::core::operation::Verb;
use goldseam_api::doc::change::NewSignal;

use super::actor::Actor;
use super::bulk::{Bulk, BulkArgs, BulkTarget};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::payload;

/// Send a signal to runs
///
/// The signal waits in the run's mail until the run reads it, and is delivered once, in order.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam signal ord-7 paid --data '{\"cents\":4200}'\n  goldseam signal ord-7 paid --data @payment.json --id payment-311   (a repeat is ignored)"
)]
pub(crate) struct SignalArgs {
    /// The run; omit it with --where
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Name of the signal
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Content: JSON, @file, or - for stdin; defaults to null
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    data: Option<String>,
    /// Deduplicates: a repeat with the same id changes nothing
    #[arg(long, conflicts_with = "where")]
    id: Option<String>,
    /// Only show what would be done to the selected runs
    #[arg(long, requires = "where")]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: SignalArgs) -> Result<Exit, CliError> {
    // With --where, the only name is that of the signal.
    let (run, name) = match (args.run, args.name) {
        (Some(name), None) if args.bulk.condition.is_some() => (None, Some(name)),
        given => given,
    };
    let target = args.bulk.target(Verb::Signal, run.as_deref())?;
    let Some(name) = name else {
        return Err(CliError::usage("the name of the signal is missing", "goldseam signal RUN NAME"));
    };
    let payload = payload::read(args.data.as_deref())?;
    let run = match target {
        BulkTarget::Run(run) => run,
        BulkTarget::Many(condition) => {
            let bulk = Bulk::new(Verb::Signal, condition, args.bulk, args.dry_run);
            return bulk.sending(name, payload).run(app, args.actor).await;
        }
    };
    let new = NewSignal { name, payload, id: args.id };
    let sent = app.api().await?.signal(&args.actor.caller(), &run, new).await?;
    if let Some(warning) = &sent.warning {
        app.warn(warning);
    }
    Ok(app.print_result(&run, &sent, &format!("sent {} to {run}", sent.signal)))
}
