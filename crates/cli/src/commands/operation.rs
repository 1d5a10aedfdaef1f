//! `goldseam operation`.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use goldseam::unstable::core::operation::{Examples, OperationEnd, OperationPhase, VERSION, WORKFLOW};
use goldseam::{Engine, RunId, Status};
use goldseam_api::Api;
use goldseam_api::doc::operation::{BulkOperationDoc, OperationsQuery};

use super::actor::Actor;
use super::{Signals, StopSignal, pages};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, progress, text, time};

/// Columns of the list.
const HEAD: &[&str] =
    &["OPERATION", "VERB", "STATE", "DONE", "ACTED", "SKIPPED", "REFUSED", "BEGUN", "WHERE"];
/// Default number of operations.
const LIMIT: u32 = 20;
/// Pause between two looks at an operation.
const LOOK: Duration = Duration::from_millis(200);
/// Template of the progress bar.
const BAR: &str = "{bar:30} {pos} of {len} runs  {msg}  {elapsed}";

/// List, follow and control operations on many runs
#[derive(Debug, Subcommand)]
#[command(
    after_help = "An operation is a durable run: goldseam history ID shows its log.\n\nExamples:\n  goldseam retry --where 'status = failed' --rate 50/s --detach --yes\n  goldseam operation ls\n  goldseam operation watch op-0190f2c41ab-5f0c2d9a11e2b7c4\n  goldseam operation stop op-0190f2c41ab-5f0c2d9a11e2b7c4"
)]
pub(crate) enum OperationCommand {
    /// List operations, newest first
    Ls(OperationLsArgs),
    /// Show an operation and its progress
    Show(IdArgs),
    /// Follow an operation until it ends
    ///
    /// Without a server, executes it in this process unless an engine on the store does. Ctrl-C never stops it.
    Watch(IdArgs),
    /// Pause an operation between two batches
    Pause(ChangeArgs),
    /// Resume a paused operation, or one that no process executes, and follow it
    Resume(ChangeArgs),
    /// Stop an operation; what it has done stays done
    Stop(ChangeArgs),
}

impl OperationCommand {
    /// Whether the command follows an operation until it ends.
    pub(crate) fn follows(&self) -> bool {
        matches!(self, Self::Watch(_) | Self::Resume(_))
    }
}

#[derive(Debug, Args)]
pub(crate) struct OperationLsArgs {
    /// Maximum number of operations
    #[arg(long, value_name = "COUNT", default_value_t = LIMIT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Cursor: the previous page's `next` from --json
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// The operation
    id: String,
}

#[derive(Debug, Args)]
pub(crate) struct ChangeArgs {
    /// The operation
    id: String,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, command: OperationCommand) -> Result<Exit, CliError> {
    match command {
        OperationCommand::Ls(args) => list(app, args).await,
        OperationCommand::Show(args) => {
            let id = RunId::new(&args.id)?;
            let found = app.api().await?.operation(&id).await?;
            show(app, &found);
            Ok(Exit::Ok)
        }
        OperationCommand::Watch(args) => follow(app, &RunId::new(&args.id)?).await,
        OperationCommand::Pause(ChangeArgs { id, actor }) => {
            let id = RunId::new(id)?;
            let done = app.api().await?.pause_operation(&actor.caller(), &id, actor.reason()).await?;
            Ok(app.print_result(&id, &done, &format!("paused {id}; it stops after the present batch")))
        }
        OperationCommand::Resume(ChangeArgs { id, actor }) => {
            let id = RunId::new(id)?;
            let api = app.api().await?;
            let found = api.operation(&id).await?;
            if matches!(found.status, Status::Paused | Status::Parked) {
                api.resume_operation(&actor.caller(), &id, actor.reason()).await?;
            }
            follow(app, &id).await
        }
        OperationCommand::Stop(ChangeArgs { id, actor }) => {
            let id = RunId::new(id)?;
            let done = app.api().await?.stop_operation(&actor.caller(), &id, actor.reason()).await?;
            Ok(app.print_result(&id, &done, &format!("stopping {id}; what it has done stays done")))
        }
    }
}

/// Follows an operation until it ends. Executes it in this process if no other process does.
pub(super) async fn follow(app: &App, id: &RunId) -> Result<Exit, CliError> {
    let mut signals = Signals::install()?;
    let api = app.api().await?;
    api.operation(id).await?;
    let engine = match app.remote()? {
        Some(_) => None,
        None if is_executed(app).await? => None,
        None => {
            let local = app.local().await?;
            Some(Engine::builder(Arc::clone(local.client().store())).start().await?)
        }
    };
    let executes = engine.is_some();
    app.remark(&match executes {
        true => format!(
            "this process executes operation {id}; Ctrl-C leaves it for goldseam operation resume {id}"
        ),
        false => format!("operation {id}; Ctrl-C leaves it running, goldseam operation stop {id} stops it"),
    });
    let followed = tokio::select! {
        followed = until_over(app, &*api, id) => Some(followed),
        signal = signals.next() => {
            out::note(match executes {
                true => format!("operation {id} has not ended, and no process executes it: goldseam operation resume {id}"),
                false => format!("operation {id} goes on: goldseam operation watch {id}"),
            });
            if signal == StopSignal::Terminate {
                return leave(engine, Exit::Terminated).await;
            }
            None
        }
    };
    let exit = match followed {
        None => Exit::Interrupted,
        Some(Ok(found)) => {
            show(app, &found);
            exit_of(&found)
        }
        Some(Err(error)) => {
            leave(engine, Exit::Error).await?;
            return Err(error);
        }
    };
    leave(engine, exit).await
}

/// Hands over what this process executes, and returns the exit code.
async fn leave(engine: Option<Engine>, exit: Exit) -> Result<Exit, CliError> {
    if let Some(engine) = engine {
        engine.shutdown().await;
    }
    Ok(exit)
}

/// Whether a live node of the store can execute operations.
pub(super) async fn is_executed(app: &App) -> Result<bool, CliError> {
    let local = app.local().await?;
    let liveness = local.client().healer().liveness().await?;
    let label = format!("{WORKFLOW}@{VERSION}");
    Ok(liveness.working().any(|node| node.record.workflows.contains(&label)))
}

async fn until_over(app: &App, api: &dyn Api, id: &RunId) -> Result<BulkOperationDoc, CliError> {
    let line = progress::line(app, None, BAR);
    loop {
        let found = api.operation(id).await?;
        line.set_length(found.progress.planned);
        line.set_position(found.progress.handled);
        line.set_message(state(&found));
        if found.status.is_terminal() || found.status == Status::Paused {
            line.finish_and_clear();
            return Ok(found);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn exit_of(found: &BulkOperationDoc) -> Exit {
    match (found.status, found.progress.outcome) {
        (Status::Completed, Some(OperationEnd::Done)) if found.progress.refused.is_empty() => Exit::Ok,
        (Status::Completed, Some(OperationEnd::Done)) => Exit::Error,
        (Status::Paused, _) => Exit::Ok,
        (_, Some(OperationEnd::TimedOut)) => Exit::TimedOut,
        _ => Exit::Ended,
    }
}

/// What an operation does, or how it ended.
fn state(found: &BulkOperationDoc) -> String {
    let progress = &found.progress;
    match (found.status, progress.outcome) {
        (_, Some(OperationEnd::Done)) => "done".to_owned(),
        (_, Some(OperationEnd::Relapsed)) => "stopped by a relapse".to_owned(),
        (_, Some(OperationEnd::TimedOut)) => "stopped by a timeout".to_owned(),
        (Status::Cancelled, None) => "stopped".to_owned(),
        (status @ (Status::Paused | Status::Parked | Status::Failed), None) => status.to_string(),
        (_, None) => match progress.phase {
            OperationPhase::Planning => "planning".to_owned(),
            OperationPhase::Watching => {
                format!("watching stage {} of {}", progress.stages_passed + 1, progress.stages.len())
            }
            OperationPhase::Acting | OperationPhase::Ended if progress.stages.len() > 1 => {
                format!("stage {} of {}", progress.stages_passed + 1, progress.stages.len())
            }
            OperationPhase::Acting | OperationPhase::Ended => "acting".to_owned(),
        },
    }
}

fn total<'a>(examples: impl Iterator<Item = &'a Examples>) -> u64 {
    examples.map(|examples| examples.count).sum()
}

async fn list(app: &App, args: OperationLsArgs) -> Result<Exit, CliError> {
    let api = app.api().await?;
    let query = OperationsQuery { after: args.after, limit: Some(args.limit) };
    let page = api.operations(query).await?;
    match () {
        () if app.json => out::json(&page),
        () if app.jsonl => page.items.iter().for_each(out::jsonl),
        () if app.quiet => page.items.iter().for_each(|found| out::line(found.id.as_str())),
        () => {
            let mut table = TextTable::new(HEAD);
            for found in &page.items {
                let progress = &found.progress;
                table.row(vec![
                    found.id.to_string(),
                    found.verb.to_string(),
                    state(found),
                    format!("{}/{}", progress.handled, progress.planned),
                    progress.acted.to_string(),
                    total(progress.skipped.values()).to_string(),
                    total(progress.refused.values()).to_string(),
                    time::iso(found.begun_at),
                    text::one_line(&found.condition),
                ]);
            }
            app.table(&table);
            pages::warn_if_cut(app, &page);
        }
    }
    Ok(Exit::Ok)
}

fn show(app: &App, found: &BulkOperationDoc) {
    match () {
        () if app.wants_json() => out::json(found),
        () if app.quiet => out::line(found.id.as_str()),
        () => lines(found).into_iter().for_each(out::line),
    }
}

fn lines(found: &BulkOperationDoc) -> Vec<String> {
    let progress = &found.progress;
    let mut lines = vec![
        format!("{}: {} where {}", found.id, found.verb, text::one_line(&found.condition)),
        format!(
            "{}: {} of {} handled, {} acted on, {} skipped, {} refused",
            state(found),
            progress.handled,
            text::count(progress.planned, "run"),
            progress.acted,
            total(progress.skipped.values()),
            total(progress.refused.values())
        ),
    ];
    let examples = |examples: &Examples| {
        let runs: Vec<&str> = examples.runs.iter().map(RunId::as_str).collect();
        let more = if examples.count > runs.len() as u64 { " …" } else { "" };
        format!("{}{more}", runs.join(" "))
    };
    for (reason, skipped) in &progress.skipped {
        lines.push(format!("skipped {}: {reason}: {}", skipped.count, examples(skipped)));
    }
    for (code, refused) in &progress.refused {
        lines.push(format!("refused {}: {code}: {}", refused.count, examples(refused)));
    }
    if progress.unreadable > 0 {
        let rows = text::count(progress.unreadable, "unreadable row");
        lines.push(format!("left out: {rows}; goldseam doctor --fix rebuilds them"));
    }
    if let Some(relapse) = &progress.relapse {
        lines.push(format!("{}: {}", relapse.run, text::one_line(&relapse.what)));
        let cause = match (&relapse.cause_before, &relapse.cause) {
            (Some(before), Some(now)) if before == now => format!("the same cause as before: {now}"),
            (Some(before), Some(now)) => format!("another cause than before: {now}, was {before}"),
            _ => "it did not pass in time".to_owned(),
        };
        lines.push(cause);
        let left = progress.planned.saturating_sub(progress.handled);
        lines.push(format!(
            "{} left unchanged; next: goldseam why {}",
            text::count(left, "run"),
            relapse.run
        ));
    }
    lines
}
