//! `goldseam diff`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::run::DiffQuery;
use goldseam_api::view::diff;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{damage, out};

/// Compare two timelines of a run
///
/// Shows where they part and what each did after that. Lines with - stand on the first branch
/// only, with + on the second only, with ~ on both with other results.
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

/// Carries it out.
pub(crate) async fn run(app: &App, args: DiffArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let api = app.api().await?;
    if app.wants_json() {
        let query = DiffQuery { left: args.left, right: args.right };
        let diff = api.diff(&run, query).await?;
        out::json(&diff);
        return Ok(damage::exit(&diff.damage));
    }
    // A person is shown less of each payload than the document holds.
    let (history, broken) = super::history::recorded(&*api, &run).await?;
    let diff = diff::diff(&run, &history, (&args.left, &args.right), app.much())?;
    app.remark(&format!("{} and {} are the same up to event {}", diff.left, diff.right, diff.parted_after));
    for item in diff.items {
        for (sign, hue, fact) in [("-", Hue::Bad, item.left), ("+", Hue::Good, item.right)] {
            if let Some(fact) = fact {
                out::line(app.paint.on(hue, format!("{sign} {fact}")));
            }
        }
    }
    damage::lines(app, &broken);
    Ok(damage::exit(&broken))
}
