//! The one home of printing: data to stdout, everything else to stderr.
//!
//! Text leaves without control characters of the data that it shows; documents are JSON and stay so.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use goldseam::core::argument::is_control;
use serde::Serialize;
use serde_json::json;

use crate::args;
use crate::fail::Exit;
use crate::paint::shown;

/// Width of a page when nobody says.
const WIDTH_DEFAULT: usize = 100;

/// Writes one line of data.
pub(crate) fn line(text: impl AsRef<str>) {
    write(&format!("{}\n", shown(text.as_ref())));
}

/// Writes several lines of data.
pub(crate) fn page(text: &str) {
    write(&shown(text));
}

/// Writes data as it is.
pub(crate) fn raw(text: &str) {
    write(text);
}

/// A reader that went away ends the program quietly; data that cannot be written is an error.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) else { return };
    drop(out);
    std::process::exit(i32::from(lost(&error) as u8));
}

/// How the program ends if its output was not written; says so, unless the reader went away.
pub(crate) fn lost(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Exit::Ok;
    }
    let (message, help) = (format!("cannot write the output: {error}"), "what was written is not complete");
    if args::wants_json() {
        let error = json!({ "code": null, "message": message, "help": help, "exit": Exit::Error as u8 });
        note_json(&json!({ "error": error }).to_string());
    } else {
        note(format!("error: {message}\nhelp: {help}"));
    }
    Exit::Error
}

/// Writes one line for people to stderr.
pub(crate) fn note(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr().lock(), "{}", shown(text.as_ref()));
}

/// Writes one document to stderr.
pub(crate) fn note_json(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", escaped_json(text));
}

/// Writes a document: indented for a person, in one line for a program.
pub(crate) fn json(value: &impl Serialize) {
    let text = match io::stdout().is_terminal() {
        true => serde_json::to_string_pretty(value),
        false => serde_json::to_string(value),
    };
    document(&text.unwrap_or_default());
}

/// Writes one document of a stream.
pub(crate) fn jsonl(value: &impl Serialize) {
    document(&serde_json::to_string(value).unwrap_or_default());
}

fn document(text: &str) {
    write(&format!("{}\n", escaped_json(text)));
}

/// The same document with escapes for what a terminal would act on: within JSON, such characters stand in strings only.
fn escaped_json(text: &str) -> Cow<'_, str> {
    let acts = |c: char| is_control(c) && !c.is_ascii_whitespace();
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

/// The alternate screen of a terminal, for what is redrawn. What stood on the screen is back once this is dropped.
#[derive(Debug)]
pub(crate) struct Screen;

impl Screen {
    /// Takes the screen.
    pub(crate) fn enter() -> Self {
        raw("\x1b[?1049h");
        Self
    }

    /// Empties the screen before something is redrawn.
    pub(crate) fn clear(&self) {
        raw("\x1b[H\x1b[2J");
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        raw("\x1b[?1049l");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_stays_the_same_without_characters_that_a_terminal_acts_on() {
        let value = json!({ "tag": "a\u{1b}[2J\u{9b}\u{7f}\u{202e}\n" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = escaped_json(&text);
        assert!(!escaped.chars().any(|c| is_control(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
