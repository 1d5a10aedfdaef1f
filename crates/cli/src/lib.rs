//! `goldseam`: looks at runs, talks to them, and shows what a crash does not do to them.
//!
//! # Layout
//!
//! | module | holds |
//! |---|---|
//! | `args` | what can be typed: global options and the list of commands |
//! | `commands` | one file per verb |
//! | `app` | what every command gets: where to look, how to show |
//! | `fail` | errors as a person sees them, and exit codes |
//! | `hidden` | what is kept out of stderr |
//! | `finding` | what is wrong, as `sweeper` and `doctor` show it |
//! | `reach` | how a store or a server is reached |
//! | `out`, `paint`, `table`, `text`, `when` | the one home of printing; colour, tables, times and spans |
//! | `progress` | a live line while something takes its time |
//! | `timeline` | the steps of a run as bars |
//!
//! stdout is data, stderr is everything else.

mod app;
mod args;
mod commands;
mod damage;
mod fail;
mod finding;
mod hidden;
mod out;
mod paint;
mod payload;
mod progress;
mod reach;
mod table;
mod text;
mod timeline;
mod when;

use std::process::ExitCode;

use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::hidden::{Form, Hidden};

/// What is heard unless `GOLDSEAM_LOG` says otherwise: a server also tells who changed what.
const HEARD: &str = "error";
const HEARD_OF_A_SERVER: &str = "warn,goldseam::audit=info";

/// What the engine has to say goes to stderr: errors, or what `GOLDSEAM_LOG` asks for; as JSON if
/// `GOLDSEAM_LOG_FORMAT` is `json`.
fn listen(unless_told: &str, hidden: &Hidden) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GOLDSEAM_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(unless_told));
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let form = match std::env::var("GOLDSEAM_LOG_FORMAT").is_ok_and(|format| format == "json") {
        true => Form::Json,
        false => Form::Text,
    };
    let lines = hidden.lines(form, std::io::stderr);
    let heard = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines).with_ansi(ansi);
    match form {
        Form::Json => heard.json().init(),
        Form::Text => heard.fmt_fields(hidden.fields()).init(),
    }
    let hidden = hidden.clone();
    std::panic::set_hook(Box::new(move |panic| {
        out::note(hidden.text(&format!("{panic}\n{}", std::backtrace::Backtrace::capture())));
    }));
}

/// Whether a command line can be understood, its name included; nothing is done.
pub fn understand<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<(), clap::Error> {
    args::understood(args::whole().try_get_matches_from(words)?).map(|_| ())
}

/// Listens for signals that ask this process to end, from this call on; the future waits for one. What a command holds
/// is dropped then, so a screen that it took is given back.
fn stop_signal() -> impl Future<Output = Exit> {
    use tokio::signal::unix::{Signal, SignalKind, signal};
    async fn received(signals: std::io::Result<Signal>) {
        match signals {
            Ok(mut signals) => {
                signals.recv().await;
            }
            // The signal ends the process by itself.
            Err(_) => std::future::pending().await,
        }
    }
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    async {
        tokio::select! {
            () = received(interrupt) => Exit::Interrupted,
            () = received(terminate) => Exit::Terminated,
        }
    }
}

/// Does what the command line of this process says.
pub fn run() -> ExitCode {
    let (cli, named) = match args::typed() {
        Ok(typed) => typed,
        Err(error) => return args::refuse(&error),
    };
    let app = App::new(&cli.global, named);
    let unless_told = match cli.command {
        args::Command::Serve(_) | args::Command::Dev(_) => HEARD_OF_A_SERVER,
        _ => HEARD,
    };
    listen(unless_told, &app.hidden);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return app.fail(&Fail::plain(format!("no threads could be started: {error}"))),
    };
    let stops_itself = commands::stops_itself(&cli.command);
    let done = runtime.block_on(async {
        if stops_itself {
            return commands::run(&app, cli.command).await;
        }
        let stopped = stop_signal();
        tokio::select! {
            done = commands::run(&app, cli.command) => done,
            exit = stopped => Ok(exit),
        }
    });
    runtime.shutdown_background();
    match done {
        Ok(exit) => exit.into(),
        Err(fail) => app.fail(&fail),
    }
}
