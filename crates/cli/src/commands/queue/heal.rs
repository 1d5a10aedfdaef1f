//! `goldseam queue reclaim` and `goldseam queue stats`.

use std::time::Duration;

use clap::Args;
use goldseam::engine::stats::Stats;
use serde_json::json;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{out, when};

/// What is taken back.
#[derive(Debug, Args)]
pub(crate) struct ReclaimArgs {
    /// Every task whose claimant gave no sign of life for this long, whatever the task itself allows
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
    older_than: Option<Duration>,
    /// Only count; touch nothing
    #[arg(long)]
    dry_run: bool,
}

/// Takes tasks back from claimants who are gone or silent.
pub(super) async fn reclaim(app: &App, args: &ReclaimArgs) -> Result<Exit, Fail> {
    let claims = app.client().await?.claims();
    let (dry, verb) = (args.dry_run, if args.dry_run { "would take back" } else { "took back" });
    if let Some(span) = args.older_than {
        let entries = match dry {
            true => claims.count_stale(span).await?,
            false => claims.reclaim_stale(span).await?,
        };
        match () {
            () if app.wants_json() => out::json(&json!({ "entries_reclaimed": entries, "dry_run": dry })),
            () if app.quiet => out::line(entries.to_string()),
            () => out::line(format!("{verb} {}", several(entries, "task"))),
        }
        return Ok(Exit::Ok);
    }
    let stats = match dry {
        true => claims.recovery_stats().await?,
        false => claims.detect_and_recover_stale().await?,
    };
    match () {
        () if app.wants_json() => out::json(&json!({ "locks_cleaned": stats.locks_cleaned,
            "entries_reclaimed": stats.entries_reclaimed, "recovery_timestamp": stats.recovery_timestamp,
            "dry_run": dry })),
        () if app.quiet => out::line(stats.entries_reclaimed.to_string()),
        () => {
            let (entries, locks) = (stats.entries_reclaimed, stats.locks_cleaned);
            let freed = if dry { "free" } else { "freed" };
            out::line(format!("{verb} {} and {freed} {}", several(entries, "task"), several(locks, "lock")));
        }
    }
    Ok(Exit::Ok)
}

fn several(count: u64, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

/// Counts what stands in each queue.
pub(super) async fn stats(app: &App) -> Result<Exit, Fail> {
    let stats = app.client().await?.queue().stats().await?;
    match () {
        () if app.json => out::json(&stats),
        () if app.jsonl => stats.queues.iter().for_each(out::jsonl),
        () if app.quiet => stats.queues.iter().for_each(|found| out::line(found.queue.as_str())),
        () => show(app, &stats),
    }
    if !stats.complete && !app.json {
        out::note(format!("stopped after {} tasks: there is more of everything than this", stats.counted));
    }
    Ok(if stats.flaws.is_empty() { Exit::Ok } else { Exit::Error })
}

fn show(app: &App, stats: &Stats) {
    let mut table = Table::new(&["QUEUE", "READY", "DUE", "CLAIMED", "DEAD", "OLDEST"]);
    for found in &stats.queues {
        let mut row = vec![found.queue.to_string()];
        row.extend([found.ready, found.due, found.claimed, found.dead].map(|count| count.to_string()));
        let oldest = found.oldest_ms.map(|ms| when::span(Duration::from_millis(ms)));
        row.push(oldest.unwrap_or_else(|| "-".to_owned()));
        table.row(row);
    }
    app.table(&table);
    for wrong in &stats.flaws {
        out::line(format!("wrong: task {}: {}", wrong.task, wrong.flaw));
    }
}
