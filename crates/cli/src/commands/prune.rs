//! `goldseam prune`.

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use goldseam::Status;
use goldseam::admin::retention::{PruneProgress, open_archive, read_archived, verify};
use goldseam_api::doc::retention::{NewPrune, PrunableRunDoc, PrunePlanDoc, PrunedDoc, PrunedRunDoc};
use goldseam_api::{Api, LocalApi};
use serde_json::{Value, json};

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, progress, text, time};

const HEAD: &[&str] = &["RUN", "WORKFLOW", "STATUS", "ENDED", "EVENTS"];
/// The template of the progress bar.
const BAR: &str = "{bar:30} {pos} of {len} runs  {elapsed}";
/// How messages name the archive of a server.
const SERVER_ARCHIVE: &str = "the server's archive";

/// Archive runs that ended long ago, then remove their logs
///
/// Only this command prunes. It removes a log only after the whole log is durable in the archive and was read back. It
/// skips active runs and runs whose parent, child or task is active. A tombstone remains: the same id with the same
/// input is still the same run, and its result is still known.
///
/// A server prunes into its own archive: goldseam serve --archive PLACE.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam prune --completed-before 90d --archive /var/lib/goldseam/archive --dry-run\n  goldseam prune --completed-before 90d --archive /var/lib/goldseam/archive --yes\n  goldseam prune --completed-before 30d --archive s3://my-bucket/archive --workflow order --status completed --yes\n  goldseam prune --completed-before 90d --server https://goldseam.example.com --yes\n  goldseam prune --verify /var/lib/goldseam/archive/goldseam-1770000000000-5f0c2d9a11e2b7c4.jsonl"
)]
pub(crate) struct PruneArgs {
    /// Only runs that ended longer ago than this, as in 90d
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span, required_unless_present = "verify")]
    completed_before: Option<Duration>,
    /// The archive: a directory, or s3://BUCKET/PREFIX; a server has its own
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// Only runs of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only runs with this status: completed, failed or cancelled; defaults to all three
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<Status>,
    /// Maximum number of runs, the oldest first
    #[arg(long)]
    limit: Option<u64>,
    /// Only report what would be pruned
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    /// Only verify a file of an archive; needs no store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["completed_before", "archive", "dry_run"])]
    verify: Option<String>,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: PruneArgs) -> Result<Exit, CliError> {
    if let Some(file) = &args.verify {
        return verify_file(app, file).await;
    }
    let new = new_prune(&args)?;
    let remote = app.remote()?;
    let archive = archive(&args, remote.is_some())?;
    let caller = args.actor.caller();
    let (api, new): (Arc<dyn Api>, _) = match remote {
        Some(remote) => {
            let new = confirm(app, &*remote, &args, new, archive).await?;
            (remote, new)
        }
        None => {
            let local = LocalApi::new(goldseam::connect_existing(&app.url).await?);
            // With --yes, no plan is needed first.
            let new = match args.yes && !args.dry_run {
                true => Some(new),
                false => confirm(app, &local, &args, new, archive).await?,
            };
            // Opening the archive creates its directory, which a dry run must not do.
            match new.is_some() {
                true => (Arc::new(local.with_archive(open_archive(archive)?.into())), new),
                false => (Arc::new(local), new),
            }
        }
    };
    let Some(new) = new else { return Ok(Exit::Ok) };
    let line = progress::line(app, Some(new.limit.unwrap_or_default()), BAR);
    let bar = line.clone();
    let mut on_progress = move |at: PruneProgress| {
        bar.set_length(at.total);
        bar.set_position(at.done);
    };
    let pruned = api.prune(&caller, new, &mut on_progress).await;
    line.finish_and_clear();
    print_pruned(app, &pruned?);
    Ok(Exit::Ok)
}

fn new_prune(args: &PruneArgs) -> Result<NewPrune, CliError> {
    if let Some(status) = args.status.iter().find(|status| !status.is_terminal()) {
        let help = "only completed, failed and cancelled runs can be pruned";
        return Err(CliError::usage(format!("{status} runs have not ended"), help));
    }
    let span = args.completed_before.unwrap_or(Duration::MAX);
    Ok(NewPrune {
        completed_before_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
        workflow: args.workflow.clone(),
        status: args.status.clone(),
        limit: args.limit,
        by: None,
        reason: args.actor.reason.clone(),
    })
}

/// The archive. A server always uses its own.
fn archive(args: &PruneArgs, is_remote: bool) -> Result<&str, CliError> {
    match (&args.archive, is_remote) {
        (Some(_), true) => Err(CliError::usage(
            "a server prunes into its own archive",
            "omit --archive; goldseam serve --archive PLACE sets the server's archive",
        )),
        (None, true) => Ok(SERVER_ARCHIVE),
        (Some(place), false) => Ok(place),
        (None, false) if args.dry_run => Ok(""),
        (None, false) => Err(CliError::usage(
            "prune needs an archive",
            "pass a directory or s3://BUCKET/PREFIX as --archive, or use --dry-run",
        )),
    }
}

/// Plans the prune and asks for confirmation. Returns the prune, limited to the planned runs, or `None` for a dry run
/// and without confirmation.
async fn confirm(
    app: &App,
    api: &dyn Api,
    args: &PruneArgs,
    new: NewPrune,
    archive: &str,
) -> Result<Option<NewPrune>, CliError> {
    let plan = api.plan_prune(new.query()).await?;
    if args.dry_run {
        print_plan(app, &plan);
        return Ok(None);
    }
    if !args.yes && !plan.runs.is_empty() && !ask(app, &plan, archive)? {
        out::note("nothing was pruned");
        return Ok(None);
    }
    Ok(Some(NewPrune { limit: Some(plan.runs.len() as u64), ..new }))
}

/// Asks for confirmation on the terminal.
fn ask(app: &App, plan: &PrunePlanDoc, archive: &str) -> Result<bool, CliError> {
    let runs = text::count(plan.runs.len() as u64, "run");
    let what = format!("{runs} would be archived to {archive} and removed");
    if !std::io::stdin().is_terminal() || app.wants_json() {
        return Err(CliError::usage(what, "confirm with --yes, or look first with --dry-run"));
    }
    out::note(format!("{what}. Continue? [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn print_plan(app: &App, plan: &PrunePlanDoc) {
    match () {
        () if app.json => out::json(plan),
        () if app.jsonl => plan.runs.iter().for_each(out::jsonl),
        () if app.quiet => plan.runs.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let rows = plan.runs.iter();
            let row = |run: &PrunableRunDoc| {
                vec![
                    run.run.to_string(),
                    run.workflow.to_string(),
                    run.status.to_string(),
                    time::iso(run.finished_at),
                    run.events.to_string(),
                ]
            };
            show(app, rows.map(row));
            out::line(format!(
                "{} would be pruned{}; about {} and {} would be removed",
                text::count(plan.runs.len() as u64, "run"),
                held(plan.held),
                text::count(plan.events, "event"),
                text::count(plan.bytes, "byte")
            ));
        }
    }
}

/// Prints a table unless it is empty.
fn show(app: &App, rows: impl ExactSizeIterator<Item = Vec<String>>) {
    if rows.len() == 0 {
        return;
    }
    let mut table = TextTable::new(HEAD);
    rows.for_each(|row| table.row(row));
    app.table(&table);
}

fn held(held: u64) -> String {
    match held {
        0 => String::new(),
        held => format!(", {} kept: a parent, child or task is active", text::count(held, "run")),
    }
}

fn print_pruned(app: &App, result: &PrunedDoc) {
    match () {
        () if app.json => out::json(result),
        () if app.jsonl => result.pruned.iter().for_each(out::jsonl),
        () if app.quiet => result.pruned.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let row = |run: &PrunedRunDoc| {
                vec![
                    run.run.to_string(),
                    run.workflow.to_string(),
                    run.status.to_string(),
                    time::iso(run.finished_at),
                    run.events.to_string(),
                ]
            };
            show(app, result.pruned.iter().map(row));
            result.left.iter().for_each(|left| out::line(format!("not pruned: {}: {}", left.run, left.why)));
            result.archives.iter().for_each(|file| out::line(format!("archived to {file}")));
            if result.finished > 0 {
                let logs = text::count(result.finished, "log");
                out::line(format!("{logs} removed that an earlier prune had archived"));
            }
            let runs = text::count(result.pruned.len() as u64, "run");
            let events = text::count(result.events, "event");
            let bytes = text::count(result.freed_bytes, "byte");
            out::line(format!("{runs} pruned, {events} ({bytes}) removed{}", held(result.held)));
            if result.freed_bytes > 0 {
                out::note("goldseam store compact gives the space back");
            }
        }
    }
}

/// Verifies a file of an archive.
async fn verify_file(app: &App, file: &str) -> Result<Exit, CliError> {
    let unread = |error| CliError {
        help: Some("pass a file that goldseam prune wrote into an archive".to_owned()),
        ..CliError::from(error)
    };
    let runs = verify(&read_archived(file).await.map_err(unread)?).map_err(|flaw| CliError {
        code: Some("GS0133".to_owned()),
        message: format!("{file} is damaged: {flaw}"),
        help: Some("restore it from a copy".to_owned()),
        next: Vec::new(),
        exit: Exit::Error,
    })?;
    let events: u64 = runs.iter().map(|run| run.events).sum();
    match () {
        () if app.wants_json() => {
            let item = |run: &goldseam::admin::retention::ArchivedRun| json!({ "run": run.run, "status": run.summary.status, "events": run.events, "sha256": run.sha256 });
            let items: Vec<Value> = runs.iter().map(item).collect();
            out::json(&json!({ "file": file, "sound": true, "events": events, "runs": items }));
        }
        () if app.quiet => runs.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let runs = text::count(runs.len() as u64, "run");
            let events = text::count(events, "event");
            out::line(format!("{file} is intact: {runs}, {events}"));
        }
    }
    Ok(Exit::Ok)
}
