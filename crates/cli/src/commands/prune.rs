//! `goldseam prune`.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use clap::Args;
use goldseam::Status;
use goldseam::client::By;
use goldseam::core::WorkflowName;
use goldseam::retention::{Candidate, Plan, PruneReport, Retention, open_archive, read_archived, verify};
use serde_json::{Value, json};

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{out, progress, text, when};

/// Columns of what is, or was, pruned.
const HEAD: &[&str] = &["RUN", "WORKFLOW", "STATUS", "ENDED", "EVENTS"];

/// Archive runs that ended long ago, then remove their logs
///
/// Nothing is ever pruned unless this command is given. A run is removed only once its whole log is in the archive,
/// durable and read back; what moves, or has a parent, a child or a task that does, is never touched. A tombstone stays
/// under the id: the same id and input is still the same run, and its result is still known.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam prune --completed-before 90d --archive /var/lib/goldseam/archive --dry-run\n  goldseam prune --completed-before 90d --archive /var/lib/goldseam/archive --yes\n  goldseam prune --completed-before 30d --archive s3://my-bucket/archive --workflow order --status completed --yes\n  goldseam prune --verify /var/lib/goldseam/archive/goldseam-1770000000000-5f0c2d9a11e2b7c4.jsonl"
)]
pub(crate) struct PruneArgs {
    /// Only what ended longer ago than this span, as in 90d
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span, required_unless_present = "verify")]
    completed_before: Option<Duration>,
    /// Where logs go: a directory, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    archive: Option<String>,
    /// Only of this workflow
    #[arg(long)]
    workflow: Option<String>,
    /// Only what ended so: completed, failed or cancelled; all of them unless given
    #[arg(long, value_name = "STATUS", value_delimiter = ',')]
    status: Vec<Status>,
    /// At most so many, the oldest first
    #[arg(long)]
    limit: Option<u64>,
    /// Only tell what would be pruned
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Only look whether this file of an archive is whole; no store is needed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["completed_before", "archive", "dry_run"])]
    verify: Option<String>,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: PruneArgs) -> Result<Exit, Fail> {
    if let Some(file) = &args.verify {
        return look(app, file).await;
    }
    let retention = wanted(&args)?;
    let Some(place) = args.archive.as_deref().or(args.dry_run.then_some("")) else {
        let help = "name a directory or s3://BUCKET/PREFIX with --archive, or only look with --dry-run";
        return Err(Fail::usage("nothing is removed without an archive", help));
    };
    app.needs_store("prune")?;
    let client = goldseam::connect_existing(&app.url).await?;
    let plan = client.plan_prune(&retention).await?;
    if args.dry_run {
        tell_plan(app, &plan);
        return Ok(Exit::Ok);
    }
    if !args.yes && !plan.runs.is_empty() && !agreed(app, &plan, place)? {
        out::note("nothing was pruned");
        return Ok(Exit::Ok);
    }
    let by = By { who: args.who.caller().who, reason: args.who.reason, id: None };
    let archive = open_archive(place)?;
    let line = progress::line(app, Some(plan.runs.len() as u64), "{bar:30} {pos} of {len} runs  {elapsed}");
    let bar = line.clone();
    let pruned = client.prune(&plan, &*archive, &by, &mut move |at| bar.set_position(at.done)).await;
    line.finish_and_clear();
    let report = pruned?;
    tell_report(app, &report, plan.held);
    Ok(Exit::Ok)
}

fn wanted(args: &PruneArgs) -> Result<Retention, Fail> {
    if let Some(status) = args.status.iter().find(|status| !status.is_terminal()) {
        let help = "only completed, failed and cancelled runs can be pruned";
        return Err(Fail::usage(format!("a run that is {status} is not over"), help));
    }
    Ok(Retention {
        older_than: args.completed_before.unwrap_or(Duration::MAX),
        statuses: args.status.clone(),
        workflow: args.workflow.as_deref().map(WorkflowName::new).transpose()?,
        limit: args.limit,
    })
}

/// Asks a person; nobody else can agree.
fn agreed(app: &App, plan: &Plan, place: &str) -> Result<bool, Fail> {
    let what =
        format!("{} would be archived to {place} and removed", text::count(plan.runs.len() as u64, "run"));
    if !std::io::stdin().is_terminal() || app.wants_json() {
        return Err(Fail::usage(what, "say so with --yes, or look first with --dry-run"));
    }
    out::note(format!("{what}. Go on? [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn tell_plan(app: &App, plan: &Plan) {
    let item = |run: &Candidate| {
        json!({ "run": run.run, "workflow": run.workflow, "status": run.status, "finished_at": run.finished_at,
            "events": run.events })
    };
    match () {
        () if app.json => {
            let runs: Vec<Value> = plan.runs.iter().map(item).collect();
            out::json(&json!({ "dry_run": true, "before": plan.before, "runs": runs, "held": plan.held,
                "unfinished": plan.unfinished.len() }));
        }
        () if app.jsonl => plan.runs.iter().for_each(|run| out::jsonl(&item(run))),
        () if app.quiet => plan.runs.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let mut table = Table::new(HEAD);
            for run in &plan.runs {
                let (ended, events) = (when::iso(run.finished_at), run.events.to_string());
                table.row(vec![
                    run.run.to_string(),
                    run.workflow.to_string(),
                    run.status.to_string(),
                    ended,
                    events,
                ]);
            }
            if !plan.runs.is_empty() {
                app.table(&table);
            }
            out::line(format!(
                "{} would be pruned{}",
                text::count(plan.runs.len() as u64, "run"),
                held(plan.held)
            ));
        }
    }
}

fn held(held: u64) -> String {
    match held {
        0 => String::new(),
        held => format!(", {} left alone: part of something that moves", text::count(held, "run")),
    }
}

fn tell_report(app: &App, report: &PruneReport, part: u64) {
    let item = |run: &goldseam::retention::PrunedRun| {
        json!({ "run": run.run, "workflow": run.workflow, "status": run.status, "finished_at": run.finished_at,
            "events": run.events, "archive": run.archive })
    };
    match () {
        () if app.json => {
            let runs: Vec<Value> = report.pruned.iter().map(item).collect();
            let left: Vec<Value> =
                report.left.iter().map(|(run, why)| json!({ "run": run, "why": why })).collect();
            out::json(&json!({ "pruned": runs, "events": report.events(), "archives": report.batches,
                "bytes": report.bytes, "finished": report.finished, "left": left, "held": part }));
        }
        () if app.jsonl => report.pruned.iter().for_each(|run| out::jsonl(&item(run))),
        () if app.quiet => report.pruned.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let mut table = Table::new(HEAD);
            for run in &report.pruned {
                let (ended, events) = (when::iso(run.finished_at), run.events.to_string());
                table.row(vec![
                    run.run.to_string(),
                    run.workflow.to_string(),
                    run.status.to_string(),
                    ended,
                    events,
                ]);
            }
            if !report.pruned.is_empty() {
                app.table(&table);
            }
            report.left.iter().for_each(|(run, why)| out::line(format!("left: {run}: {why}")));
            report.batches.iter().for_each(|place| out::line(format!("archived to {place}")));
            if report.finished > 0 {
                let logs = text::count(report.finished, "log");
                out::line(format!("{logs} removed that an earlier prune had archived"));
            }
            let (runs, events) = (text::count(report.pruned.len() as u64, "run"), report.events());
            out::line(format!("{runs} pruned, {} removed{}", text::count(events, "event"), held(part)));
        }
    }
}

/// Whether a file of an archive is whole.
async fn look(app: &App, file: &str) -> Result<Exit, Fail> {
    let runs = verify(&read_archived(file).await?).map_err(|flaw| Fail {
        code: Some("GS0133".to_owned()),
        message: format!("{file} is damaged: {flaw}"),
        help: Some("restore it from a copy".to_owned()),
        exit: Exit::Error,
    })?;
    let events: u64 = runs.iter().map(|run| run.events).sum();
    match () {
        () if app.wants_json() => {
            let item = |run: &goldseam::retention::ArchivedRun| json!({ "run": run.run, "status": run.summary.status, "events": run.events, "sha256": run.sha256 });
            let items: Vec<Value> = runs.iter().map(item).collect();
            out::json(&json!({ "file": file, "sound": true, "events": events, "runs": items }));
        }
        () if app.quiet => runs.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let counts = (text::count(runs.len() as u64, "run"), text::count(events, "event"));
            out::line(format!("{file} is whole: {}, {}", counts.0, counts.1));
        }
    }
    Ok(Exit::Ok)
}
