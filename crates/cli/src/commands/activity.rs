//! `goldseam activity`.

use std::time::Duration;

use clap::Args;
use goldseam_api::doc::activity::ActivityQuery;
use goldseam_api::doc::overview::StatusesDoc;

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, time};

/// Columns of the table.
const HEAD: &[&str] = &["FROM", "STARTED", "COMPLETED", "FAILED", "CANCELLED", "RECOVERED"];

/// Count starts, ends and recoveries, minute by minute
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam activity\n  goldseam activity --since 24h --interval 1h\n  goldseam activity --json | jq .heal_ms"
)]
pub(crate) struct ActivityArgs {
    /// Count this time until now, as in 90s, 1h, 2d
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span, default_value = "1h")]
    since: Duration,
    /// Length of an interval
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span, default_value = "1m")]
    interval: Duration,
}

pub(crate) async fn run(app: &App, args: ActivityArgs) -> Result<Exit, CliError> {
    let query = ActivityQuery {
        since_ms: Some((app.now() - args.since).0),
        interval_ms: Some(u64::try_from(args.interval.as_millis()).unwrap_or(u64::MAX)),
    };
    let api = app.api().await?;
    let found = api.activity(query).await?;
    match () {
        () if app.json => out::json(&found),
        () if app.jsonl => found.intervals.iter().for_each(out::jsonl),
        () => {
            let mut table = TextTable::new(HEAD);
            for one in &found.intervals {
                let counts = [one.started, one.completed, one.failed, one.cancelled, one.recovered];
                table.row([vec![time::iso(one.at)], counts.map(|n| n.to_string()).to_vec()].concat());
            }
            app.table(&table);
            app.remark(&format!("now: {}", in_words(&api.statuses().await?)));
            let stalled = found.stalled_ms;
            let heal = found.heal_ms;
            app.remark(&format!("time to detect: p50 {} ms, p99 {} ms", stalled.p50, stalled.p99));
            app.remark(&format!("time to heal: p50 {} ms, p99 {} ms", heal.p50, heal.p99));
            if !found.complete {
                app.remark("more happened than one request counts: choose a shorter --since");
            }
        }
    }
    Ok(Exit::Ok)
}

/// The number of runs by status, as in `2 running, 1 failed`.
fn in_words(statuses: &StatusesDoc) -> String {
    let words: Vec<String> =
        statuses.items.iter().map(|item| format!("{} {}", item.count, item.status)).collect();
    if words.is_empty() { "no runs".to_owned() } else { words.join(", ") }
}
