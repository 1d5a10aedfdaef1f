//! Rows as bars, scaled to the run's duration.

use std::time::Duration;

use goldseam::Millis;
use goldseam_api::view::timeline::{Kind, Look, Row, Seam, State};

use crate::paint::{Hue, Paint};
use crate::table::cut;
use crate::when;

/// Widest label.
const LABEL_MAX: usize = 26;
/// Room right of the bars.
const RIGHT: usize = 22;
/// Shortest and longest bar.
const BAR: (usize, usize) = (12, 120);

/// From when to when a timeline goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    /// Its left edge.
    pub(crate) from: Millis,
    /// Its right edge.
    pub(crate) to: Millis,
}

impl Range {
    /// The column of a moment.
    fn column(self, at: Millis, width: usize) -> usize {
        let whole = self.to.since(self.from).as_millis().max(1);
        let part = at.since(self.from).as_millis().min(whole);
        usize::try_from(part * (width as u128 - 1) / whole).unwrap_or(0)
    }
}

/// The lines of a timeline, `width` columns wide.
pub(crate) fn draw(
    rows: &[Row],
    seams: &[Seam],
    range: Range,
    (paint, width): (Paint, usize),
) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let label = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0).min(LABEL_MAX);
    let bar = width.saturating_sub(label + RIGHT + 6).clamp(BAR.0, BAR.1);
    let mut lines: Vec<String> = rows.iter().map(|row| line(row, range, (paint, label, bar))).collect();
    let mut marks = vec![' '; bar];
    for seam in seams {
        marks[range.column(seam.at, bar)] = mark(seam);
    }
    if marks.iter().any(|mark| *mark != ' ') {
        let marks: String = marks.into_iter().collect();
        lines.push(format!("  {:<label$}  {}", "", paint.on(Hue::Warm, marks)).trim_end().to_owned());
    }
    let (left, right) = ("0", when::span(range.to.since(range.from)));
    let gap = bar.saturating_sub(left.len() + right.chars().count());
    let axis = format!("{left}{}{right}", " ".repeat(gap));
    lines.push(format!("  {:<label$}  {}", "", paint.on(Hue::Dim, axis)));
    lines
}

/// The sign of a seam.
pub(crate) fn mark(seam: &Seam) -> char {
    match seam.kind.as_str() {
        _ if seam.cut.is_some() => '┼',
        "recovered" | "taken over" => '↻',
        "paused" => '⏸',
        "resumed" => '▸',
        "parked" => '■',
        _ => '⊘',
    }
}

fn name(row: &Row) -> String {
    let depth = row.path.matches('/').count();
    let leaf = row.path.rsplit('/').next().unwrap_or(&row.path);
    match row.kind {
        Kind::Undo => row.path.clone(),
        _ => format!("{}{leaf}", "  ".repeat(depth)),
    }
}

fn line(row: &Row, range: Range, (paint, label, width): (Paint, usize, usize)) -> String {
    let (sign, hue) = match (row.state, row.kind) {
        (State::Done, Kind::Undo) => ("↩", Hue::Warm),
        (State::Done, _) => ("✔", Hue::Good),
        (State::Failed, _) => ("✖", Hue::Bad),
        (State::Open, Kind::Question | Kind::Wait | Kind::Remote) => ("●", Hue::Warm),
        (State::Open, Kind::Sleep) => ("◔", Hue::Calm),
        (State::Open, _) => ("▶", Hue::Calm),
    };
    let name = cut(&name(row), label);
    let right = right(row, range.to);
    format!("{} {name:<label$}  {}  {right}", paint.on(hue, sign), bar(row, range, (paint, width)))
        .trim_end()
        .to_owned()
}

fn bar(row: &Row, range: Range, (paint, width): (Paint, usize)) -> String {
    let mut cells: Vec<Option<Look>> = vec![None; width];
    for span in &row.spans {
        let from = range.column(span.from, width);
        let to = range.column(span.to.unwrap_or(range.to).min(range.to), width);
        // A failure is never hidden by what follows in the same column.
        for cell in &mut cells[from..=to.max(from)] {
            if *cell != Some(Look::Failure) {
                *cell = Some(span.look);
            }
        }
    }
    let mut text = String::new();
    for look in cells {
        text.push_str(&match look {
            None => " ".to_owned(),
            Some(Look::Work) => paint.on(Hue::Good, "█"),
            Some(Look::Failure) => paint.on(Hue::Bad, "╳"),
            Some(Look::Wait) => paint.on(Hue::Dim, "░"),
            Some(Look::Pause) => paint.on(Hue::Dim, "·"),
        });
    }
    text
}

fn right(row: &Row, now: Millis) -> String {
    let took: Duration = row.ended.unwrap_or(now).since(row.began);
    let so_far = if row.state == State::Open { " so far" } else { "" };
    let attempts = if row.attempts > 1 { format!("  {} attempts", row.attempts) } else { String::new() };
    let elsewhere = row.queue.as_ref().map_or_else(String::new, |queue| format!("  in {queue}"));
    format!("{}{so_far}{attempts}{elsewhere}", when::span(took))
}
