//! `goldseam store move` and `goldseam store reopen`.

use std::time::Duration;

use clap::Args;
use goldseam::admin::copy::{CopyCounts, CopyOptions, CopyProgress, CopyReport, CopyStage, Digests, Role};
use goldseam::shown_url;
use indicatif::ProgressBar;
use serde_json::json;

use super::print_facts;
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{confirm, out, progress, text, time};

/// What to do instead of a move without confirmation.
const LOOK_FIRST: &str =
    "confirm with --yes, or look first with --dry-run; goldseam store backup copies a store that stays open";

/// Move everything to another store, where the runs continue; closes the old store
///
/// Copies every run with its whole log, every task and every lock, then reads and compares both stores. After that,
/// FROM is closed and TO is open: start your engines there. Active runs continue, timers keep their time, questions
/// stay open, and workers keep their claims. The command asks first; without a terminal it needs --yes.
///
/// Stop the engines of both stores first. To continue an interrupted move, run the same command again. TO is created if
/// it does not exist. To copy a store that stays in use: goldseam store backup.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0 only if everything was found in TO; 1 if something is left behind or differs, or you \
answered no; 2 without --yes and without a terminal; 6 if one of the two is in use or TO is not empty.\n\nExamples:\n  \
goldseam store move sqlite:orders.db postgres://app@db/orders --dry-run\n  \
goldseam store move sqlite:orders.db postgres://app@db/orders\n  \
goldseam store move sqlite:orders.db s3://my-bucket/orders --yes\n  \
goldseam store move sqlite:eu.db sqlite:all.db --merge"
)]
pub(crate) struct MoveArgs {
    /// The store to move; closed afterwards
    from: String,
    /// The store to move to
    to: String,
    /// Read and compare everything, report what would be done, write nothing; engines may be running
    #[arg(long)]
    dry_run: bool,
    /// Allow runs in TO; records that exist in both under the same name are left behind
    #[arg(long)]
    merge: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

/// Reopen a store that a copy closed
///
/// After a finished copy the runs continue in the other store. If this one is open too, both execute them, and every
/// remaining effect happens twice. Therefore this needs --yes.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  goldseam store reopen sqlite:orders.db --yes")]
pub(crate) struct ReopenArgs {
    /// The store; defaults to --store
    url: Option<String>,
    /// Confirm that the other store is not in use
    #[arg(long)]
    yes: bool,
}

impl ReopenArgs {
    /// Whether the command names a store.
    pub(super) fn names_store(&self) -> bool {
        self.url.is_some()
    }
}

pub(super) async fn run(app: &App, args: &MoveArgs) -> Result<Exit, CliError> {
    let MoveArgs { from, to, dry_run, merge, yes } = args;
    let question =
        || format!("{} will be closed, and its runs continue in {}", shown_url(from), shown_url(to));
    if !yes && !dry_run && !confirm::ask(app, &question(), LOOK_FIRST)? {
        out::note("nothing was moved");
        return Ok(Exit::Error);
    }
    let options = CopyOptions { merge: *merge };
    let bar = progress::line(app, Some(0), "{spinner} {msg:9} {bar:30} {human_pos}/{human_len}  {elapsed}");
    let shown = bar.clone();
    let watcher = move |progress: CopyProgress| show(&shown, progress);
    let report = match dry_run {
        true => goldseam::admin::dry_copier(from, to, options).await?.watched_by(watcher).plan().await,
        false => goldseam::admin::copier(from, to, options).await?.watched_by(watcher).copy().await,
    };
    bar.finish_and_clear();
    let report = report?;
    let from = shown_url(from);
    let to = shown_url(to);
    if app.wants_json() {
        let mut document = serde_json::to_value(&report).unwrap_or_default();
        document["from"] = json!(from);
        document["to"] = json!(to);
        document["verified"] = json!(report.is_verified());
        out::json(&document);
    } else if !app.quiet {
        print_report(app, &report, &from, &to);
    }
    let well = if *dry_run { is_clear(&report) } else { report.is_verified() };
    Ok(if well { Exit::Ok } else { Exit::Error })
}

/// Whether a copy would be complete.
fn is_clear(plan: &CopyReport) -> bool {
    plan.refused.is_none() && plan.left_behind() == 0
}

pub(super) fn show(bar: &ProgressBar, progress: CopyProgress) {
    let CopyProgress { stage, done, total } = progress;
    let word = match stage {
        CopyStage::Counting => "counting",
        CopyStage::Logs => "logs",
        CopyStage::Tasks => "tasks",
        CopyStage::Locks => "locks",
        CopyStage::Verifying => "verifying",
    };
    bar.set_message(word);
    bar.set_length(total);
    bar.set_position(done);
}

fn print_report(app: &App, report: &CopyReport, from: &str, to: &str) {
    findings(app, report);
    let first = if report.dry_run { "TO COPY" } else { "COPIED" };
    let mut table = TextTable::new(&["WHAT", first, "THERE ALREADY", "LEFT BEHIND", "VERIFIED"]);
    let CopyReport { runs, events, tasks, locks, .. } = report;
    for (what, counts) in [("runs", runs), ("events", events), ("tasks", tasks), ("locks", locks)] {
        let CopyCounts { copied, there, left_behind, verified } = *counts;
        let verified = if report.dry_run { "-".to_owned() } else { text::thousands(verified) };
        let numbers = [copied, there, left_behind].map(text::thousands);
        table.row([what.to_owned()].into_iter().chain(numbers).chain([verified]).collect());
    }
    app.table(&table);
    let mut lines = vec![("from", from.to_owned()), ("to", to.to_owned())];
    lines.extend(report.digests.map(|digests| ("digest", digest(digests))));
    lines.push(("took", time::span(Duration::from_millis(report.took_ms))));
    lines.push(("verdict", verdict(app, report)));
    let lines: Vec<_> = lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    print_facts(app, &lines);
    if report.finished {
        app.remark(&format!("{from} is closed; start your engines on {to}"));
    }
}

fn findings(app: &App, report: &CopyReport) {
    if report.findings.is_empty() {
        return;
    }
    let mut table = TextTable::wrapping(&["CODE", "KIND", "NAME", "FOUND"]);
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
    let active = match report.in_flight {
        0 => String::new(),
        count => format!(", {}", text::count(count, "active run")),
    };
    let left = report.left_behind();
    let (hue, words) = match () {
        () if let Some(refused) = &report.refused => {
            (Hue::Bad, format!("✖ would be refused: {} (goldseam explain {})", refused.what, refused.code))
        }
        () if report.dry_run && left > 0 => (Hue::Warm, format!("! would leave {left} behind{active}")),
        () if report.dry_run => (Hue::Good, format!("✔ can be copied{active}")),
        () if report.is_verified() => (Hue::Good, format!("✔ copied and verified{active}")),
        () if report.finished => {
            (Hue::Warm, format!("! copied and verified, except {left} left behind{active}"))
        }
        () => {
            (Hue::Bad, "✖ the stores differ; the copy is not finished (goldseam explain GS0405)".to_owned())
        }
    };
    app.colors.apply(hue, words)
}

pub(super) async fn reopen(app: &App, args: &ReopenArgs) -> Result<Exit, CliError> {
    let url = args.url.as_deref().unwrap_or(&app.url);
    let shown = shown_url(url);
    let mark = goldseam::admin::copy_mark(url).await?;
    let Some(mark) = mark.filter(|mark| !mark.role.is_open()) else {
        match app.wants_json() {
            true => out::json(&json!({ "store": shown, "reopened": false })),
            false => out::line(format!("{shown} is already open")),
        }
        return Ok(Exit::Ok);
    };
    // The source of an unfinished copy still owns all its runs.
    if !args.yes && mark.role != Role::CopyingTo {
        let message = format!("{shown} is {mark}: reopening it lets two stores execute the same runs");
        return Err(CliError::usage(message, "make sure that the other store is not in use, then add --yes"));
    }
    goldseam::admin::reopen_store(url).await?;
    match app.wants_json() {
        true => out::json(&json!({ "store": shown, "reopened": true, "was": mark })),
        false => out::line(format!("{shown} is open again; it was {mark}")),
    }
    Ok(Exit::Ok)
}
