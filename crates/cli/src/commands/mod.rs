//! The commands, one file each.

pub(crate) mod activity;
mod actor;
pub(crate) mod answer;
pub(crate) mod branches;
pub(crate) mod bulk;
pub(crate) mod cancel;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod drill;
pub(crate) mod explain;
pub(crate) mod failures;
pub(crate) mod history;
pub(crate) mod jump;
pub(crate) mod key;
pub(crate) mod lock;
pub(crate) mod ls;
pub(crate) mod migrate;
pub(crate) mod nodes;
pub(crate) mod operation;
mod pages;
pub(crate) mod pass;
pub(crate) mod pause;
pub(crate) mod preflight;
pub(crate) mod prune;
pub(crate) mod published;
pub(crate) mod questions;
pub(crate) mod queue;
pub(crate) mod recover;
pub(crate) mod recoveries;
pub(crate) mod request;
pub(crate) mod requeue;
pub(crate) mod reset;
pub(crate) mod resume;
pub(crate) mod retry;
mod search;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod signal;
pub(crate) mod start;
pub(crate) mod store;
pub(crate) mod sweeper;
pub(crate) mod tasks;
pub(crate) mod terminate;
pub(crate) mod version;
pub(crate) mod watch;
pub(crate) mod why;
pub(crate) mod withdraw;
pub(crate) mod workflows;

use goldseam::unstable::core::argument::nearest;
use goldseam::unstable::core::{QueueName, WorkflowName};
use goldseam::unstable::engine::ledger::liveness::Coverage;
use goldseam_api::Api;
use goldseam_api::doc::node::WorkflowDoc;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::app::App;
use crate::args::CliCommand;
use crate::error::{CliError, Exit};

/// Whether a command uses the store from `--store`.
fn uses_store(command: &CliCommand) -> bool {
    !matches!(
        command,
        CliCommand::Demo(_)
            | CliCommand::DemoWorker(_)
            | CliCommand::Drill(_)
            | CliCommand::Serve(_)
            | CliCommand::Dev(_)
            | CliCommand::Config(_)
            | CliCommand::Explain(_)
            | CliCommand::Completions(_)
            | CliCommand::Complete(_)
            | CliCommand::Version
            | CliCommand::ExitCodes
    )
}

pub(crate) async fn run(app: &App, command: CliCommand) -> Result<Exit, CliError> {
    if uses_store(&command) {
        app.warn_exposed();
    }
    match command {
        CliCommand::Demo(args) => demo::run(app, args).await,
        CliCommand::Drill(args) => drill::run(app, args).await,
        CliCommand::Start(args) => start::run(app, args).await,
        CliCommand::Ls(args) => ls::run(app, args).await,
        CliCommand::Show(args) => show::run(app, args).await,
        CliCommand::History(args) => history::run(app, args).await,
        CliCommand::Watch(args) => watch::run(app, args).await,
        CliCommand::Why(args) => why::run(app, args).await,
        CliCommand::Questions(args) => questions::run(app, args).await,
        CliCommand::Tasks(args) => tasks::run(app, args).await,
        CliCommand::Nodes(args) => nodes::run(app, args).await,
        CliCommand::Workflows(args) => workflows::run(app, &args).await,
        CliCommand::Doctor(args) => doctor::run(app, args).await,
        CliCommand::Recoveries(args) => recoveries::run(app, args).await,
        CliCommand::Activity(args) => activity::run(app, args).await,
        CliCommand::Failures(args) => failures::run(app, args).await,
        CliCommand::Operation(command) => operation::run(app, command).await,
        CliCommand::Sweeper(args) => sweeper::run(app, args).await,
        CliCommand::Signal(args) => signal::run(app, args).await,
        CliCommand::Request(args) => request::run(app, args).await,
        CliCommand::Published(args) => published::run(app, args).await,
        CliCommand::Answer(args) => answer::run(app, args).await,
        CliCommand::Pause(args) => pause::run(app, args).await,
        CliCommand::Resume(args) => resume::run(app, args).await,
        CliCommand::Recover(args) => recover::run(app, args).await,
        CliCommand::Requeue(args) => requeue::run(app, args).await,
        CliCommand::Reset(args) => reset::run(app, args).await,
        CliCommand::Cancel(args) => cancel::run(app, args).await,
        CliCommand::Terminate(args) => terminate::run(app, args).await,
        CliCommand::Withdraw(args) => withdraw::run(app, args).await,
        CliCommand::Jump(args) => jump::run(app, args).await,
        CliCommand::Preflight(args) => preflight::run(app, args).await,
        CliCommand::Migrate(args) => migrate::run(app, args).await,
        CliCommand::Retry(args) => retry::run(app, args).await,
        CliCommand::Branches(args) => branches::run(app, args).await,
        CliCommand::Diff(args) => diff::run(app, args).await,
        CliCommand::Prune(args) => prune::run(app, args).await,
        CliCommand::Queue(command) => queue::run(app, command).await,
        CliCommand::Lock(command) => lock::run(app, command).await,
        CliCommand::Store(command) => store::run(app, &command).await,
        CliCommand::Serve(args) => serve::run(app, args).await,
        CliCommand::Dev(args) => serve::dev(app, args).await,
        CliCommand::Key(command) => key::run(app, command).await,
        CliCommand::Pass(command) => pass::run(app, command).await,
        CliCommand::Config(command) => config::run(app, command),
        CliCommand::Explain(args) => explain::run(app, &args),
        CliCommand::Completions(args) => completions::run(&args),
        CliCommand::Complete(args) => complete::run(&args).await,
        CliCommand::Version => Ok(version::version(app)),
        CliCommand::ExitCodes => Ok(version::exit_codes(app)),
        CliCommand::DemoWorker(args) => demo::worker::run(app, args).await,
    }
}

/// Whether the command handles signals itself and ends successfully on Ctrl-C.
pub(crate) fn handles_signals(command: &CliCommand) -> bool {
    let bulk = match command {
        CliCommand::Sweeper(_) | CliCommand::Serve(_) | CliCommand::Dev(_) | CliCommand::DemoWorker(_) => {
            return true;
        }
        CliCommand::Operation(command) => return command.follows(),
        CliCommand::Retry(args) => &args.target.bulk,
        CliCommand::Resume(args) => &args.target.bulk,
        CliCommand::Cancel(args) => &args.target.bulk,
        CliCommand::Pause(args) => &args.target.bulk,
        CliCommand::Recover(args) => &args.bulk,
        CliCommand::Signal(args) => &args.bulk,
        _ => return false,
    };
    bulk.follows()
}

/// Handlers for SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopSignal {
    Interrupt,
    Terminate,
}

impl Signals {
    fn install() -> Result<Self, CliError> {
        let cannot =
            |error: std::io::Error| CliError::plain(format!("cannot install signal handlers: {error}"));
        let interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate()).map_err(cannot)? })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Interrupt,
            _ = self.terminate.recv() => StopSignal::Terminate,
        }
    }
}

/// The workflows of live nodes.
struct LiveWorkflows(Vec<WorkflowDoc>);

impl LiveWorkflows {
    async fn of(api: &dyn Api) -> Result<Self, CliError> {
        Ok(Self(api.workflows().await?.items))
    }

    /// Names of live workflows that are similar to one that no live node has.
    fn similar(&self, workflow: &WorkflowName) -> Vec<&str> {
        match self.0.iter().any(|found| found.name == *workflow) {
            true => Vec::new(),
            false => nearest(workflow.as_str(), self.0.iter().map(|found| found.name.as_str())),
        }
    }

    /// Describes the worker that a run on this version, in this queue, waits for, if no live node takes it.
    fn missing(&self, workflow: &WorkflowName, version: u32, queue: &QueueName) -> Option<String> {
        let found = self.0.iter().find(|found| found.name == *workflow).cloned();
        let served = found.map(|found| Coverage { versions: found.versions, queues: found.queues });
        served.unwrap_or_default().missing(workflow, version, queue)
    }
}

/// Parses `KEY=VALUE`.
fn tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("invalid tag {text:?}; write KEY=VALUE")),
    }
}
