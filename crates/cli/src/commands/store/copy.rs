//! `goldseam store copy` and `goldseam store reopen`.

use std::time::Duration;

use clap::Args;
use goldseam::copy::{CopyOptions, CopyReport, Counts, Digests, Progress, Role, Stage};
use goldseam::shown_url;
use indicatif::ProgressBar;
use serde_json::json;

use super::facts_of;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::table::Table;
use crate::{out, progress, text, when};

/// Copy everything to another store, where its runs go on
///
/// Copies every run with its whole log, every task and every lock, then reads all of it from both stores and
/// compares. In the end FROM is closed and TO open: start your engines there. Runs in flight go on, timers keep their
/// time, questions stay open, workers keep their claims.
///
/// Stop the engines of both stores first. A copy that was cut off, by whatever, goes on where it was when the same
/// command is given again. TO is made if it is not there.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0 only if everything was found in TO; 1 if something stays behind or is not the same; \
6 if one of the two is in use or TO is not empty.\n\nExamples:\n  \
goldseam store copy sqlite:orders.db postgres://app@db/orders --dry-run\n  \
goldseam store copy sqlite:orders.db postgres://app@db/orders\n  \
goldseam store copy sqlite:orders.db s3://my-bucket/orders\n  \
goldseam store copy sqlite:eu.db sqlite:all.db --merge"
)]
pub(crate) struct CopyArgs {
    /// The store to copy; it is closed afterwards
    from: String,
    /// The store to copy to
    to: String,
    /// Read and compare everything, say what would be done, write nothing; may be done while engines run
    #[arg(long)]
    dry_run: bool,
    /// TO may have runs of its own; what both have under one name stays behind
    #[arg(long)]
    merge: bool,
}

/// Open a store that a copy closed
///
/// After a finished copy its runs go on in the other store. Opening this one, too, lets both execute them: every
/// effect that is still to come would happen twice. So that needs --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam store reopen sqlite:orders.db --yes")]
pub(crate) struct ReopenArgs {
    /// The store; the one of --store unless given
    url: Option<String>,
    /// Nobody uses the other store
    #[arg(long)]
    yes: bool,
}

impl ReopenArgs {
    /// Whether the command itself names the store.
    pub(super) fn names_one(&self) -> bool {
        self.url.is_some()
    }
}

/// Copies a store.
pub(super) async fn run(app: &App, args: &CopyArgs) -> Result<Exit, Fail> {
    let CopyArgs { from, to, dry_run, merge } = args;
    let options = CopyOptions { merge: *merge };
    let bar = progress::line(app, Some(0), "{spinner} {msg:9} {bar:30} {human_pos}/{human_len}  {elapsed}");
    let shown = bar.clone();
    let watcher = move |progress: Progress| show(&shown, progress);
    let report = match dry_run {
        true => goldseam::dry_copier(from, to, options).await?.watched_by(watcher).plan().await,
        false => goldseam::copier(from, to, options).await?.watched_by(watcher).copy().await,
    };
    bar.finish_and_clear();
    let report = report?;
    let (from, to) = (shown_url(from), shown_url(to));
    if app.wants_json() {
        let mut told = serde_json::to_value(&report).unwrap_or_default();
        told["from"] = json!(from);
        told["to"] = json!(to);
        told["verified"] = json!(report.is_verified());
        out::json(&told);
    } else if !app.quiet {
        tell(app, &report, (&from, &to));
    }
    let well = if *dry_run { is_clear(&report) } else { report.is_verified() };
    Ok(if well { Exit::Ok } else { Exit::Error })
}

/// Whether a copy would bring everything.
fn is_clear(plan: &CopyReport) -> bool {
    plan.refused.is_none() && plan.left_behind() == 0
}

fn show(bar: &ProgressBar, progress: Progress) {
    let Progress { stage, done, total } = progress;
    let word = match stage {
        Stage::Counting => "counting",
        Stage::Logs => "logs",
        Stage::Tasks => "tasks",
        Stage::Locks => "locks",
        Stage::Verifying => "verifying",
    };
    bar.set_message(word);
    bar.set_length(total);
    bar.set_position(done);
}

fn tell(app: &App, report: &CopyReport, (from, to): (&str, &str)) {
    findings(app, report);
    let first = if report.dry_run { "TO COPY" } else { "COPIED" };
    let mut table = Table::new(&["WHAT", first, "THERE ALREADY", "LEFT BEHIND", "VERIFIED"]);
    let CopyReport { runs, events, tasks, locks, .. } = report;
    for (what, counts) in [("runs", runs), ("events", events), ("tasks", tasks), ("locks", locks)] {
        let Counts { copied, there, left_behind, verified } = *counts;
        let verified = if report.dry_run { "-".to_owned() } else { text::thousands(verified) };
        let numbers = [copied, there, left_behind].map(text::thousands);
        table.row([what.to_owned()].into_iter().chain(numbers).chain([verified]).collect());
    }
    app.table(&table);
    let mut lines = vec![("from", from.to_owned()), ("to", to.to_owned())];
    lines.extend(report.digests.map(|digests| ("digest", digest(digests))));
    lines.push(("took", when::span(Duration::from_millis(report.took_ms))));
    lines.push(("verdict", verdict(app, report)));
    let lines: Vec<_> = lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    facts_of(app, &lines);
    if report.finished {
        app.remark(&format!("{from} is closed; start your engines on {to}"));
    }
}

fn findings(app: &App, report: &CopyReport) {
    if report.findings.is_empty() {
        return;
    }
    let mut table = Table::wrapping(&["CODE", "KIND", "NAME", "FOUND"]);
    for found in &report.findings {
        let cells = [found.code, found.kind, &found.name, &found.what];
        table.row(cells.map(str::to_owned).into());
    }
    app.table(&table);
    if report.findings_more > 0 {
        out::line(format!("and {} more", text::thousands(report.findings_more)));
    }
}

fn digest(Digests { from, to }: Digests) -> String {
    match from == to {
        true => format!("{from} in both"),
        false => format!("{from} in FROM, {to} in TO"),
    }
}

fn verdict(app: &App, report: &CopyReport) -> String {
    let flight = match report.in_flight {
        0 => String::new(),
        1 => ", 1 run goes on".to_owned(),
        many => format!(", {} runs go on", text::thousands(many)),
    };
    let left = report.left_behind();
    let (hue, words) = match () {
        () if let Some(refused) = &report.refused => {
            (Hue::Bad, format!("✖ would be refused: {} (goldseam explain {})", refused.what, refused.code))
        }
        () if report.dry_run && left > 0 => (Hue::Warm, format!("! would leave {left} behind{flight}")),
        () if report.dry_run => (Hue::Good, format!("✔ can be copied{flight}")),
        () if report.is_verified() => (Hue::Good, format!("✔ copied and verified{flight}")),
        () if report.finished => {
            (Hue::Warm, format!("! copied and verified, but for {left} left behind{flight}"))
        }
        () => (Hue::Bad, "✖ not the same: not finished (goldseam explain GS0405)".to_owned()),
    };
    app.paint.on(hue, words)
}

/// Opens a store that a copy closed.
pub(super) async fn reopen(app: &App, args: &ReopenArgs) -> Result<Exit, Fail> {
    let url = args.url.as_deref().unwrap_or(&app.url);
    let shown = shown_url(url);
    let mark = goldseam::copy_mark(url).await?;
    let Some(mark) = mark.filter(|mark| !mark.role.is_open()) else {
        match app.wants_json() {
            true => out::json(&json!({ "store": shown, "reopened": false })),
            false => out::line(format!("{shown} is open already")),
        }
        return Ok(Exit::Ok);
    };
    // A source whose copy was not finished has all its runs, and nobody else has them for good.
    if !args.yes && mark.role != Role::CopyingTo {
        let what = format!("{shown} is {mark}: opening it lets two stores execute the same runs");
        return Err(Fail::usage(what, "make sure that nobody uses the other one, then add --yes"));
    }
    goldseam::reopen_store(url).await?;
    match app.wants_json() {
        true => out::json(&json!({ "store": shown, "reopened": true, "was": mark })),
        false => out::line(format!("{shown} is open again; it was {mark}")),
    }
    Ok(Exit::Ok)
}
