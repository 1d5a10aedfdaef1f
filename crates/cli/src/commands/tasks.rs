//! `goldseam tasks`.

use clap::Args;
use goldseam::RunId;
use goldseam::unstable::core::QueueName;
use goldseam::unstable::core::argument::meant;
use goldseam::unstable::core::task::{Task, TaskState};
use goldseam_api::doc::PageDoc;
use goldseam_api::doc::task::TasksQuery;
use goldseam_api::view::describe::short;
use serde_json::json;

use super::pages;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, text, time};

const HEAD: &[&str] = &["TASK", "KIND", "QUEUE", "LANE", "PRIORITY", "STATE", "OWNER", "FENCE", "NOTE"];
/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["FENCE", "PRIORITY", "LANE", "OWNER", "QUEUE", "KIND", "NOTE"];
/// Queues that the engine keeps for its own records.
const ENGINE_QUEUES: &str = "goldseam-";

/// List tasks: your own, and those of remote steps
///
/// A task is work for your own workers: one that you submitted, or a remote step of a run. Tasks that advance runs are
/// not listed; goldseam queue stats counts them. NOTE: the error of the latest attempt, when the task is due, its result
/// or its payload.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam tasks --state dead\n  goldseam tasks --queue email --state ready\n  goldseam tasks --run ord-7          remote steps of a run\n  goldseam tasks --owner worker-1     what a worker holds\n\nTo submit, claim or complete tasks: goldseam queue --help"
)]
pub(crate) struct TasksArgs {
    /// Only tasks of this queue
    #[arg(long)]
    queue: Option<String>,
    /// Only tasks in this state: ready, claimed, completed, failed, cancelled or dead
    #[arg(long, value_parser = state)]
    state: Option<TaskState>,
    /// Only tasks of remote steps of this run
    #[arg(long)]
    run: Option<String>,
    /// Only tasks that this claimant holds
    #[arg(long)]
    owner: Option<String>,
    /// Maximum number of tasks
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: u32,
}

fn state(text: &str) -> Result<TaskState, String> {
    let known = ["ready", "claimed", "completed", "failed", "cancelled", "dead"];
    let invalid =
        || format!("invalid state {text:?}{}; write one of {}", meant(text, known), known.join(", "));
    TaskState::parse(text).ok_or_else(invalid)
}

pub(crate) async fn run(app: &App, args: TasksArgs) -> Result<Exit, CliError> {
    args.queue.as_ref().map(QueueName::new).transpose()?;
    args.run.as_ref().map(RunId::new).transpose()?;
    let api = app.api().await?;
    let query = TasksQuery {
        queue: args.queue.clone(),
        state: args.state,
        run: args.run.clone(),
        owner: args.owner.clone(),
        ..TasksQuery::default()
    };
    let shows_all = args.queue.is_some();
    let page = |after, limit| {
        let tasks = api.tasks(TasksQuery { after, limit: Some(limit), ..query.clone() });
        async move {
            let mut page: PageDoc<Task> = tasks.await?;
            page.items.retain(|task| shows_all || !task.queue.as_str().starts_with(ENGINE_QUEUES));
            Ok(page)
        }
    };
    let page = pages::gather(args.limit, None, page).await?;
    match app.json {
        true => out::json(&page),
        false => print(app, &page.items),
    }
    if page.items.is_empty() {
        app.remark("no tasks");
    }
    pages::warn_if_cut(app, &page);
    Ok(Exit::Ok)
}

/// Prints tasks in the requested format.
pub(super) fn print(app: &App, tasks: &[Task]) {
    match () {
        () if app.json => out::json(&json!({ "items": tasks })),
        () if app.jsonl => tasks.iter().for_each(out::jsonl),
        () if app.quiet => tasks.iter().for_each(|task| out::line(task.id.as_str())),
        () => show(app, tasks),
    }
}

/// Prints tasks as a table.
pub(super) fn show(app: &App, tasks: &[Task]) {
    let mut table = TextTable::new(HEAD).dropping(OPTIONAL);
    let none = || "-".to_owned();
    for task in tasks {
        table.row(vec![
            task.id.to_string(),
            task.kind.clone(),
            task.queue.to_string(),
            task.lane.as_ref().map_or_else(none, ToString::to_string),
            task.priority.to_string(),
            shown_state(task),
            task.owner.clone().unwrap_or_else(none),
            task.fence.to_string(),
            note(app, task),
        ]);
    }
    app.table(&table);
}

/// The state of a task, with the state of its work if the claimant reported one.
fn shown_state(task: &Task) -> String {
    match task.work_state() {
        Some(work) => format!("{} ({work})", task.state.as_str()),
        None => task.state.as_str().to_owned(),
    }
}

fn note(app: &App, task: &Task) -> String {
    let step = match (&task.run, &task.step) {
        (Some(run), Some(step)) => format!("step {} of {run}: ", step.path),
        _ => String::new(),
    };
    if let Some(failure) = &task.failure {
        let message = text::one_line(&failure.message);
        return format!("{step}attempt {} of {}: {message}", task.attempts, task.attempts_max);
    }
    let what = match task.state {
        TaskState::Ready if task.run_at > app.now() => format!("due {}", time::iso(task.run_at)),
        TaskState::Completed => {
            task.result.as_ref().map_or_else(String::new, |result| short(result, app.payload_length()))
        }
        _ => short(&task.payload, app.payload_length()),
    };
    format!("{step}{what}")
}
