//! `goldseam store backup` and `goldseam store restore`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use goldseam::admin::copy::CopyFinding;
use goldseam::admin::{BackupMethod, BackupReport, OnBackupProgress, RestoreReport};
use goldseam::shown_url;
use goldseam::unstable::engine::{Clock, SystemClock};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{copy, print_facts};
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{confirm, out, progress, text, time};

/// What to do instead of a restore without confirmation.
const STOP_FIRST: &str = "make sure that the original store is not in use, then add --yes; --verify-only reads the \
    backup and restores nothing";

/// Make a backup of a store that stays in use
///
/// Writes one file with every run, task and lock, and a manifest with counts and hashes, and reads it again. Engines,
/// workers and clients continue to work. Everything that was acknowledged before the backup began is in it. SQLite: the
/// backup is one moment of the store. Postgres and object storage: every run is as of one moment by the store's clock,
/// 2 seconds after the beginning; tasks and locks are as they were read.
///
/// The file contains payloads, API keys (hashed) and signing secrets: only its owner may read it. An interrupted backup
/// leaves no file that can be restored.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  goldseam store backup orders-2026-11-18.backup\n  \
goldseam store backup --store postgres://app@db/orders /var/backups/orders.backup\n\nThen:\n  \
goldseam store restore /var/backups/orders.backup --verify-only")]
pub(crate) struct BackupArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    to: PathBuf,
}

/// Restore a backup to an empty store
///
/// Verifies the backup completely, copies it, compares both, and opens the store. Active runs continue there; completed
/// steps do not run again. Effects after the backup happen again, so runs that the original store still executes would
/// do everything twice: stop the original first. The command asks; without a terminal it needs --yes.
///
/// Not restored: nodes, claims of tasks (claimed tasks are ready again) and holds of locks (free, under a higher
/// fence). Restored: API keys and signing secrets, so keys and passes of the original work here, too.
///
/// To continue an interrupted restore, run the same command again.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 0 only if everything was found in the store; 2 without --yes and without a terminal; \
6 if the store is in use or not empty.\n\nExamples:\n  \
goldseam store restore orders.backup --verify-only\n  \
goldseam store restore orders.backup --to postgres://app@db/orders\n  \
goldseam store restore orders.backup --to sqlite:orders.db --yes"
)]
pub(crate) struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    backup: PathBuf,
    /// The store to fill; created if it does not exist
    #[arg(long, value_name = "URL", required_unless_present = "verify_only")]
    to: Option<String>,
    /// Only read and verify the backup
    #[arg(long, conflicts_with = "to")]
    verify_only: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

fn watched(app: &App) -> (ProgressBar, OnBackupProgress) {
    let bar = progress::line(app, None, "{spinner} {msg:9} {human_pos}  {elapsed}");
    let shown = bar.clone();
    (bar, Arc::new(move |progress| copy::show(&shown, progress)))
}

pub(super) async fn run(app: &App, args: &BackupArgs) -> Result<Exit, CliError> {
    let (bar, watcher) = watched(app);
    let begun = SystemClock.elapsed();
    let made = goldseam::admin::backup(&app.url, &args.to, Some(watcher)).await;
    bar.finish_and_clear();
    let made = made?;
    let took = SystemClock.elapsed().saturating_sub(begun);
    print(app, &made, "✔ made and verified", Some(took));
    Ok(Exit::Ok)
}

pub(super) async fn restore(app: &App, args: &RestoreArgs) -> Result<Exit, CliError> {
    let Some(to) = args.to.as_deref().filter(|_| !args.verify_only) else {
        let (bar, watcher) = watched(app);
        let verified = goldseam::admin::verify_backup(&args.backup, Some(watcher)).await;
        bar.finish_and_clear();
        print(app, &verified?, "✔ complete and unchanged", None);
        return Ok(Exit::Ok);
    };
    let manifest = goldseam::admin::read_manifest(&args.backup)?;
    let source = &manifest.source;
    let shown = shown_url(to);
    let active = text::count(manifest.active, "active run");
    let question =
        format!("{active} will continue in {shown}; if {source} is still in use, both execute them");
    if !args.yes && !confirm::ask(app, &question, STOP_FIRST)? {
        out::note("nothing was restored");
        return Ok(Exit::Error);
    }
    let (bar, watcher) = watched(app);
    let restored = goldseam::admin::restore(&args.backup, to, Some(watcher)).await;
    bar.finish_and_clear();
    let restored = restored?;
    print_restored(app, &restored, &shown);
    Ok(if restored.copy.is_verified() { Exit::Ok } else { Exit::Error })
}

fn print(app: &App, report: &BackupReport, verdict: &str, took: Option<Duration>) {
    if app.wants_json() {
        return out::json(report);
    }
    if app.quiet {
        return out::line(report.file.display().to_string());
    }
    findings(app, &report.findings);
    let mut lines = facts(report);
    lines.extend(took.map(|took| ("took", time::span(took))));
    lines.push(("verdict", app.colors.apply(Hue::Good, verdict)));
    print_facts(app, &named(lines));
}

fn print_restored(app: &App, report: &RestoreReport, to: &str) {
    if app.wants_json() {
        let mut document = serde_json::to_value(report).unwrap_or(Value::Null);
        document["to"] = json!(to);
        document["verified"] = json!(report.copy.is_verified());
        return out::json(&document);
    }
    if app.quiet {
        return;
    }
    findings(app, &report.copy.findings);
    let mut lines = facts(&report.backup);
    lines.push(("to", to.to_owned()));
    if report.tasks_created > 0 {
        lines.push(("tasks created", text::thousands(report.tasks_created)));
    }
    lines.push(("took", time::span(Duration::from_millis(report.copy.took_ms))));
    let (hue, verdict) = match report.copy.is_verified() {
        true => (Hue::Good, "✔ restored and verified"),
        false if report.copy.finished => (Hue::Warm, "! restored and verified, except what is left behind"),
        false => (Hue::Bad, "✖ the store differs from the backup; it stays closed"),
    };
    lines.push(("verdict", app.colors.apply(hue, verdict)));
    print_facts(app, &named(lines));
    if report.copy.finished {
        app.remark(&format!("start your engines on {to}; keep {} stopped", report.backup.manifest.source));
    }
}

fn facts(report: &BackupReport) -> Vec<(&'static str, String)> {
    let manifest = &report.manifest;
    let counts = [
        text::count(manifest.runs, "run"),
        text::count(manifest.events, "event"),
        text::count(manifest.tasks, "task"),
        text::count(manifest.locks, "lock"),
    ];
    let method = match manifest.method {
        BackupMethod::Snapshot => "one moment of the store",
        BackupMethod::Logs => "every run at one moment; tasks and locks as they were read",
    };
    vec![
        ("backup", format!("{} ({} bytes)", report.file.display(), text::thousands(report.bytes))),
        ("of", manifest.source.clone()),
        ("as of", time::iso(manifest.cut_at)),
        ("method", method.to_owned()),
        ("holds", format!("{}; {} active", counts.join(", "), text::thousands(manifest.active))),
        ("logs hash", manifest.logs_hash.clone()),
    ]
}

fn named(lines: Vec<(&str, String)>) -> Vec<(String, String)> {
    lines.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn findings(app: &App, findings: &[CopyFinding]) {
    if findings.is_empty() {
        return;
    }
    let mut table = TextTable::wrapping(&["CODE", "KIND", "NAME", "FOUND"]);
    for found in findings {
        table.row([found.code, found.kind, &found.name, &found.what].map(str::to_owned).into());
    }
    app.table(&table);
}
