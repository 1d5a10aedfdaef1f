//! `goldseam queue reclaim` and `goldseam queue stats`.

use std::time::Duration;

use clap::Args;
use goldseam_api::doc::task::{NewReclaim, QueueStatsDoc};

use crate::app::App;
use crate::commands::{actor, nodes};
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, time};

/// Selects tasks to reclaim.
#[derive(Debug, Args)]
pub(crate) struct ReclaimArgs {
    /// Reclaim every task whose claimant has been silent for this long, regardless of the task's own limit
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    older_than: Option<Duration>,
    /// Only count; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn reclaim(app: &App, args: &ReclaimArgs) -> Result<Exit, CliError> {
    let older_than_ms = args.older_than.and_then(|span| u64::try_from(span.as_millis()).ok());
    let new = NewReclaim { older_than_ms, dry_run: args.dry_run };
    let done = app.api().await?.reclaim(&actor::caller(None), new).await?;
    let (verb, freed) = if args.dry_run { ("would reclaim", "free") } else { ("reclaimed", "freed") };
    let tasks = plural(done.entries_reclaimed, "task");
    match done.locks_cleaned {
        _ if app.wants_json() => out::json(&done),
        _ if app.quiet => out::line(done.entries_reclaimed.to_string()),
        None => out::line(format!("{verb} {tasks}")),
        Some(locks) => out::line(format!("{verb} {tasks} and {freed} {}", plural(locks, "lock"))),
    }
    Ok(Exit::Ok)
}

fn plural(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

pub(super) async fn stats(app: &App) -> Result<Exit, CliError> {
    let stats = app.api().await?.queues().await?;
    match () {
        () if app.json => out::json(&stats),
        () if app.jsonl => stats.queues.iter().for_each(out::jsonl),
        () if app.quiet => stats.queues.iter().for_each(|found| out::line(found.queue.as_str())),
        () => show(app, &stats),
    }
    if !stats.complete && !app.json {
        out::note(format!("stopped after {} tasks: the counts are incomplete", stats.counted));
    }
    Ok(if stats.flaws.is_empty() { Exit::Ok } else { Exit::Error })
}

fn show(app: &App, stats: &QueueStatsDoc) {
    let mut table = TextTable::new(&["QUEUE", "READY", "DUE", "CLAIMED", "DEAD", "OLDEST", "NODES"]);
    for found in &stats.queues {
        let mut row = vec![found.queue.to_string()];
        row.extend([found.ready, found.due, found.claimed, found.dead].map(|count| count.to_string()));
        let oldest = found.oldest_ms.map(|ms| time::span(Duration::from_millis(ms)));
        row.push(oldest.unwrap_or_else(|| "-".to_owned()));
        row.push(found.nodes.map_or_else(|| "-".to_owned(), |nodes| nodes.to_string()));
        table.row(row);
    }
    app.table(&table);
    for work in stats.unserved.iter().flatten() {
        app.text(None, &nodes::line(app, work));
    }
    for wrong in &stats.flaws {
        out::line(format!("wrong: task {}: {}", wrong.task, wrong.flaw));
    }
}
