//! The command line: the list of commands, and parsing.

use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::json;

use crate::commands;
use crate::error::Exit;
use crate::options::{GivenOptions, Global, wants_json};
use crate::out;

/// Durable workflows that heal themselves
///
/// Lists, inspects, signals, answers, pauses and repairs runs on any Goldseam store. The workflows themselves are part
/// of your own program.
#[derive(Debug, Parser)]
#[command(
    name = "goldseam",
    version,
    arg_required_else_help = true,
    after_help = "The first five minutes:\n  goldseam demo                     kill -9 workers and check that nothing is lost\n  goldseam ls --status failed       list failed runs\n  goldseam nodes                    list the processes that execute runs\n  goldseam questions                list open questions, and how to answer them\n  goldseam show RUN                 show one run: timeline, questions, result\n  goldseam doctor                   find stalled runs and their remedies\n  goldseam why RUN                  explain why a run does not move\n  goldseam explain GS0104           explain a code\n\nExit codes: goldseam exit-codes"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    Demo(commands::demo::DemoArgs),
    Drill(commands::drill::DrillArgs),
    Start(commands::start::StartArgs),
    Ls(commands::ls::LsArgs),
    Show(commands::show::ShowArgs),
    History(commands::history::HistoryArgs),
    Watch(commands::watch::WatchArgs),
    Why(commands::why::WhyArgs),
    Questions(commands::questions::QuestionsArgs),
    Tasks(commands::tasks::TasksArgs),
    Nodes(commands::nodes::NodesArgs),
    Workflows(commands::workflows::WorkflowsArgs),
    Doctor(commands::doctor::DoctorArgs),
    Recoveries(commands::recoveries::RecoveriesArgs),
    Activity(commands::activity::ActivityArgs),
    Failures(commands::failures::FailuresArgs),
    #[command(subcommand)]
    Operation(commands::operation::OperationCommand),
    Sweeper(commands::sweeper::SweeperArgs),
    Signal(commands::signal::SignalArgs),
    Request(commands::request::RequestArgs),
    Published(commands::published::PublishedArgs),
    Answer(commands::answer::AnswerArgs),
    Pause(commands::pause::PauseArgs),
    Resume(commands::resume::ResumeArgs),
    Recover(commands::recover::RecoverArgs),
    Requeue(commands::requeue::RequeueArgs),
    Reset(commands::reset::ResetArgs),
    Cancel(commands::cancel::CancelArgs),
    Terminate(commands::terminate::TerminateArgs),
    Withdraw(commands::withdraw::WithdrawArgs),
    Jump(commands::jump::JumpArgs),
    Retry(commands::retry::RetryArgs),
    Preflight(commands::preflight::PreflightArgs),
    Migrate(commands::migrate::MigrateArgs),
    Branches(commands::branches::BranchesArgs),
    Diff(commands::diff::DiffArgs),
    Prune(commands::prune::PruneArgs),
    #[command(subcommand)]
    Queue(commands::queue::QueueCommand),
    #[command(subcommand)]
    Lock(commands::lock::LockCommand),
    #[command(subcommand)]
    Store(commands::store::StoreCommand),
    Serve(commands::serve::ServeArgs),
    Dev(commands::serve::DevArgs),
    #[command(subcommand)]
    Key(commands::key::KeyCommand),
    #[command(subcommand)]
    Pass(commands::pass::PassCommand),
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    Explain(commands::explain::ExplainArgs),
    Completions(commands::completions::CompletionsArgs),
    /// Show the version
    Version,
    /// List the exit codes
    ExitCodes,
    #[command(name = "__complete", hide = true)]
    Complete(commands::complete::CompleteArgs),
    #[command(hide = true)]
    DemoWorker(commands::demo::worker::WorkerArgs),
}

/// Parses the command line of this process.
pub(crate) fn parse() -> Result<(Cli, GivenOptions), clap::Error> {
    match command().try_get_matches() {
        Ok(matches) => from_matches(matches),
        // The usage line would show options from the environment as required arguments.
        Err(error) if error.use_stderr() => {
            Err(command_without_env().try_get_matches().err().unwrap_or(error))
        }
        Err(help) => Err(help),
    }
}

fn command_without_env() -> clap::Command {
    command().mut_args(|arg| arg.env(None::<&str>))
}

pub(crate) fn from_matches(matches: ArgMatches) -> Result<(Cli, GivenOptions), clap::Error> {
    let named = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    let named = GivenOptions { store: named("store"), server: named("server") };
    if named.store && named.server {
        let message = "--store and --server cannot be used together";
        return Err(command().error(clap::error::ErrorKind::ArgumentConflict, message));
    }
    Ok((Cli::from_arg_matches(&matches)?, named))
}

/// Prints a parse error, or the requested help.
pub(crate) fn print_error(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && wants_json() {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let error = json!({ "code": null, "message": first, "help": "goldseam --help", "exit": 2 });
        out::note_json(&json!({ "error": error }).to_string());
        return Exit::Usage.into();
    }
    if let Err(error) = error.print() {
        return out::write_failed(&error).into();
    }
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() }
}

/// The definition of the command line.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}
