//! Tables: aligned on a terminal, otherwise tab-separated with complete cells.

use goldseam_api::view::text;

use crate::color::{Colors, Hue, cell, columns};
use crate::out;

/// Minimum width of the last column.
const LAST_MIN: usize = 8;

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct TextTable {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    wraps: bool,
}

impl TextTable {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new(), wraps: false }
    }

    /// Creates a table whose last column wraps instead of being cut.
    pub(crate) fn wrapping(head: &[&'static str]) -> Self {
        Self { wraps: true, ..Self::new(head) }
    }

    /// Adds a row, with control characters escaped so that every cell stays in its column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|text| cell(text)).collect());
    }

    /// Formats the lines. On a terminal, the last column is cut or wrapped to the width.
    pub(crate) fn lines(&self, colors: Colors, terminal: bool) -> Vec<String> {
        if !terminal {
            let head = self.head.join("\t");
            return std::iter::once(head).chain(self.rows.iter().map(|row| row.join("\t"))).collect();
        }
        let widths: Vec<usize> = (0..self.head.len()).map(|at| self.widest(at)).collect();
        let head: Vec<String> = self.head.iter().map(|cell| colors.apply(Hue::Dim, cell)).collect();
        let page = out::width();
        let rows = self.rows.iter().flat_map(|row| match self.wraps {
            true => folded(row, &widths, page),
            false => vec![row.clone()],
        });
        std::iter::once(head).chain(rows).map(|row| aligned(&row, &widths, page)).collect()
    }

    fn widest(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell));
        cells.max().unwrap_or(0).max(columns(self.head[at]))
    }
}

/// Splits a row so that its last cell fits the width.
fn folded(row: &[String], widths: &[usize], page: usize) -> Vec<Vec<String>> {
    let Some((last, first)) = row.split_last() else { return Vec::new() };
    let used: usize = widths.iter().take(first.len()).map(|width| width + 2).sum();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in wrapped(last, page.saturating_sub(used).max(LAST_MIN)) {
        let before = if rows.is_empty() { first.to_vec() } else { vec![String::new(); first.len()] };
        rows.push(before.into_iter().chain([line]).collect());
    }
    rows
}

/// Wraps `text` between words to at most `most` columns.
pub(crate) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| columns(line));
        match lines.last_mut() {
            Some(last) if line > 0 && line + 1 + columns(word) <= most => {
                last.push(' ');
                last.push_str(word);
            }
            Some(last) if line == 0 => last.push_str(word),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn aligned(row: &[String], widths: &[usize], page: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (at, cell) in row.iter().enumerate() {
        if at + 1 == row.len() {
            line.push_str(&cut(cell, page.saturating_sub(used).max(LAST_MIN)));
        } else {
            line.push_str(cell);
            line.push_str(&" ".repeat(widths[at].saturating_sub(columns(cell)) + 2));
            used += widths[at] + 2;
        }
    }
    line.trim_end().to_owned()
}

/// Shortens `text` to at most `most` columns. Coloured text is not shortened.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.contains('\x1b') { text.to_owned() } else { text::cut(text, most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_cells_are_complete_and_tab_separated() {
        let mut table = TextTable::new(&["RUN", "NOTE"]);
        table.row(vec!["r".into(), "x".repeat(300)]);
        assert_eq!(table.lines(Colors(false), false)[1].len(), 302);
    }

    #[test]
    fn a_long_last_cell_wraps() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("unbreakable", 4), ["unbreakable"]);
        assert_eq!(wrapped("", 4), [""]);
        let rows = folded(&["A2".into(), "one two three".into()], &[2, 13], 12);
        assert_eq!(rows, [["A2", "one two"], ["", "three"]]);
    }

    #[test]
    fn colours_have_no_width() {
        assert_eq!(columns(&Colors(true).apply(Hue::Bad, "✖ failed")), 8);
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
