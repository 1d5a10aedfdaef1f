//! The one home of printing: data to stdout, everything else to stderr.

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

/// Width of a page when nobody says.
const WIDTH_DEFAULT: usize = 100;

/// Writes one line of data. A reader that went away ends the program quietly.
pub(crate) fn line(text: impl AsRef<str>) {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{}", text.as_ref()).and_then(|()| out.flush());
    if written.is_err() {
        std::process::exit(0);
    }
}

/// Writes data as it is.
pub(crate) fn raw(text: &str) {
    let mut out = io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes one line for people to stderr.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
}

/// Writes a document: indented for a person, in one line for a program.
pub(crate) fn json(value: &impl Serialize) {
    let text = match io::stdout().is_terminal() {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    line(text.unwrap_or_default());
}

/// Writes one document of a stream.
pub(crate) fn jsonl(value: &impl Serialize) {
    line(serde_json::to_string(value).unwrap_or_default());
}

/// Empties the screen before a list is drawn anew.
pub(crate) fn clear() {
    raw("\x1b[H\x1b[2J\x1b[3J");
}

/// Whether a person looks at the data.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Columns of the terminal.
pub(crate) fn width() -> usize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => WIDTH_DEFAULT,
    }
}
