//! `goldseam queue`.

mod heal;

use std::time::Duration;

use clap::{Args, Subcommand};
use goldseam::Failure;
use goldseam::unstable::core::task::Task;
use goldseam::unstable::core::{LaneName, Payload, QueueName, TaskId, WorkState};
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::task::{Hold, NewClaim, NewFailure, NewHeartbeat, NewResult, NewUserTask};
use serde::Serialize;

use super::actor;
use super::tasks::{self, TasksArgs};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::{out, payload, time};

/// Manage your own tasks and their queues
///
/// goldseam tasks lists them.
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List tasks; the same as goldseam tasks
    #[command(hide = true)]
    Ls(TasksArgs),
    /// Submit a task; prints its id
    #[command(
        after_help = "Examples:\n  goldseam queue submit email --payload '{\"to\":\"ana\"}'\n  goldseam queue submit merge --lane main --key pr-311 --attempts 3 --delay 5m"
    )]
    Submit(SubmitArgs),
    /// Claim due tasks: highest priority first, one at a time per lane
    #[command(after_help = "Example:\n  goldseam queue claim --owner worker-1 --limit 5 --json")]
    Claim(ClaimArgs),
    /// Send a heartbeat of a claimant
    Heartbeat {
        #[command(flatten)]
        held: HeldArgs,
        /// Progress as JSON, passed to the next claimant as `last_heartbeat`
        #[arg(long, value_name = "JSON")]
        details: Option<String>,
        /// The state of the work, as in testing; goldseam tasks shows it
        #[arg(long, value_name = "NAME")]
        state: Option<String>,
    },
    /// Complete a task; a repeat is harmless
    Complete {
        #[command(flatten)]
        held: HeldArgs,
        /// The result: JSON, @file, or - for stdin
        #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
        result: Option<String>,
    },
    /// Fail a task; it is tried again while attempts are left
    Fail {
        #[command(flatten)]
        held: HeldArgs,
        /// The error message
        #[arg(long, default_value = "failed by hand")]
        message: String,
        /// Do not try again
        #[arg(long)]
        terminal: bool,
    },
    /// Return a task to its queue without counting an attempt
    Release(HeldArgs),
    /// Cancel a task
    Cancel {
        /// The task
        task: String,
    },
    /// Show one task
    Get {
        /// The task
        task: String,
    },
    /// Reclaim tasks from claimants that are gone or silent, and free stale locks
    ///
    /// Engines and claims do this automatically; use this command to do it now. A task returns to its queue with the
    /// reason in its audit; a task whose workers crashed too often becomes dead. Several processes may reclaim at once.
    #[command(
        after_help = "Exit code 0, even if there was nothing to do; 7 if the store is not usable.\n\nExamples:\n  goldseam queue reclaim --dry-run\n  goldseam queue reclaim --older-than 300s"
    )]
    Reclaim(heal::ReclaimArgs),
    /// Count the tasks of each queue, including advance tasks of runs
    ///
    /// READY: unclaimed tasks. DUE: ready tasks that can be claimed now. DEAD: tasks whose workers crashed too often.
    /// OLDEST: how long the oldest due task has been waiting. The command counts at most 100,000 tasks, and says if
    /// there are more.
    #[command(
        after_help = "Exit code 1 if a record contradicts itself.\n\nExample:\n  goldseam queue stats --json"
    )]
    Stats,
}

/// A new task.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The kind of work
    kind: String,
    /// The queue
    #[arg(long, default_value = "default")]
    queue: String,
    /// The payload: JSON, @file, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// The task's id; random by default
    #[arg(long)]
    id: Option<String>,
    /// Deduplicates: if a live task has this key, that task is returned instead
    #[arg(long)]
    key: Option<String>,
    /// At most one task of a lane is claimed at a time
    #[arg(long)]
    lane: Option<String>,
    /// Larger priorities go first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Delay before the task is due
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    delay: Option<Duration>,
    /// Maximum number of attempts
    #[arg(long, default_value_t = 1)]
    attempts: u32,
    /// How long a claimant may be silent before the task is reclaimed
    #[arg(long, value_name = "SPAN", value_parser = time::parse_span)]
    silence: Option<Duration>,
}

/// A claim.
#[derive(Debug, Args)]
pub(crate) struct ClaimArgs {
    /// The claimant's name
    #[arg(long)]
    owner: String,
    /// The queue
    #[arg(long, default_value = "default")]
    queue: String,
    /// Only tasks of this kind
    #[arg(long)]
    kind: Option<String>,
    /// Maximum number of tasks
    #[arg(long, default_value_t = 1)]
    limit: u32,
}

/// A claimed task.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// The task
    task: String,
    /// The fence that `claim` printed
    #[arg(long, required_unless_present = "token", conflicts_with = "token")]
    fence: Option<u64>,
    /// The token that `claim --json` printed for a server
    #[arg(long)]
    token: Option<String>,
}

/// A claimed task as a document; a server adds a token.
#[derive(Debug, Serialize)]
struct ClaimedTask<'a> {
    #[serde(flatten)]
    task: &'a Task,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heartbeat: Option<&'a Payload>,
}

pub(crate) async fn run(app: &App, command: QueueCommand) -> Result<Exit, CliError> {
    let caller = actor::caller(None);
    let task = match command {
        QueueCommand::Ls(args) => return tasks::run(app, args).await,
        QueueCommand::Claim(args) => return claim(app, args).await,
        QueueCommand::Reclaim(args) => return heal::reclaim(app, &args).await,
        QueueCommand::Stats => return heal::stats(app).await,
        QueueCommand::Submit(args) => submit(app, args).await?,
        QueueCommand::Heartbeat { held, details, state } => {
            state.as_ref().map(WorkState::new).transpose()?;
            let details = details.map(|text| payload::read(Some(&text))).transpose()?;
            let Hold { fence, token } = held.hold();
            let new = NewHeartbeat { fence, token, details, state };
            app.api().await?.heartbeat(&caller, &held.id()?, new).await?
        }
        QueueCommand::Complete { held, result } => {
            let result = payload::read(result.as_deref())?;
            let Hold { fence, token } = held.hold();
            let new = NewResult { fence, token, result };
            app.api().await?.complete(&caller, &held.id()?, new).await?
        }
        QueueCommand::Fail { held, message, terminal } => {
            let failure = if terminal { Failure::terminal(message) } else { Failure::retryable(message) };
            let Hold { fence, token } = held.hold();
            let new = NewFailure { fence, token, failure };
            app.api().await?.fail(&caller, &held.id()?, new).await?
        }
        QueueCommand::Release(held) => app.api().await?.release(&caller, &held.id()?, held.hold()).await?,
        QueueCommand::Cancel { task } => app.api().await?.cancel_task(&caller, &TaskId::new(task)?).await?,
        QueueCommand::Get { task } => app.api().await?.task(&TaskId::new(task)?).await?,
    };
    match () {
        () if app.wants_json() => out::json(&task),
        () if app.quiet => out::line(task.id.as_str()),
        () => tasks::show(app, &[task]),
    }
    Ok(Exit::Ok)
}

impl HeldArgs {
    fn id(&self) -> Result<TaskId, CliError> {
        Ok(TaskId::new(&self.task)?)
    }

    fn hold(&self) -> Hold {
        Hold { fence: self.fence, token: self.token.clone() }
    }
}

async fn submit(app: &App, args: SubmitArgs) -> Result<Task, CliError> {
    let payload = payload::read(args.payload.as_deref())?;
    // Names are checked before a store is created.
    QueueName::new(&args.queue)?;
    args.lane.as_ref().map(LaneName::new).transpose()?;
    args.id.as_ref().map(TaskId::new).transpose()?;
    let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let new = NewUserTask {
        kind: args.kind,
        queue: Some(args.queue),
        payload,
        id: args.id,
        key: args.key,
        lane: args.lane,
        priority: args.priority,
        delay_ms: args.delay.map_or(0, millis),
        attempts_max: args.attempts,
        silence_max_ms: args.silence.map(millis),
    };
    Ok(app.api_or_new().await?.submit(&actor::caller(None), new).await?)
}

async fn claim(app: &App, args: ClaimArgs) -> Result<Exit, CliError> {
    QueueName::new(&args.queue)?;
    let new = NewClaim {
        owner: args.owner,
        queue: Some(args.queue),
        kind: args.kind,
        limit: Some(args.limit),
        wait_ms: None,
    };
    let claimed = app.api().await?.claim(&actor::caller(None), new).await?;
    let held = claimed.items.iter().map(|claimed| ClaimedTask {
        task: &claimed.task,
        token: claimed.token.as_deref(),
        last_heartbeat: claimed.last_heartbeat.as_ref(),
    });
    match () {
        () if app.json => out::json(&ItemsDoc::from(held.collect::<Vec<_>>())),
        () if app.jsonl => held.for_each(|held| out::jsonl(&held)),
        () => {
            tasks::print(app, &claimed.items.iter().map(|claimed| claimed.task.clone()).collect::<Vec<_>>());
        }
    }
    if claimed.items.is_empty() {
        app.remark("no task is due");
    }
    Ok(Exit::Ok)
}
