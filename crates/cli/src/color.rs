//! Colours for states. A colour is never the only sign of a state.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use goldseam::Status;
use goldseam::unstable::core::argument::escaped;

/// The random prefix of this process's escape sequences. Data cannot contain it, so only these sequences reach a
/// terminal.
static ESCAPE: LazyLock<String> =
    LazyLock::new(|| format!("\x1b{:016x}", RandomState::new().build_hasher().finish()));

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colors(pub(crate) bool);

/// The meaning of a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hue {
    Good,
    Bad,
    /// In progress.
    Calm,
    /// Needs attention.
    Warm,
    Dim,
    Bold,
}

impl Colors {
    /// Colours `text`.
    pub(crate) fn apply(self, hue: Hue, text: impl AsRef<str>) -> String {
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

    /// A status with its symbol.
    pub(crate) fn status(self, status: Status) -> String {
        let (sign, hue) = sign(status);
        self.apply(hue, format!("{sign} {status}"))
    }

    /// A status without its symbol.
    pub(crate) fn word(self, status: Status) -> String {
        self.apply(sign(status).1, status.as_str())
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

/// Prepares `text` for a terminal: keeps its colours, line breaks and tabs, and escapes other control characters.
pub(crate) fn shown(text: &str) -> String {
    let keep = |c| matches!(c, '\n' | '\t');
    let parts: Vec<_> = text.split(ESCAPE.as_str()).map(|part| escaped(part, keep)).collect();
    parts.join("\x1b")
}

/// Prepares `text` for a cell of a line: also escapes line breaks and tabs.
pub(crate) fn cell(text: &str) -> String {
    let parts: Vec<_> = text.split(ESCAPE.as_str()).map(|part| escaped(part, |_| false)).collect();
    parts.join(ESCAPE.as_str())
}

/// The width of `text` on screen, without colours.
pub(crate) fn columns(text: &str) -> usize {
    let mut count = 0;
    let mut escaped = false;
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
    fn escape_sequences_in_data_do_not_reach_the_terminal() {
        let painted = Colors(true).apply(Hue::Bad, "a\x1b[32mb\x1b[0m\r\u{9b}2J\u{202e}");
        assert_eq!(shown(&painted), "\x1b[31ma\\u{1b}[32mb\\u{1b}[0m\\u{d}\\u{9b}2J\\u{202e}\x1b[0m");
        assert_eq!(shown("a\tb\n"), "a\tb\n");
        assert_eq!(cell("a\tb\n"), "a\\u{9}b\\u{a}");
        assert_eq!(shown(&cell(&painted)), shown(&painted));
    }
}
