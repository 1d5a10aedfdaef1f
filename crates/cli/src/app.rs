//! The context of every command: the store or server, and how to print.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use goldseam::unstable::engine::{Clock, SystemClock};
use goldseam::{Millis, RunId};
use goldseam_api::view::describe::PayloadLength;
use goldseam_api::{Api, LocalApi, RemoteApi};
use serde::Serialize;
use serde_json::json;

use crate::color::{Colors, Hue};
use crate::error::{CliError, Exit};
use crate::options::{Color, GivenOptions, Global, STORE_DEFAULT};
use crate::redact::Redaction;
use crate::table::{TextTable, hanging};
use crate::{connect, out, payload};

/// The parsed global options.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The URL of the store.
    pub(crate) url: String,
    /// Whether --store is on the command line, not from the default or the environment.
    pub(crate) names_store: bool,
    server: Option<String>,
    key_file: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) jsonl: bool,
    pub(crate) quiet: bool,
    /// Whether stdout is a terminal.
    pub(crate) terminal: bool,
    /// Whether stdout is a terminal that can be redrawn.
    pub(crate) screen: bool,
    /// Colours of stdout.
    pub(crate) colors: Colors,
    error_colors: Colors,
    clock: Arc<dyn Clock>,
    /// Redacts secrets on stderr.
    pub(crate) redaction: Redaction,
}

impl App {
    pub(crate) fn new(global: &Global, named: GivenOptions) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colours = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain && !dumb,
        };
        Self {
            // An empty variable counts as unset.
            url: if global.store.is_empty() { STORE_DEFAULT.to_owned() } else { global.store.clone() },
            names_store: named.store,
            // --store on the command line overrides a server from the environment.
            server: global.server.clone().filter(|server| !server.is_empty() && !named.store),
            key_file: global.key_file.clone(),
            json: global.json,
            jsonl: global.jsonl,
            quiet: global.quiet,
            terminal: out::is_terminal(),
            screen: out::is_terminal() && !dumb,
            colors: Colors(colours(out::is_terminal())),
            error_colors: Colors(colours(std::io::stderr().is_terminal())),
            clock: Arc::new(SystemClock),
            redaction: Redaction::of(&[&global.store, global.server.as_deref().unwrap_or_default()]),
        }
    }

    /// Connects to the server, or to the existing store; never creates a store.
    pub(crate) async fn api(&self) -> Result<Arc<dyn Api>, CliError> {
        match self.remote()? {
            Some(remote) => Ok(remote),
            None => Ok(Arc::new(self.local().await?)),
        }
    }

    /// Connects to the existing store.
    pub(crate) async fn local(&self) -> Result<LocalApi, CliError> {
        Ok(LocalApi::new(goldseam::connect_existing(&self.url).await?.with_limits(payload::limits()?)))
    }

    /// Connects to the server, or to the store; creates the store if it does not exist.
    pub(crate) async fn api_or_new(&self) -> Result<Arc<dyn Api>, CliError> {
        match self.remote()? {
            Some(remote) => Ok(remote),
            None => Ok(Arc::new(LocalApi::new(
                goldseam::connect(&self.url).await?.with_limits(payload::limits()?),
            ))),
        }
    }

    /// Connects to the server, if there is one.
    pub(crate) fn remote(&self) -> Result<Option<Arc<RemoteApi>>, CliError> {
        let Some(server) = &self.server else { return Ok(None) };
        Ok(Some(Arc::new(connect::server(server, self.key_file.as_deref(), &self.redaction)?)))
    }

    /// Whether the commands go to a server.
    pub(crate) fn has_server(&self) -> bool {
        self.server.is_some()
    }

    /// Refuses a command that needs direct access to the store.
    pub(crate) fn needs_store(&self, command: &str) -> Result<(), CliError> {
        match &self.server {
            None => Ok(()),
            Some(_) => Err(CliError::usage(
                format!("{command} needs direct access to the store and does not work through a server"),
                "run it where the store is reachable, with --store URL",
            )),
        }
    }

    /// Warns about store files that other users can read or write.
    pub(crate) fn warn_exposed(&self) {
        if self.server.is_none() {
            self.warn_exposed_files(&self.url);
        }
    }

    /// Warns about files of the store at this URL.
    pub(crate) fn warn_exposed_files(&self, url: &str) {
        let exposed = goldseam::admin::exposed_files(url);
        let (folders, files): (Vec<_>, Vec<_>) = exposed.iter().partition(|path| path.is_dir());
        for (found, mode) in [(files, "600"), (folders, "700")] {
            if !found.is_empty() {
                let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
                let names = names.join(" ");
                self.warn(&format!("other users may read or write {names}: run chmod {mode} {names}"));
            }
        }
    }

    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Whether the output is JSON.
    pub(crate) fn wants_json(&self) -> bool {
        self.json || self.jsonl
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// How much of a payload a line shows.
    pub(crate) fn payload_length(&self) -> PayloadLength {
        if self.terminal { PayloadLength::Short } else { PayloadLength::Full }
    }

    /// Prints the result of a change to a run: a document, the id for `-q`, or a line.
    pub(crate) fn print_result(&self, run: &RunId, document: &impl Serialize, text: &str) -> Exit {
        if self.wants_json() {
            out::json(document);
        } else if self.quiet {
            out::line(run.as_str());
        } else {
            out::line(text);
        }
        Exit::Ok
    }

    pub(crate) fn table(&self, table: &TextTable) {
        for line in table.lines(self.colors, self.terminal) {
            out::line(line);
        }
    }

    /// Prints a line of text, wrapped to the width of a terminal.
    pub(crate) fn text(&self, hue: Option<Hue>, text: &str) {
        let lines = match self.terminal {
            true => hanging("", text, out::width()),
            false => vec![text.to_owned()],
        };
        for line in lines {
            out::line(hue.map_or_else(|| line.clone(), |hue| self.colors.apply(hue, &line)));
        }
    }

    /// Prints a warning to stderr, in every output mode.
    pub(crate) fn warn(&self, text: &str) {
        out::note(format!("{}: {text}", self.error_colors.apply(Hue::Warm, "warning")));
    }

    /// Prints a remark to stderr, on a terminal only.
    pub(crate) fn remark(&self, text: &str) {
        if self.terminal && !self.wants_json() && !self.quiet {
            for line in hanging("", text, out::width()) {
                out::note(self.error_colors.apply(Hue::Dim, line));
            }
        }
    }

    /// Prints an error and returns its exit code.
    pub(crate) fn print_error(&self, error: &CliError) -> ExitCode {
        if self.wants_json() {
            let docs = error.code.as_ref().map(|code| format!("goldseam explain {code}"));
            let document = json!({ "code": error.code, "message": error.message, "help": error.help, "docs": docs,
                "next": error.next, "exit": error.exit as u8 });
            out::note_json(&self.redaction.json(&json!({ "error": document }).to_string()));
            return error.exit.into();
        }
        let colors = self.error_colors;
        let head = error.code.as_ref().map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"));
        out::note(format!("{}: {}", colors.apply(Hue::Bad, head), self.redaction.text(&error.message)));
        if let Some(help) = &error.help {
            out::note(format!("{}: {}", colors.apply(Hue::Bold, "help"), self.redaction.text(help)));
        }
        if let Some(code) = &error.code {
            out::note(format!("{}: goldseam explain {code}", colors.apply(Hue::Bold, "docs")));
        }
        error.exit.into()
    }
}
