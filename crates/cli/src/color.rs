//! Colours for states. A colour is never the only sign of a state.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::LazyLock;

use goldseam::Status;
use goldseam::unstable::core::argument::escaped;
use unicode_width::UnicodeWidthChar as _;

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
    let parts: Vec<_> = text.split(ESCAPE.as_str()).map(|part| printable(part, keep)).collect();
    parts.join("\x1b")
}

/// Prepares `text` for a cell of a line: also escapes line breaks and tabs.
pub(crate) fn cell(text: &str) -> String {
    let parts: Vec<_> = text.split(ESCAPE.as_str()).map(|part| printable(part, |_| false)).collect();
    parts.join(ESCAPE.as_str())
}

/// Whether a character is an invisible direction mark. Names may contain one, but it would reorder the line.
pub(crate) fn is_mark(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
}

/// Escapes control characters and direction marks.
fn printable(text: &str, keep: impl Fn(char) -> bool) -> String {
    let text = escaped(text, keep);
    if !text.contains(is_mark) {
        return text.into_owned();
    }
    let shown = |c: char| if is_mark(c) { format!("\\u{{{:x}}}", u32::from(c)) } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// The width of `text` on screen in columns, without colours. Wide characters take two columns, combining ones none.
pub(crate) fn columns(text: &str) -> usize {
    visible(text).map(|(width, _)| width).sum()
}

/// The width of each character on screen; 0 for those of an escape sequence.
fn visible(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut escaped = false;
    text.chars().map(move |c| match c {
        '\x1b' => {
            escaped = true;
            (0, c)
        }
        _ if escaped => {
            escaped = c != 'm';
            (0, c)
        }
        _ => (c.width().unwrap_or(0), c),
    })
}

/// Shortens `text` to at most `most` columns and keeps its colours.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    let mut is_cut = false;
    let mut escape = false;
    for (width, c) in visible(text) {
        escape = c == '\x1b' || (escape && width == 0);
        match () {
            () if escape => {
                short.push(c);
                escape = c != 'm';
            }
            () if is_cut => {}
            () if used + width < most => {
                used += width;
                short.push(c);
            }
            () => {
                is_cut = true;
                if most > 0 {
                    short.push('…');
                }
            }
        }
    }
    short
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
        assert_eq!(cell("a\u{200f}b\u{61c}"), "a\\u{200f}b\\u{61c}");
    }

    #[test]
    fn widths_count_columns_and_a_cut_keeps_colours() {
        assert_eq!([columns("日本"), columns("e\u{301}"), columns("ab")], [4, 1, 2]);
        assert_eq!([cut("日本語", 5), cut("日本語", 4), cut("abc", 3)], ["日本…", "日…", "abc"]);
        let painted = Colors(true).apply(Hue::Bad, "✖ failed");
        assert_eq!(shown(&cut(&painted, 5)), "\x1b[31m✖ fa…\x1b[0m");
        assert_eq!(columns(&cut(&painted, 5)), 5);
    }
}
