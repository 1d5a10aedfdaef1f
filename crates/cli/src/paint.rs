//! Colour, for states only, and never the only sign of one.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use goldseam::Status;
use goldseam::core::argument::escaped;

/// Begins the escape sequences of this process. Data cannot know it, so only these reach a terminal.
static ESCAPE: LazyLock<String> =
    LazyLock::new(|| format!("\x1b{:016x}", RandomState::new().build_hasher().finish()));

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(pub(crate) bool);

/// What a colour stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hue {
    /// Went well.
    Good,
    /// Went badly.
    Bad,
    /// Waits.
    Calm,
    /// Wants attention.
    Warm,
    /// Less important.
    Dim,
    /// More important.
    Bold,
}

impl Paint {
    /// `text` in this colour.
    pub(crate) fn on(self, hue: Hue, text: impl AsRef<str>) -> String {
        let text = text.as_ref();
        let code = match hue {
            Hue::Good => "32",
            Hue::Bad => "31",
            Hue::Calm => "36",
            Hue::Warm => "33",
            Hue::Dim => "2",
            Hue::Bold => "1",
        };
        match self.0 && !text.is_empty() {
            true => format!("{0}[{code}m{text}{0}[0m", *ESCAPE),
            false => text.to_owned(),
        }
    }

    /// A status with its sign.
    pub(crate) fn status(self, status: Status) -> String {
        let (sign, hue) = sign(status);
        self.on(hue, format!("{sign} {status}"))
    }

    /// A status without its sign, for a program.
    pub(crate) fn word(self, status: Status) -> String {
        self.on(sign(status).1, status.as_str())
    }
}

fn sign(status: Status) -> (&'static str, Hue) {
    match status {
        Status::Queued => ("○", Hue::Dim),
        Status::Running => ("▶", Hue::Calm),
        Status::Waiting => ("●", Hue::Warm),
        Status::Sleeping => ("◔", Hue::Calm),
        Status::Paused => ("⏸", Hue::Warm),
        Status::Compensating => ("↩", Hue::Warm),
        Status::Parked => ("■", Hue::Bad),
        Status::Completed => ("✔", Hue::Good),
        Status::Failed => ("✖", Hue::Bad),
        Status::Cancelled => ("⊘", Hue::Dim),
    }
}

/// `text` for a terminal: its colours, and every other control character escaped, as in `\u{1b}`, but line breaks and tabs.
pub(crate) fn shown(text: &str) -> String {
    let keep = |c| matches!(c, '\n' | '\t');
    let parts: Vec<_> = text.split(ESCAPE.as_str()).map(|part| escaped(part, keep)).collect();
    parts.join("\x1b")
}

/// `text` for a place within a line: line breaks and tabs are escaped, too.
pub(crate) fn cell(text: &str) -> String {
    let parts: Vec<_> = text.split(ESCAPE.as_str()).map(|part| escaped(part, |_| false)).collect();
    parts.join(ESCAPE.as_str())
}

/// Columns that `text` takes on screen; colour takes none.
pub(crate) fn columns(text: &str) -> usize {
    let (mut count, mut escaped) = (0, false);
    for c in text.chars() {
        match c {
            '\x1b' => escaped = true,
            'm' if escaped => escaped = false,
            _ if escaped => {}
            _ => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_of_this_process_reach_a_terminal() {
        let painted = Paint(true).on(Hue::Bad, "a\x1b[32mb\x1b[0m\r\u{9b}2J\u{202e}");
        assert_eq!(shown(&painted), "\x1b[31ma\\u{1b}[32mb\\u{1b}[0m\\u{d}\\u{9b}2J\\u{202e}\x1b[0m");
        assert_eq!(shown("a\tb\n"), "a\tb\n");
        assert_eq!(cell("a\tb\n"), "a\\u{9}b\\u{a}");
        assert_eq!(shown(&cell(&painted)), shown(&painted));
    }
}
