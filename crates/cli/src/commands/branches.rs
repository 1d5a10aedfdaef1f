//! `goldseam branches`.

use clap::Args;
use goldseam::RunId;
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
    let active = branches.active().id;
    let mut table = Table::new(&["BRANCH", "PARENT", "CUTOFF", "OPENED", "EVENTS", "ACTIVE", "WHY"]);
    let mut items = Vec::new();
    for branch in branches.iter() {
        let events = history.iter().filter(|recorded| recorded.branch == branch.id).count();
        let why = branch.why.as_ref().map_or_else(|| "start".to_owned(), describe::why);
        let parent = branch.parent.map(|parent| parent.to_string());
        items.push(json!({ "branch": branch.id.to_string(), "parent": parent, "cutoff": branch.cutoff,
            "opened": branch.opened, "events": events, "active": branch.id == active, "why": why }));
        table.row(vec![
            branch.id.to_string(),
            parent.unwrap_or_else(|| "-".to_owned()),
            branch.cutoff.to_string(),
            branch.opened.to_string(),
            events.to_string(),
            (if branch.id == active { "yes" } else { "-" }).to_owned(),
            why,
        ]);
    }
    match () {
        () if app.json => out::json(&json!({ "items": items })),
        () if app.jsonl => items.iter().for_each(out::jsonl),
        () if app.quiet => branches.iter().for_each(|branch| out::line(branch.id.to_string())),
        () => app.table(&table),
    }
    Ok(Exit::Ok)
}
