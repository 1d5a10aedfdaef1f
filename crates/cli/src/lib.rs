//! The `goldseam` command.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `options`, `args` | the global options; the list of commands, and parsing |
//! | `commands` | one file per command |
//! | `app` | the context of every command: the store or server, and how to print |
//! | `error` | errors of commands, and exit codes |
//! | `redact` | redaction of secrets on stderr |
//! | `finding` | the table of findings of `sweeper` and `doctor` |
//! | `connect` | connecting to a server |
//! | `out`, `color`, `table`, `text`, `time` | printing; colours, tables, times and durations |
//! | `progress` | progress on stderr |
//! | `suggest` | similar names for mistyped ones |
//! | `timeline` | the operations of a run as bars |
//!
//! stdout is data, stderr is everything else.

mod app;
mod args;
mod color;
mod commands;
mod confirm;
mod connect;
mod damage;
mod error;
mod finding;
mod options;
mod out;
mod payload;
mod progress;
mod redact;
mod suggest;
mod table;
mod text;
mod time;
mod timeline;

use std::process::ExitCode;

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::redact::{LogFormat, Redaction};

/// The log filter without `GOLDSEAM_LOG`.
const LOG_DEFAULT: &str = "error";
/// The log filter of a server without `GOLDSEAM_LOG`; it includes the audit log.
const LOG_DEFAULT_SERVER: &str = "warn,goldseam::audit=info";

/// Writes log lines to stderr, filtered by `GOLDSEAM_LOG`; as JSON if `GOLDSEAM_LOG_FORMAT` is `json`.
fn init_logging(default_filter: &str, redaction: &Redaction) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GOLDSEAM_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default_filter));
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let form = match std::env::var("GOLDSEAM_LOG_FORMAT").is_ok_and(|format| format == "json") {
        true => LogFormat::Json,
        false => LogFormat::Text,
    };
    let lines = redaction.lines(form, std::io::stderr);
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines).with_ansi(ansi);
    match form {
        LogFormat::Json => subscriber.json().init(),
        LogFormat::Text => subscriber.fmt_fields(redaction.fields()).init(),
    }
    let redaction = redaction.clone();
    std::panic::set_hook(Box::new(move |panic| {
        out::note(redaction.text(&format!("{panic}\n{}", std::backtrace::Backtrace::capture())));
    }));
}

/// Parses a command line, including the program's name, without running it.
pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<(), clap::Error> {
    args::from_matches(args::command().try_get_matches_from(words)?).map(|_| ())
}

/// Installs handlers for SIGINT and SIGTERM; the future waits for the first signal. The command is then dropped, which
/// restores the screen.
fn stop_signal() -> impl Future<Output = Exit> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    async fn received(signals: std::io::Result<Signal>) {
        match signals {
            Ok(mut signals) => {
                signals.recv().await;
            }
            // Without a handler, the signal ends the process.
            Err(_) => std::future::pending().await,
        }
    }
    let interrupt = signal(SignalKind::interrupt());
    let terminate = signal(SignalKind::terminate());
    async {
        tokio::select! {
            () = received(interrupt) => Exit::Interrupted,
            () = received(terminate) => Exit::Terminated,
        }
    }
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    let (cli, named) = match args::parse() {
        Ok(parsed) => parsed,
        Err(error) => return args::print_error(&error),
    };
    let app = App::new(&cli.global, named);
    let log_filter = match cli.command {
        args::CliCommand::Serve(_) | args::CliCommand::Dev(_) => LOG_DEFAULT_SERVER,
        _ => LOG_DEFAULT,
    };
    init_logging(log_filter, &app.redaction);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return app.print_error(&CliError::plain(format!("cannot start threads: {error}"))),
    };
    let handles_signals = commands::handles_signals(&cli.command);
    let done = runtime.block_on(async {
        if handles_signals {
            return commands::run(&app, cli.command).await;
        }
        let stopped = stop_signal();
        let command = async {
            match commands::run(&app, cli.command).await {
                Err(error) => Err(suggest::improve(&app, error).await),
                done => done,
            }
        };
        tokio::select! {
            done = command => done,
            exit = stopped => Ok(exit),
        }
    });
    runtime.shutdown_background();
    match done {
        Ok(exit) => exit.into(),
        Err(error) => app.print_error(&error),
    }
}
