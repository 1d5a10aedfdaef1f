//! Colour, for states only, and never the only sign of one.

use goldseam::Status;

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
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A status with its sign.
    pub(crate) fn status(self, status: Status) -> String {
        let (sign, hue) = sign(status);
        self.on(hue, format!("{sign} {status}"))
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
