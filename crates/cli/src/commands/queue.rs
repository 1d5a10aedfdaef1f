//! `goldseam queue`.

mod heal;

use std::time::Duration;

use clap::{Args, Subcommand};
use goldseam::core::task::{NewTask, Task, TaskState};
use goldseam::core::{LaneName, QueueName, TaskId};
use goldseam::engine::queue::Want;
use goldseam::{Client, Failure};
use serde_json::json;

use crate::app::App;
use crate::describe::short;
use crate::fail::{Exit, Fail};
use crate::table::Table;
use crate::{out, payload, text, when};

/// Your own tasks: submitted once, claimed with a fence, finished once
#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// List tasks
    Ls(LsArgs),
    /// Put a task into a queue; prints its id
    #[command(
        after_help = "Examples:\n  goldseam queue submit email --payload '{\"to\":\"ana\"}'\n  goldseam queue submit merge --lane main --key pr-311 --attempts 3 --delay 5m"
    )]
    Submit(SubmitArgs),
    /// Take tasks that are due: highest priority first, one at a time per lane
    #[command(after_help = "Example:\n  goldseam queue claim --owner worker-1 --limit 5 --json")]
    Claim(ClaimArgs),
    /// Say that the claimant is alive
    Heartbeat(HeldArgs),
    /// The work is done; saying so twice is harmless
    Complete {
        #[command(flatten)]
        held: HeldArgs,
        /// What it brought: JSON, @file, or - for stdin
        #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
        result: Option<String>,
    },
    /// The work failed; tried again while attempts are left
    Fail {
        #[command(flatten)]
        held: HeldArgs,
        /// Why
        #[arg(long, default_value = "failed by hand")]
        message: String,
        /// No further attempt will help
        #[arg(long)]
        terminal: bool,
    },
    /// Give a task back unharmed
    Release(HeldArgs),
    /// Nobody wants the task any more
    Cancel {
        /// The task
        task: String,
    },
    /// Show one task
    Get {
        /// The task
        task: String,
    },
    /// Take tasks back from claimants who are gone or silent, and free stale locks
    ///
    /// Engines and claims do this by themselves; this is for whoever does not want to wait. A task goes back to its
    /// queue with the reason in its audit; one that took too many claimants down is dead. Any number may do it at once.
    #[command(
        after_help = "Exit code 0, also if there was nothing to do; 7 if the store cannot be used.\n\nExamples:\n  goldseam queue reclaim --dry-run\n  goldseam queue reclaim --older-than 300s"
    )]
    Reclaim(heal::ReclaimArgs),
    /// Count what stands in each queue: your tasks, and runs to be moved on
    ///
    /// READY counts what nobody has, DUE what of it could be claimed now, DEAD what took too many claimants down. OLDEST
    /// is how long the oldest due one has been waiting. At most 100,000 tasks are counted; it says so if there are more.
    #[command(
        after_help = "Exit code 1 if a record contradicts itself.\n\nExample:\n  goldseam queue stats --json"
    )]
    Stats,
}

/// Which tasks.
#[derive(Debug, Args)]
pub(crate) struct LsArgs {
    /// Only of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only in this state: ready, claimed, completed, failed, cancelled or dead
    #[arg(long, value_parser = state)]
    state: Option<TaskState>,
    /// At most so many
    #[arg(long, default_value_t = 100)]
    limit: u32,
}

/// A new task.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// What sort of work
    kind: String,
    /// The queue
    #[arg(long, default_value = "default")]
    queue: String,
    /// The work itself: JSON, @file, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// The task's id; a new one unless given
    #[arg(long)]
    id: Option<String>,
    /// No two live tasks share one: the task that has it is returned instead
    #[arg(long)]
    key: Option<String>,
    /// At most one task of a lane is claimed at a time
    #[arg(long)]
    lane: Option<String>,
    /// Larger goes first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// Not before this span has passed
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
    delay: Option<Duration>,
    /// Attempts in all
    #[arg(long, default_value_t = 1)]
    attempts: u32,
    /// How long a claimant may be silent before the task goes back
    #[arg(long, value_name = "SPAN", value_parser = when::parse_span)]
    silence: Option<Duration>,
}

/// Who claims how much.
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
    /// At most so many
    #[arg(long, default_value_t = 1)]
    limit: u32,
}

/// A task that is held.
#[derive(Debug, Args)]
pub(crate) struct HeldArgs {
    /// The task
    task: String,
    /// The fence that claim printed
    #[arg(long)]
    fence: u64,
}

fn state(text: &str) -> Result<TaskState, String> {
    let words = "there are: ready, claimed, completed, failed, cancelled, dead";
    TaskState::parse(text).ok_or_else(|| format!("{text:?} is no state; {words}"))
}

/// Carries it out.
pub(crate) async fn run(app: &App, command: QueueCommand) -> Result<Exit, Fail> {
    let task = match command {
        QueueCommand::Ls(args) => return list(app, &args).await,
        QueueCommand::Claim(args) => return claim(app, args).await,
        QueueCommand::Reclaim(args) => return heal::reclaim(app, &args).await,
        QueueCommand::Stats => return heal::stats(app).await,
        QueueCommand::Submit(args) => submit(app, args).await?,
        QueueCommand::Heartbeat(held) => {
            app.client().await?.queue().heartbeat(&held.id()?, held.fence).await?
        }
        QueueCommand::Complete { held, result } => {
            let result = payload::read(result.as_deref())?;
            app.client().await?.queue().complete(&held.id()?, held.fence, result).await?
        }
        QueueCommand::Fail { held, message, terminal } => {
            let failure = if terminal { Failure::terminal(message) } else { Failure::retryable(message) };
            app.client().await?.queue().fail(&held.id()?, held.fence, failure).await?
        }
        QueueCommand::Release(held) => app.client().await?.queue().release(&held.id()?, held.fence).await?,
        QueueCommand::Cancel { task } => app.client().await?.queue().cancel(&TaskId::new(task)?).await?,
        QueueCommand::Get { task } => app.client().await?.queue().get(&TaskId::new(task)?).await?,
    };
    match () {
        () if app.wants_json() => out::json(&task),
        () if app.quiet => out::line(task.id.as_str()),
        () => show(app, &[task]),
    }
    Ok(Exit::Ok)
}

impl HeldArgs {
    fn id(&self) -> Result<TaskId, Fail> {
        Ok(TaskId::new(&self.task)?)
    }
}

async fn submit(app: &App, args: SubmitArgs) -> Result<Task, Fail> {
    let payload = payload::read(args.payload.as_deref())?;
    let queue = QueueName::new(args.queue)?;
    let lane = args.lane.map(LaneName::new).transpose()?;
    let given = args.id.map(TaskId::new).transpose()?;
    let client = app.client_or_new().await?;
    let now = client.store().now().await?;
    let id = match given {
        Some(id) => id,
        None => new_id(&client)?,
    };
    let new = NewTask {
        id,
        kind: args.kind,
        queue,
        lane,
        priority: args.priority,
        key: args.key,
        run_at: now + args.delay.unwrap_or_default(),
        payload,
        attempts_max: args.attempts,
        silence_max: args.silence,
    };
    Ok(client.queue().submit(new).await?)
}

fn new_id(client: &Client) -> Result<TaskId, Fail> {
    Ok(TaskId::new(client.new_id().as_str().replacen("run-", "task-", 1))?)
}

async fn claim(app: &App, args: ClaimArgs) -> Result<Exit, Fail> {
    let queue = QueueName::new(args.queue)?;
    let want = Want { owner: args.owner, queue, kind: args.kind, limit: args.limit };
    let tasks = app.client().await?.queue().claim(want).await?;
    print(app, &tasks);
    if tasks.is_empty() {
        app.remark("nothing is due");
    }
    Ok(Exit::Ok)
}

async fn list(app: &App, args: &LsArgs) -> Result<Exit, Fail> {
    let queue = args.queue.as_ref().map(QueueName::new).transpose()?;
    let tasks = app.client().await?.queue().list(queue.as_ref(), args.state, None, args.limit).await?;
    print(app, &tasks);
    Ok(Exit::Ok)
}

fn print(app: &App, tasks: &[Task]) {
    match () {
        () if app.json => out::json(&json!({ "items": tasks })),
        () if app.jsonl => tasks.iter().for_each(out::jsonl),
        () if app.quiet => tasks.iter().for_each(|task| out::line(task.id.as_str())),
        () => show(app, tasks),
    }
}

fn show(app: &App, tasks: &[Task]) {
    let head = ["TASK", "KIND", "QUEUE", "LANE", "PRIORITY", "STATE", "OWNER", "FENCE", "NOTE"];
    let mut table = Table::new(&head);
    let none = || "-".to_owned();
    for task in tasks {
        table.row(vec![
            task.id.to_string(),
            task.kind.clone(),
            task.queue.to_string(),
            task.lane.as_ref().map_or_else(none, ToString::to_string),
            task.priority.to_string(),
            task.state.as_str().to_owned(),
            task.owner.clone().unwrap_or_else(none),
            task.fence.to_string(),
            note(app, task),
        ]);
    }
    app.table(&table);
}

fn note(app: &App, task: &Task) -> String {
    if let Some(failure) = &task.failure {
        return format!(
            "attempt {} of {}: {}",
            task.attempts,
            task.attempts_max,
            text::one_line(&failure.message)
        );
    }
    match task.state {
        TaskState::Ready if task.run_at > app.now() => format!("due {}", when::iso(task.run_at)),
        TaskState::Completed => {
            task.result.as_ref().map_or_else(String::new, |result| short(result, app.much()))
        }
        _ => short(&task.payload, app.much()),
    }
}
