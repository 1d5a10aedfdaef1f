//! What can be typed.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde_json::json;

use crate::commands;
use crate::fail::Exit;
use crate::out;

/// The store when nobody names one.
pub(crate) const STORE_DEFAULT: &str = "sqlite:goldseam.db";

/// Durable workflows that heal themselves
///
/// Looks at runs and talks to them, on any Goldseam store. Workflows live in your own program;
/// this one lists, inspects, signals, answers, pauses and repairs their runs.
#[derive(Debug, Parser)]
#[command(
    name = "goldseam",
    version,
    arg_required_else_help = true,
    after_help = "The first five minutes:\n  goldseam demo                     kill -9 workers and see that nothing is lost\n  goldseam ls --status failed       what went wrong\n  goldseam show RUN                 one run: timeline, questions, result\n  goldseam doctor                   is anything stalled? what is done about it?\n  goldseam why RUN                  why one run does not move\n  goldseam explain GS0104           what a code means\n\nExit codes: goldseam exit-codes"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that hold for every command.
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
    /// A server to ask instead of a store: https://HOST:PORT; its key is in GOLDSEAM_KEY or in --key-file
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "GOLDSEAM_SERVER",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub(crate) server: Option<String>,
    /// The file that holds the server's key; nobody else may be able to read it
    #[arg(long, global = true, value_name = "FILE", help_heading = "Everywhere")]
    pub(crate) key_file: Option<PathBuf>,
    /// One JSON document instead of text
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// One JSON document per line, for lists and streams
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) jsonl: bool,
    /// Ids only
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// When to use colours; NO_COLOR is honoured too
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Everywhere")]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

/// Every command.
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

/// What was named on the command line itself, not by default or by the environment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Named {
    /// The store.
    pub(crate) store: bool,
    /// The server.
    pub(crate) server: bool,
}

/// What was typed, and what it names.
pub(crate) fn typed() -> Result<(Cli, Named), clap::Error> {
    match whole().try_get_matches() {
        Ok(matches) => understood(matches),
        // What the environment names would stand in the usage line as if it had to be typed.
        Err(error) if error.use_stderr() => Err(unset().try_get_matches().err().unwrap_or(error)),
        Err(help) => Err(help),
    }
}

/// The whole command line, without what the environment names.
fn unset() -> clap::Command {
    whole().mut_args(|arg| arg.env(None::<&str>))
}

/// The same, of what was matched.
pub(crate) fn understood(matches: ArgMatches) -> Result<(Cli, Named), clap::Error> {
    let named = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
    let named = Named { store: named("store"), server: named("server") };
    if named.store && named.server {
        let words = "--store and --server cannot be used together";
        return Err(whole().error(clap::error::ErrorKind::ArgumentConflict, words));
    }
    Ok((Cli::from_arg_matches(&matches)?, named))
}

/// Whether documents are wanted, as far as that can be told before the command line is understood.
pub(crate) fn wants_json() -> bool {
    std::env::args().any(|arg| arg == "--json" || arg == "--jsonl")
}

/// Shows why the command line was not understood, or the help that was asked for.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && wants_json() {
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let error = json!({ "code": null, "message": first, "help": "goldseam --help", "exit": 2 });
        out::note_json(&json!({ "error": error }).to_string());
        return Exit::Usage.into();
    }
    if let Err(lost) = error.print() {
        return out::lost(&lost).into();
    }
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() }
}

/// The whole command line, for completions.
pub(crate) fn whole() -> clap::Command {
    Cli::command()
}
