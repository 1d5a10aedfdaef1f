//! `goldseam diff`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::diff::DiffQuery;
use goldseam_api::view::diff;

use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::{damage, out};

/// Compare two branches of a run
///
/// Shows where the branches part and what each did after that. A line with - is the result on the first branch, a line
/// with + the result on the second.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam diff ord-7 b1 b2")]
pub(crate) struct DiffArgs {
    /// The run
    run: String,
    /// One branch
    left: String,
    /// Another branch
    right: String,
}

pub(crate) async fn run(app: &App, args: DiffArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let api = app.api().await?;
    if app.wants_json() {
        let query = DiffQuery { left: args.left, right: args.right };
        let diff = api.diff(&run, query).await?;
        out::json(&diff);
        return Ok(damage::exit(&diff.damage));
    }
    // Text shows less of each payload than the document.
    let (history, broken) = super::history::recorded(&*api, &run).await?;
    let diff = diff::diff(&run, &history, &args.left, &args.right, app.payload_length())?;
    app.remark(&format!("{} and {} are equal up to event {}", diff.left, diff.right, diff.parted_after));
    for item in diff.items {
        for (sign, hue, fact) in [("-", Hue::Bad, item.left), ("+", Hue::Good, item.right)] {
            if let Some(fact) = fact {
                out::line(app.colors.apply(hue, format!("{sign} {fact}")));
            }
        }
    }
    damage::lines(app, &broken);
    Ok(damage::exit(&broken))
}
