//! Questions before a command that cannot be undone.

use std::io::{BufRead as _, IsTerminal as _};

use crate::app::App;
use crate::error::{CliError, Exit};
use crate::out;

/// Asks on the terminal whether to continue. Without a terminal, and for JSON, fails with GS0230 and `help`.
pub(crate) fn ask(app: &App, what: &str, help: &str) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() || app.wants_json() {
        return Err(CliError {
            code: Some("GS0230".to_owned()),
            message: format!("{what}; nothing was changed"),
            help: Some(help.to_owned()),
            next: Vec::new(),
            exit: Exit::Usage,
        });
    }
    out::note(format!("{what}. Continue? [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}
