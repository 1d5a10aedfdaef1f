//! Draws rows as bars, scaled to the run's duration.

use std::time::Duration;

use goldseam::Millis;
use goldseam_api::view::timeline::{OperationDoc, OperationKind, OperationState, Seam, SpanStyle};

use crate::color::{Colors, Hue, columns, cut};
use crate::time;

/// Maximum width of a label.
const LABEL_MAX: usize = 26;
/// A narrower terminal has shorter labels.
const NARROW: usize = 70;
/// Maximum width of a label on a narrow terminal.
const LABEL_NARROW: usize = 14;
/// Width of the text right of the bars.
const RIGHT: usize = 22;
const BAR_MIN: usize = 12;
const BAR_MAX: usize = 120;

/// The time range of a timeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) from: Millis,
    pub(crate) to: Millis,
}

impl Range {
    fn column(self, at: Millis, width: usize) -> usize {
        let whole = self.to.since(self.from).as_millis().max(1);
        let part = at.since(self.from).as_millis().min(whole);
        usize::try_from(part * (width as u128 - 1) / whole).unwrap_or(0)
    }
}

/// Draws the lines of a timeline, `width` columns wide.
pub(crate) fn draw(
    rows: &[OperationDoc],
    seams: &[Seam],
    range: Range,
    colors: Colors,
    width: usize,
) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let label_max = if width < NARROW { LABEL_NARROW } else { LABEL_MAX };
    let label = rows.iter().map(|row| columns(&name(row))).max().unwrap_or(0).min(label_max);
    let bar = width.saturating_sub(label + RIGHT + 6).clamp(BAR_MIN, BAR_MAX);
    let line = |row| cut(&line(row, range, colors, label, bar), width);
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    let mut marks = vec![' '; bar];
    for seam in seams {
        marks[range.column(seam.at, bar)] = mark(seam);
    }
    if marks.iter().any(|mark| *mark != ' ') {
        let marks: String = marks.into_iter().collect();
        lines.push(format!("  {:<label$}  {}", "", colors.apply(Hue::Warm, marks)).trim_end().to_owned());
    }
    let start = "0";
    let end = time::span(range.to.since(range.from));
    let gap = bar.saturating_sub(start.len() + end.chars().count());
    let axis = format!("{start}{}{end}", " ".repeat(gap));
    lines.push(format!("  {:<label$}  {}", "", colors.apply(Hue::Dim, axis)));
    lines
}

/// The symbol of a seam.
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

fn name(row: &OperationDoc) -> String {
    let depth = row.path.matches('/').count();
    let leaf = row.path.rsplit('/').next().unwrap_or(&row.path);
    match row.kind {
        OperationKind::Undo => row.path.clone(),
        _ => format!("{}{leaf}", "  ".repeat(depth)),
    }
}

fn line(row: &OperationDoc, range: Range, colors: Colors, label: usize, width: usize) -> String {
    let (sign, hue) = match (row.state, row.kind) {
        (OperationState::Done, OperationKind::Undo) => ("↩", Hue::Warm),
        (OperationState::Done, _) => ("✔", Hue::Good),
        (OperationState::Failed, _) => ("✖", Hue::Bad),
        (OperationState::Open, OperationKind::Question | OperationKind::Wait | OperationKind::Remote) => {
            ("●", Hue::Warm)
        }
        (OperationState::Open, OperationKind::Sleep) => ("◔", Hue::Calm),
        (OperationState::Open, _) => ("▶", Hue::Calm),
    };
    let name = cut(&name(row), label);
    let pad = " ".repeat(label.saturating_sub(columns(&name)));
    let right = right(row, range.to);
    format!("{} {name}{pad}  {}  {right}", colors.apply(hue, sign), bar(row, range, colors, width))
        .trim_end()
        .to_owned()
}

fn bar(row: &OperationDoc, range: Range, colors: Colors, width: usize) -> String {
    let mut cells: Vec<Option<Cell>> = vec![None; width];
    for span in &row.spans {
        let from = range.column(span.from, width);
        let to = range.column(span.to.unwrap_or(range.to).min(range.to), width);
        // A failure stays visible even if more happens in the same column.
        for cell in &mut cells[from..=to.max(from)] {
            if *cell != Some(Cell::Span(SpanStyle::Failure)) {
                *cell = Some(if span.lost { Cell::Lost } else { Cell::Span(span.look) });
            }
        }
    }
    let mut text = String::new();
    for cell in cells {
        text.push_str(&match cell {
            None => " ".to_owned(),
            Some(Cell::Lost) => colors.apply(Hue::Dim, "▒"),
            Some(Cell::Span(SpanStyle::Work)) => colors.apply(Hue::Good, "█"),
            Some(Cell::Span(SpanStyle::Failure)) => colors.apply(Hue::Bad, "╳"),
            Some(Cell::Span(SpanStyle::Wait | SpanStyle::Queue)) => colors.apply(Hue::Dim, "░"),
            Some(Cell::Span(SpanStyle::Pause)) => colors.apply(Hue::Dim, "·"),
        });
    }
    text
}

/// What one column of a bar shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Span(SpanStyle),
    /// An attempt that was lost with its worker.
    Lost,
}

fn right(row: &OperationDoc, now: Millis) -> String {
    let took: Duration = row.ended.unwrap_or(now).since(row.began);
    let so_far = if row.state == OperationState::Open { " so far" } else { "" };
    let attempts = if row.attempts > 1 { format!("  {} attempts", row.attempts) } else { String::new() };
    let elsewhere = row.queue.as_ref().map_or_else(String::new, |queue| format!("  in {queue}"));
    format!("{}{so_far}{attempts}{elsewhere}", time::span(took))
}
