//! `goldseam branches`.

use clap::Args;
use goldseam::RunId;
use goldseam_api::doc::run::BranchDoc;

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{damage, out};

/// List the branches of a run
///
/// A jump, a retry or a recovery opens a branch. Branches are never deleted; the last one opened is active.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam branches ord-7")]
pub(crate) struct BranchesArgs {
    /// The run
    run: String,
}

pub(crate) async fn run(app: &App, args: BranchesArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let branches = app.api().await?.branches(&run).await?;
    match () {
        () if app.json => out::json(&branches),
        () if app.jsonl => branches.items.iter().for_each(out::jsonl),
        () if app.quiet => branches.items.iter().for_each(|item| out::line(&item.branch)),
        () => {
            app.table(&table(&branches.items));
            damage::lines(app, &branches.damage);
        }
    }
    Ok(damage::exit(&branches.damage))
}

fn table(items: &[BranchDoc]) -> TextTable {
    let mut table = TextTable::new(&["BRANCH", "PARENT", "CUTOFF", "OPENED", "EVENTS", "ACTIVE", "WHY"]);
    for item in items {
        table.row(vec![
            item.branch.clone(),
            item.parent.clone().unwrap_or_else(|| "-".to_owned()),
            item.cutoff.to_string(),
            item.opened.to_string(),
            item.events.to_string(),
            (if item.active { "yes" } else { "-" }).to_owned(),
            item.why.clone(),
        ]);
    }
    table
}
