//! `goldseam branches`.

use clap::Args;
use goldseam::core::Recorded;
use goldseam::core::branch::{Branch, Branches};
use goldseam::{RunId, Seq};
use serde::Serialize;
use serde_json::json;

use crate::app::App;
use crate::describe;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{log, out};

/// List the timelines of a run
///
/// Branches fork where somebody jumped, retried or recovery cut; none is ever deleted. The last
/// one opened is active.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam branches ord-7")]
pub(crate) struct BranchesArgs {
    /// The run
    run: String,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: BranchesArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let history = app.client().await?.history(&run).await?;
    let branches = log::branches(&history);
    let items = items(&history, &branches);
    match () {
        () if app.json => out::json(&json!({ "items": items })),
        () if app.jsonl => items.iter().for_each(out::jsonl),
        () if app.quiet => branches.iter().for_each(|branch| out::line(branch.id.to_string())),
        () => app.table(&table(&items)),
    }
    Ok(Exit::Ok)
}

/// A branch as a program reads it.
#[derive(Debug, Serialize)]
pub(crate) struct Item {
    branch: String,
    parent: Option<String>,
    cutoff: Seq,
    opened: Seq,
    events: usize,
    active: bool,
    why: String,
}

/// Every branch of a run, in order of opening.
pub(crate) fn items(history: &[Recorded], branches: &Branches) -> Vec<Item> {
    let active = branches.active().id;
    let item = |branch: &Branch| Item {
        branch: branch.id.to_string(),
        parent: branch.parent.map(|parent| parent.to_string()),
        cutoff: branch.cutoff,
        opened: branch.opened,
        events: history.iter().filter(|recorded| recorded.branch == branch.id).count(),
        active: branch.id == active,
        why: branch.why.as_ref().map_or_else(|| "start".to_owned(), describe::why),
    };
    branches.iter().map(item).collect()
}

fn table(items: &[Item]) -> Table {
    let mut table = Table::new(&["BRANCH", "PARENT", "CUTOFF", "OPENED", "EVENTS", "ACTIVE", "WHY"]);
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
