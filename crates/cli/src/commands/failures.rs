//! `goldseam failures`.

use std::time::Duration;

use clap::Args;
use goldseam_api::doc::operation::{FailureGroupDoc, FailuresDoc, FailuresQuery};

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

/// Columns of the table.
const HEAD: &[&str] = &["CAUSE", "RUNS", "FIRST", "LAST", "WORKFLOWS", "EXAMPLE", "MESSAGE"];

/// Group failed and parked runs by their cause
///
/// Runs have the same cause if the same step failed with the same message, apart from ids, numbers, times and quoted
/// values.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam failures --since 2h\n  goldseam failures --where 'workflow = order'\n  goldseam ls --cause ab12cd\n  goldseam retry --where 'cause = \"ab12cd\"' --canary 1,10%,all"
)]
pub(crate) struct FailuresArgs {
    /// Only runs that this condition selects
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Only runs that changed within this time, as in 90s, 1h, 2d
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    since: Option<Duration>,
}

pub(crate) async fn run(app: &App, args: FailuresArgs) -> Result<Exit, CliError> {
    let since = args.since.map(|span| format!("updated >= {}", time::iso(app.now() - span)));
    let condition = match (args.condition, since) {
        (Some(condition), Some(since)) => Some(format!("({condition}) and {since}")),
        (condition, since) => condition.or(since),
    };
    let found = app.api().await?.failures(FailuresQuery { condition }).await?;
    match () {
        () if app.json => out::json(&found),
        () if app.jsonl => found.groups.iter().for_each(out::jsonl),
        () if app.quiet => found.groups.iter().filter_map(|group| group.cause.as_ref()).for_each(out::line),
        () => show(app, &found),
    }
    Ok(Exit::Ok)
}

fn show(app: &App, found: &FailuresDoc) {
    if found.groups.is_empty() {
        app.remark("no failed or parked runs");
        return;
    }
    let mut table = TextTable::new(HEAD);
    found.groups.iter().for_each(|group| table.row(row(group)));
    app.table(&table);
    let runs = text::count(found.total, "run");
    app.remark(&format!("{runs} failed or parked, {}", text::count(found.groups.len() as u64, "cause")));
    if found.left_out > 0 {
        app.remark(&format!("{} of further causes are not shown", text::count(found.left_out, "run")));
    }
    if !found.unreadable.is_empty() {
        let rows = text::count(found.unreadable.len() as u64, "unreadable row");
        app.remark(&format!("left out: {rows}; goldseam doctor --fix rebuilds them"));
    }
    if let Some(command) = found.groups.first().and_then(|group| group.command.as_ref()) {
        app.remark(&format!("next: {command}"));
    }
}

fn row(group: &FailureGroupDoc) -> Vec<String> {
    let workflows: Vec<&str> = group.workflows.iter().map(String::as_str).collect();
    let message = match &group.step {
        Some(step) => format!("{step}: {}", group.message),
        None => group.message.clone(),
    };
    vec![
        group.cause.clone().unwrap_or_else(|| "-".to_owned()),
        group.count.to_string(),
        time::iso(group.first),
        time::iso(group.last),
        workflows.join(" "),
        group.example.to_string(),
        text::one_line(&message),
    ]
}
