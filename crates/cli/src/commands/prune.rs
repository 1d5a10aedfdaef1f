//! `goldseam prune`.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use clap::Args;
use goldseam::Status;
use goldseam::retention::{Progress, open_archive, read_archived, verify};
use goldseam_api::doc::retention::{NewPrune, PRUNE_MAX, PrunableRun, PrunePlan, Pruned, PrunedRun};
use goldseam_api::{Api, Caller, Local, Remote};
use serde_json::{Value, json};

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{out, progress, text, when};

/// Columns of what is, or was, pruned.
const HEAD: &[&str] = &["RUN", "WORKFLOW", "STATUS", "ENDED", "EVENTS"];
/// How far a prune is.
const BAR: &str = "{bar:30} {pos} of {len} runs  {elapsed}";
/// Where a server's logs go, in words.
const SERVERS: &str = "the server's archive";

/// Archive runs that ended long ago, then remove their logs
///
/// Nothing is ever pruned unless this command is given. A run is removed only once its whole log is in the archive,
/// durable and read back; what moves, or has a parent, a child or a task that does, is never touched. A tombstone stays
/// under the id: the same id and input is still the same run, and its result is still known.
///
/// A server prunes into its own archive: goldseam serve --archive PLACE.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam prune --completed-before 90d --archive /var/lib/goldseam/archive --dry-run\n  goldseam prune --completed-before 90d --archive /var/lib/goldseam/archive --yes\n  goldseam prune --completed-before 30d --archive s3://my-bucket/archive --workflow order --status completed --yes\n  goldseam prune --completed-before 90d --server https://goldseam.example.com --yes\n  goldseam prune --verify /var/lib/goldseam/archive/goldseam-1770000000000-5f0c2d9a11e2b7c4.jsonl"
)]
pub(crate) struct PruneArgs {
    /// Only what ended longer ago than this span, as in 90d
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span, required_unless_present = "verify")]
    completed_before: Option<Duration>,
    /// Where logs go: a directory, or s3://BUCKET/PREFIX; a server has its own
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
    let (new, remote) = (wanted(&args)?, app.remote()?);
    let place = place(&args, remote.is_some())?;
    let caller = args.who.caller();
    let pruned = match remote {
        Some(remote) => {
            let Some(new) = settled(app, &*remote, &args, new, place).await? else { return Ok(Exit::Ok) };
            through(app, &remote, &caller, new).await?
        }
        None => {
            let local = Local::new(goldseam::connect_existing(&app.url).await?);
            // Whoever agreed to whatever it is need not wait for a look at it.
            let new = match args.yes && !args.dry_run {
                true => Some(new),
                false => settled(app, &local, &args, new, place).await?,
            };
            let Some(new) = new else { return Ok(Exit::Ok) };
            let archive = open_archive(place)?;
            let line = progress::line(app, Some(new.limit.unwrap_or_default()), BAR);
            let bar = line.clone();
            let mut tell = move |at: Progress| {
                bar.set_length(at.total);
                bar.set_position(at.done);
            };
            let pruned = local.prune(&caller, new, &*archive, &mut tell).await;
            line.finish_and_clear();
            pruned?
        }
    };
    tell_pruned(app, &pruned);
    Ok(Exit::Ok)
}

fn wanted(args: &PruneArgs) -> Result<NewPrune, Fail> {
    if let Some(status) = args.status.iter().find(|status| !status.is_terminal()) {
        let help = "only completed, failed and cancelled runs can be pruned";
        return Err(Fail::usage(format!("a run that is {status} is not over"), help));
    }
    let span = args.completed_before.unwrap_or(Duration::MAX);
    Ok(NewPrune {
        completed_before_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
        workflow: args.workflow.clone(),
        status: args.status.clone(),
        limit: args.limit,
        by: None,
        reason: args.who.reason.clone(),
    })
}

/// Where logs go: a server has a place of its own, and nobody else may name one.
fn place(args: &PruneArgs, through: bool) -> Result<&str, Fail> {
    match (&args.archive, through) {
        (Some(_), true) => Err(Fail::usage(
            "a server prunes into its own archive",
            "leave out --archive; goldseam serve --archive PLACE names the one of the server",
        )),
        (None, true) => Ok(SERVERS),
        (Some(place), false) => Ok(place),
        (None, false) if args.dry_run => Ok(""),
        (None, false) => Err(Fail::usage(
            "nothing is removed without an archive",
            "name a directory or s3://BUCKET/PREFIX with --archive, or only look with --dry-run",
        )),
    }
}

/// What is to be pruned, at most as much as was looked at; none if it was only to be looked at, or nobody agreed.
async fn settled(
    app: &App,
    api: &dyn Api,
    args: &PruneArgs,
    new: NewPrune,
    place: &str,
) -> Result<Option<NewPrune>, Fail> {
    let plan = api.plan_prune(new.query()).await?;
    if args.dry_run {
        tell_plan(app, &plan);
        return Ok(None);
    }
    if !args.yes && !plan.runs.is_empty() && !agreed(app, &plan, place)? {
        out::note("nothing was pruned");
        return Ok(None);
    }
    Ok(Some(NewPrune { limit: Some(plan.runs.len() as u64), ..new }))
}

/// Asks a person; nobody else can agree.
fn agreed(app: &App, plan: &PrunePlan, place: &str) -> Result<bool, Fail> {
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

/// Asks a server for one part after another.
async fn through(app: &App, remote: &Remote, caller: &Caller, new: NewPrune) -> Result<Pruned, Fail> {
    let most = new.limit.unwrap_or(u64::MAX);
    let line = progress::line(app, Some(most), BAR);
    let mut whole = Pruned::default();
    loop {
        let done = whole.pruned.len() as u64;
        let limit = Some((most - done).min(PRUNE_MAX));
        let part = remote.prune(caller, &NewPrune { limit, ..new.clone() }).await;
        let part = part.inspect_err(|_| line.finish_and_clear())?;
        // Whatever is left stays, and would be come upon again.
        let moved = !part.pruned.is_empty();
        whole.add(part);
        line.set_position(whole.pruned.len() as u64);
        if !whole.more || !moved || whole.pruned.len() as u64 >= most {
            line.finish_and_clear();
            return Ok(whole);
        }
    }
}

fn tell_plan(app: &App, plan: &PrunePlan) {
    match () {
        () if app.json => out::json(plan),
        () if app.jsonl => plan.runs.iter().for_each(out::jsonl),
        () if app.quiet => plan.runs.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let rows = plan.runs.iter();
            let row = |run: &PrunableRun| {
                vec![
                    run.run.to_string(),
                    run.workflow.to_string(),
                    run.status.to_string(),
                    when::iso(run.finished_at),
                    run.events.to_string(),
                ]
            };
            show(app, rows.map(row));
            out::line(format!(
                "{} would be pruned{}",
                text::count(plan.runs.len() as u64, "run"),
                held(plan.held)
            ));
        }
    }
}

/// Shows a table, if there is anything in it.
fn show(app: &App, rows: impl ExactSizeIterator<Item = Vec<String>>) {
    if rows.len() == 0 {
        return;
    }
    let mut table = Table::new(HEAD);
    rows.for_each(|row| table.row(row));
    app.table(&table);
}

fn held(held: u64) -> String {
    match held {
        0 => String::new(),
        held => format!(", {} left alone: part of something that moves", text::count(held, "run")),
    }
}

fn tell_pruned(app: &App, told: &Pruned) {
    match () {
        () if app.json => out::json(told),
        () if app.jsonl => told.pruned.iter().for_each(out::jsonl),
        () if app.quiet => told.pruned.iter().for_each(|run| out::line(run.run.as_str())),
        () => {
            let row = |run: &PrunedRun| {
                vec![
                    run.run.to_string(),
                    run.workflow.to_string(),
                    run.status.to_string(),
                    when::iso(run.finished_at),
                    run.events.to_string(),
                ]
            };
            show(app, told.pruned.iter().map(row));
            told.left.iter().for_each(|left| out::line(format!("left: {}: {}", left.run, left.why)));
            told.archives.iter().for_each(|place| out::line(format!("archived to {place}")));
            if told.finished > 0 {
                let logs = text::count(told.finished, "log");
                out::line(format!("{logs} removed that an earlier prune had archived"));
            }
            let (runs, events) =
                (text::count(told.pruned.len() as u64, "run"), text::count(told.events, "event"));
            out::line(format!("{runs} pruned, {events} removed{}", held(told.held)));
        }
    }
}

/// Whether a file of an archive is whole.
async fn look(app: &App, file: &str) -> Result<Exit, Fail> {
    let unread = |error| Fail {
        help: Some("name a file that goldseam prune wrote into an archive".to_owned()),
        ..Fail::from(error)
    };
    let runs = verify(&read_archived(file).await.map_err(unread)?).map_err(|flaw| Fail {
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
