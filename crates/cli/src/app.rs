//! What every command gets: where to look, and how to show what it found.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use goldseam::engine::{Clock, SystemClock};
use goldseam::{Client, Millis, RunId};
use serde::Serialize;
use serde_json::json;

use crate::args::{Color, Global, STORE_DEFAULT};
use crate::describe::Much;
use crate::fail::{Exit, Fail};
use crate::out;
use crate::paint::{Hue, Paint};
use crate::table::Table;

/// The options that hold for every command, understood.
#[derive(Debug, Clone)]
pub(crate) struct App {
    /// The store.
    pub(crate) url: String,
    /// The store was named on the command line, not by default or by the environment.
    pub(crate) names_store: bool,
    /// One document instead of text.
    pub(crate) json: bool,
    /// One document per line instead of text.
    pub(crate) jsonl: bool,
    /// Ids only.
    pub(crate) quiet: bool,
    /// A person reads stdout.
    pub(crate) terminal: bool,
    /// Colours of stdout.
    pub(crate) paint: Paint,
    error_paint: Paint,
    clock: Arc<dyn Clock>,
}

impl App {
    /// Understands what was typed.
    pub(crate) fn new(global: &Global, names_store: bool) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let colours = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain,
        };
        Self {
            // An empty variable is no choice.
            url: if global.store.is_empty() { STORE_DEFAULT.to_owned() } else { global.store.clone() },
            names_store,
            json: global.json,
            jsonl: global.jsonl,
            quiet: global.quiet,
            terminal: out::is_terminal(),
            paint: Paint(colours(out::is_terminal())),
            error_paint: Paint(colours(std::io::stderr().is_terminal())),
            clock: Arc::new(SystemClock),
        }
    }

    /// A client of a store that must be there: looking never creates a file.
    pub(crate) async fn client(&self) -> Result<Client, Fail> {
        Ok(goldseam::connect_existing(&self.url).await?)
    }

    /// A client of a store that is made if it is not there.
    pub(crate) async fn client_or_new(&self) -> Result<Client, Fail> {
        Ok(goldseam::connect(&self.url).await?)
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

    /// A remark for a person; a program does not get it.
    pub(crate) fn remark(&self, text: &str) {
        if self.terminal && !self.wants_json() && !self.quiet {
            out::note(self.error_paint.on(Hue::Dim, text));
        }
    }

    /// Shows an error.
    pub(crate) fn fail(&self, fail: &Fail) -> ExitCode {
        if self.wants_json() {
            let docs = fail.code.map(|code| format!("goldseam explain {code}"));
            let error = json!({ "code": fail.code, "message": fail.message, "help": fail.help, "docs": docs,
                "exit": fail.exit as u8 });
            out::note(json!({ "error": error }).to_string());
            return fail.exit.into();
        }
        let paint = self.error_paint;
        let head = fail.code.map_or_else(|| "error".to_owned(), |code| format!("error[{code}]"));
        out::note(format!("{}: {}", paint.on(Hue::Bad, head), fail.message));
        if let Some(help) = &fail.help {
            out::note(format!("{}: {help}", paint.on(Hue::Bold, "help")));
        }
        if let Some(code) = fail.code {
            out::note(format!("{}: goldseam explain {code}", paint.on(Hue::Bold, "docs")));
        }
        fail.exit.into()
    }
}
