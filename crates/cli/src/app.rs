//! What every command gets: where to look, and how to show what it found.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use goldseam::engine::{Clock, SystemClock};
use goldseam::{Millis, RunId};
use goldseam_api::view::describe::Much;
use goldseam_api::{Api, Local, Remote};
use serde::Serialize;
use serde_json::json;

use crate::args::{Color, Global, Named, STORE_DEFAULT};
use crate::fail::{Exit, Fail};
use crate::hidden::Hidden;
use crate::paint::{Hue, Paint};
use crate::table::Table;
use crate::{out, payload, reach};

/// The options that hold for every command, understood.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The store.
    pub(crate) url: String,
    /// The store was named on the command line, not by default or by the environment.
    pub(crate) names_store: bool,
    server: Option<String>,
    key_file: Option<PathBuf>,
    /// One document instead of text.
    pub(crate) json: bool,
    /// One document per line instead of text.
    pub(crate) jsonl: bool,
    /// Ids only.
    pub(crate) quiet: bool,
    /// A person reads stdout.
    pub(crate) terminal: bool,
    /// It is a terminal on which something can be redrawn.
    pub(crate) screen: bool,
    /// Colours of stdout.
    pub(crate) paint: Paint,
    error_paint: Paint,
    clock: Arc<dyn Clock>,
    /// What is kept out of everything that is said on stderr.
    pub(crate) hidden: Hidden,
}

impl App {
    /// Understands what was typed.
    pub(crate) fn new(global: &Global, named: Named) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let colours = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain && !dumb,
        };
        Self {
            // An empty variable is no choice.
            url: if global.store.is_empty() { STORE_DEFAULT.to_owned() } else { global.store.clone() },
            names_store: named.store,
            // A store that is typed counts more than a server of the environment.
            server: global.server.clone().filter(|server| !server.is_empty() && !named.store),
            key_file: global.key_file.clone(),
            json: global.json,
            jsonl: global.jsonl,
            quiet: global.quiet,
            terminal: out::is_terminal(),
            screen: out::is_terminal() && !dumb,
            paint: Paint(colours(out::is_terminal())),
            error_paint: Paint(colours(std::io::stderr().is_terminal())),
            clock: Arc::new(SystemClock),
            hidden: Hidden::of(&[&global.store, global.server.as_deref().unwrap_or_default()]),
        }
    }

    /// The store, which must be there: looking never creates a file; or the server.
    pub(crate) async fn api(&self) -> Result<Arc<dyn Api>, Fail> {
        match self.remote()? {
            Some(remote) => Ok(remote),
            None => Ok(Arc::new(Local::new(
                goldseam::connect_existing(&self.url).await?.with_limits(payload::limits()?),
            ))),
        }
    }

    /// The store, which is made if it is not there; or the server.
    pub(crate) async fn api_or_new(&self) -> Result<Arc<dyn Api>, Fail> {
        match self.remote()? {
            Some(remote) => Ok(remote),
            None => {
                Ok(Arc::new(Local::new(goldseam::connect(&self.url).await?.with_limits(payload::limits()?))))
            }
        }
    }

    /// The server, if one is named.
    pub(crate) fn remote(&self) -> Result<Option<Arc<Remote>>, Fail> {
        let Some(server) = &self.server else { return Ok(None) };
        Ok(Some(Arc::new(reach::server(server, self.key_file.as_deref(), &self.hidden)?)))
    }

    /// Refuses what only makes sense beside the files of a store.
    pub(crate) fn needs_store(&self, command: &str) -> Result<(), Fail> {
        match &self.server {
            None => Ok(()),
            Some(_) => Err(Fail::usage(
                format!("{command} needs the store itself and cannot be done through a server"),
                "name the store with --store, where it can be reached",
            )),
        }
    }

    /// Warns about files of the store that other users may read or write.
    pub(crate) fn warn_exposed(&self) {
        if self.server.is_none() {
            self.warn_exposed_files(&self.url);
        }
    }

    /// The same for the store that this URL names.
    pub(crate) fn warn_exposed_files(&self, url: &str) {
        let exposed = goldseam::exposed_files(url);
        let (folders, files): (Vec<_>, Vec<_>) = exposed.iter().partition(|path| path.is_dir());
        for (found, mode) in [(files, "600"), (folders, "700")] {
            if !found.is_empty() {
                let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
                let names = names.join(" ");
                self.warn(&format!("other users may read or write {names}: run chmod {mode} {names}"));
            }
        }
    }

    /// Now.
    pub(crate) fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Whether the output is for a program.
    pub(crate) fn wants_json(&self) -> bool {
        self.json || self.jsonl
    }

    /// Whether only ids are wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// How much of a payload to show within a sentence.
    pub(crate) fn much(&self) -> Much {
        if self.terminal { Much::Some } else { Much::All }
    }

    /// Shows what a command did to a run: its id for `-q`, a document, or a line.
    pub(crate) fn did(&self, run: &RunId, document: &impl Serialize, words: &str) -> Exit {
        if self.wants_json() {
            out::json(document);
        } else if self.quiet {
            out::line(run.as_str());
        } else {
            out::line(words);
        }
        Exit::Ok
    }

    /// Shows a table.
    pub(crate) fn table(&self, table: &Table) {
        for line in table.lines(self.paint, self.terminal) {
            out::line(line);
        }
    }

    /// Something that a caller should know, whatever it reads: it goes to the other output.
    pub(crate) fn warn(&self, text: &str) {
        out::note(format!("{}: {text}", self.error_paint.on(Hue::Warm, "warning")));
    }

    /// A remark for a person; a program does not get it.
    pub(crate) fn remark(&self, text: &str) {
        if self.terminal && !self.wants_json() && !self.quiet {
            out::note(self.error_paint.on(Hue::Dim, text));
        }
    }

    /// Shows an error.
    pub(crate) fn fail(&self, fail: &Fail) -> ExitCode {
        if self.wants_json() {
            let docs = fail.code.as_ref().map(|code| format!("goldseam explain {code}"));
            let error = json!({ "code": fail.code, "message": fail.message, "help": fail.help, "docs": docs,
                "exit": fail.exit as u8 });
            out::note_json(&self.hidden.json(&json!({ "error": error }).to_string()));
            return fail.exit.into();
        }
        let paint = self.error_paint;
        let head = fail.code.as_ref().map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"));
        out::note(format!("{}: {}", paint.on(Hue::Bad, head), self.hidden.text(&fail.message)));
        if let Some(help) = &fail.help {
            out::note(format!("{}: {}", paint.on(Hue::Bold, "help"), self.hidden.text(help)));
        }
        if let Some(code) = &fail.code {
            out::note(format!("{}: goldseam explain {code}", paint.on(Hue::Bold, "docs")));
        }
        fail.exit.into()
    }
}
