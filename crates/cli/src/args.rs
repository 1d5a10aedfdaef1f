//! The command line: global options and the list of commands.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde_json::json;

use crate::commands;
use crate::error::Exit;
use crate::out;

pub(crate) const STORE_DEFAULT: &str = "sqlite:goldseam.db";

/// Durable workflows that heal themselves
///
/// Lists, inspects, signals, answers, pauses and repairs runs on any Goldseam store. The workflows themselves are part
/// of your own program.
#[derive(Debug, Parser)]
#[command(
    name = "goldseam",
    version,
    arg_required_else_help = true,
    after_help = "The first five minutes:\n  goldseam demo                     kill -9 workers and check that nothing is lost\n  goldseam ls --status failed       list failed runs\n  goldseam show RUN                 show one run: timeline, questions, result\n  goldseam doctor                   find stalled runs and their remedies\n  goldseam why RUN                  explain why a run does not move\n  goldseam explain GS0104           explain a code\n\nExit codes: goldseam exit-codes"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Global options.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// The store: sqlite:FILE, postgres://USER@HOST/DATABASE or s3://BUCKET/PREFIX
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "GOLDSEAM_STORE",
        hide_env_values = true,
        default_value = STORE_DEFAULT,
        help_heading = "Everywhere"
    )]
    pub(crate) store: String,
    /// A server to use instead of a store: https://HOST:PORT; its key is in GOLDSEAM_KEY or --key-file
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "GOLDSEAM_SERVER",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub(crate) server: Option<String>,
    /// File with the server's key; must not be readable by other users
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) key_file: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// Print one JSON document per line, for lists and streams
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) jsonl: bool,
    /// Print only ids
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// When to use colours; NO_COLOR disables them
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub(crate) color: Color,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(commands::demo::DemoArgs),
    Drill(commands::drill::DrillArgs),
    Start(commands::start::StartArgs),
    Ls(commands::ls::LsArgs),
    Show(commands::show::ShowArgs),
    History(commands::history::HistoryArgs),
    Watch(commands::watch::WatchArgs),
    Why(commands::why::WhyArgs),
    Doctor(commands::doctor::DoctorArgs),
    Recoveries(commands::recoveries::RecoveriesArgs),
    Sweeper(commands::sweeper::SweeperArgs),
    Signal(commands::signal::SignalArgs),
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
    #[command(hide = true)]
    DemoWorker(commands::demo::worker::WorkerArgs),
}

/// Options that are on the command line, not from the default or the environment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Named {
    pub(crate) store: bool,
    pub(crate) server: bool,
}

/// Parses the command line of this process.
pub(crate) fn parse() -> Result<(Cli, Named), clap::Error> {
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

pub(crate) fn from_matches(matches: ArgMatches) -> Result<(Cli, Named), clap::Error> {
    let named = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    let named = Named { store: named("store"), server: named("server") };
    if named.store && named.server {
        let message = "--store and --server cannot be used together";
        return Err(command().error(clap::error::ErrorKind::ArgumentConflict, message));
    }
    Ok((Cli::from_arg_matches(&matches)?, named))
}

/// Whether the output is JSON, without parsing the command line.
pub(crate) fn wants_json() -> bool {
    std::env::args().any(|arg| arg == "--json" || arg == "--jsonl")
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
