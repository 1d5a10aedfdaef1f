//! The only module that prints: data to stdout, everything else to stderr.
//!
//! Text is printed without control characters from data; JSON is printed with such characters escaped.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use goldseam::unstable::core::argument::is_control;
use serde::Serialize;
use serde_json::json;

use crate::color::{is_mark, shown};
use crate::error::Exit;
use crate::options;

/// Width of the output if the terminal does not report one.
const WIDTH_DEFAULT: usize = 100;

/// Writes one line to stdout.
pub(crate) fn line(text: impl AsRef<str>) {
    write(&format!("{}\n", shown(text.as_ref())));
}

/// Writes several lines to stdout.
pub(crate) fn page(text: &str) {
    write(&shown(text));
}

/// Writes text to stdout unchanged.
pub(crate) fn raw(text: &str) {
    write(text);
}

/// Ends the program silently if the reader closed the pipe, and with an error if the write fails otherwise.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
    drop(out);
    std::process::exit(i32::from(write_failed(&error) as u8));
}

/// The exit code after a failed write; prints the error unless the reader closed the pipe.
pub(crate) fn write_failed(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::Ok;
    }
    let message = format!("cannot write the output: {error}");
    let help = "the output is incomplete";
    if options::wants_json() {
        let error = json!({ "code": null, "message": message, "help": help, "exit": Exit::Error as u8 });
        note_json(&json!({ "error": error }).to_string());
    } else {
        note(format!("error: {message}\nhelp: {help}"));
    }
    Exit::Error
}

/// Writes one line to stderr.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text.as_ref()));
}

/// Writes one JSON document to stderr.
pub(crate) fn note_json(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", escaped_json(text));
}

/// Writes a JSON document: indented on a terminal, otherwise on one line.
pub(crate) fn json(value: &impl Serialize) {
    let text = match io::stdout().is_terminal() {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    document(&text.unwrap_or_default());
}

/// Writes a JSON document on one line.
pub(crate) fn jsonl(value: &impl Serialize) {
    document(&serde_json::to_string(value).unwrap_or_default());
}

fn document(text: &str) {
    write(&format!("{}\n", escaped_json(text)));
}

/// Escapes the control characters of a JSON document; within JSON, they occur only in strings.
fn escaped_json(text: &str) -> Cow<'_, str> {
    let acts = |c: char| (is_control(c) || is_mark(c)) && !c.is_ascii_whitespace();
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match acts(c) {
            true => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            false => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// The alternate screen of a terminal. Dropping it restores the previous screen.
#[derive(Debug)]
pub(crate) struct Screen;

impl Screen {
    pub(crate) fn enter() -> Self {
        raw("\x1b[?1049h");
        Self
    }

    pub(crate) fn clear(&self) {
        raw("\x1b[H\x1b[2J");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        raw("\x1b[?1049l");
    }
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The width of the terminal in columns.
pub(crate) fn width() -> usize {
    match rustix::termios::tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => WIDTH_DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_control_characters_keeps_the_document() {
        let value = json!({ "tag": "a\u{1b}[2J\u{9b}\u{7f}\u{202e}\n" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escaped_json(&text);
        assert!(!escaped.chars().any(|c| is_control(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
