//! Tables: aligned on a terminal, otherwise tab-separated with complete cells.
//!
//! A terminal line is never wider than the terminal. If the columns do not fit, the table first cuts very long cells,
//! then drops the columns that it may drop, in the stated order, and then cuts the widest columns further.

use crate::color::{Colors, Hue, cell, columns, cut};
use crate::out;

/// Minimum width of the last column.
const LAST_MIN: usize = 12;
/// Minimum width of a last column that wraps.
const LAST_WRAPPED_MIN: usize = 24;
/// Width to which a long column is cut before columns are dropped.
const LONG: usize = 32;
/// Minimum width of a column that is cut.
const CUT_MIN: usize = 6;
/// Space between two columns.
const GAP: usize = 2;

/// Rows under a header.
#[derive(Debug)]
pub(crate) struct TextTable {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
    wraps: bool,
    optional: &'static [&'static str],
}

impl TextTable {
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new(), wraps: false, optional: &[] }
    }

    /// Creates a table whose last column wraps instead of being cut.
    pub(crate) fn wrapping(head: &[&'static str]) -> Self {
        Self { wraps: true, ..Self::new(head) }
    }

    /// Sets the columns that a narrow terminal does not show, the first to be dropped first.
    pub(crate) fn dropping(self, optional: &'static [&'static str]) -> Self {
        Self { optional, ..self }
    }

    /// Adds a row, with control characters escaped so that every cell stays in its column.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|text| cell(text)).collect());
    }

    /// Formats the lines. On a terminal, they fit its width.
    pub(crate) fn lines(&self, colors: Colors, terminal: bool) -> Vec<String> {
        match terminal {
            true => self.fitted(colors, out::width()),
            false => {
                let head = self.head.join("\t");
                std::iter::once(head).chain(self.rows.iter().map(|row| row.join("\t"))).collect()
            }
        }
    }

    /// Formats the lines for a terminal with `page` columns.
    fn fitted(&self, colors: Colors, page: usize) -> Vec<String> {
        let layout = self.layout(page);
        let head: Vec<String> = layout.iter().map(|(at, _)| colors.apply(Hue::Dim, self.head[*at])).collect();
        let widths: Vec<usize> = layout.iter().map(|(_, width)| *width).collect();
        let wraps = self.wraps && layout.last().is_some_and(|(at, _)| at + 1 == self.head.len());
        let rows = self.rows.iter().flat_map(|row| {
            let row: Vec<String> =
                layout.iter().map(|(at, _)| row.get(*at).cloned().unwrap_or_default()).collect();
            if wraps { folded(&row, &widths) } else { vec![row] }
        });
        std::iter::once(head).chain(rows).map(|row| aligned(&row, &widths)).collect()
    }

    /// Chooses the columns and their widths for a terminal with `page` columns.
    fn layout(&self, page: usize) -> Vec<(usize, usize)> {
        let mut shown: Vec<(usize, usize)> = (0..self.head.len()).map(|at| (at, self.widest(at))).collect();
        if self.needed(&shown) > page {
            let long = LONG.max(page / 4);
            let first = shown.len().saturating_sub(1);
            shown.iter_mut().take(first).for_each(|(_, width)| *width = (*width).min(long));
        }
        for name in self.optional {
            if self.needed(&shown) <= page {
                break;
            }
            shown.retain(|(at, _)| self.head[*at] != *name);
        }
        while self.needed(&shown) > page {
            let Some((_, widest)) = shown.iter_mut().max_by_key(|(_, width)| *width) else { break };
            if *widest <= CUT_MIN {
                break;
            }
            *widest -= 1;
        }
        let Some(last) = shown.len().checked_sub(1) else { return shown };
        let used: usize = shown[..last].iter().map(|(_, width)| width + GAP).sum();
        shown[last].1 = shown[last].1.min(page.saturating_sub(used).max(CUT_MIN));
        shown
    }

    /// The width of the columns, of which the last may be cut or wrapped.
    fn needed(&self, shown: &[(usize, usize)]) -> usize {
        let Some(((at, last), first)) = shown.split_last() else { return 0 };
        let is_text = at + 1 == self.head.len();
        let last = match (is_text, self.wraps) {
            (false, _) => *last,
            (true, true) => (*last).min(LAST_WRAPPED_MIN),
            (true, false) => (*last).min(LAST_MIN),
        };
        first.iter().map(|(_, width)| width + GAP).sum::<usize>() + last
    }

    fn widest(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell));
        cells.max().unwrap_or(0).max(columns(self.head[at]))
    }
}

/// Splits a row so that its last cell fits its width.
fn folded(row: &[String], widths: &[usize]) -> Vec<Vec<String>> {
    let (Some((last, first)), Some(width)) = (row.split_last(), widths.last()) else { return Vec::new() };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in wrapped(last, *width) {
        let before = if rows.is_empty() { first.to_vec() } else { vec![String::new(); first.len()] };
        rows.push(before.into_iter().chain([line]).collect());
    }
    rows
}

/// Wraps `text` between words to at most `most` columns. A longer word is split.
pub(crate) fn wrapped(text: &str, most: usize) -> Vec<String> {
    let most = most.max(1);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        for (at, part) in parts(word, most).into_iter().enumerate() {
            let line = lines.last().map_or(0, |line| columns(line));
            match lines.last_mut() {
                Some(last) if at == 0 && line > 0 && line + 1 + columns(&part) <= most => {
                    last.push(' ');
                    last.push_str(&part);
                }
                Some(last) if line == 0 => last.push_str(&part),
                _ => lines.push(part),
            }
        }
    }
    lines
}

/// Wraps `text` behind `before` to at most `most` columns; later lines are indented by the width of `before`.
pub(crate) fn hanging(before: &str, text: &str, most: usize) -> Vec<String> {
    let indent = columns(before);
    if indent + columns(text) <= most {
        return vec![format!("{before}{text}")];
    }
    let parts = wrapped(text, most.saturating_sub(indent).max(LAST_MIN));
    let line = |(at, part): (usize, &String)| match at {
        0 => format!("{before}{part}"),
        _ => format!("{}{part}", " ".repeat(indent)),
    };
    parts.iter().enumerate().map(line).collect()
}

/// Splits a word into parts of at most `most` columns.
fn parts(word: &str, most: usize) -> Vec<String> {
    if columns(word) <= most || word.contains('\x1b') {
        return vec![word.to_owned()];
    }
    let mut parts = vec![String::new()];
    for c in word.chars() {
        let width = columns(&c.to_string());
        match parts.last_mut() {
            Some(last) if last.is_empty() || columns(last) + width <= most => last.push(c),
            _ => parts.push(c.to_string()),
        }
    }
    parts
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        let cell = cut(cell, *width);
        line.push_str(&cell);
        line.push_str(&" ".repeat(width.saturating_sub(columns(&cell)) + GAP));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[&str] = &["RUN", "WORKFLOW", "STATUS", "NOTE"];

    #[test]
    fn without_a_terminal_cells_are_complete_and_tab_separated() {
        let mut table = TextTable::new(&["RUN", "NOTE"]).dropping(&["NOTE"]);
        table.row(vec!["r".into(), "x".repeat(300)]);
        assert_eq!(table.lines(Colors(false), false)[1].len(), 302);
    }

    #[test]
    fn a_long_last_cell_wraps() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a unbreakable", 6), ["a", "unbrea", "kable"]);
        assert_eq!(wrapped("", 4), [""]);
        let rows = folded(&["A2".into(), "one two three".into()], &[2, 8]);
        assert_eq!(rows, [["A2", "one two"], ["", "three"]]);
    }

    #[test]
    fn wrapped_lines_hang_below_the_first() {
        assert_eq!(hanging("  input ", "one two three four", 22), ["  input one two three", "        four"]);
        assert_eq!(hanging("  input ", "one", 22), ["  input one"]);
    }

    #[test]
    fn a_narrow_terminal_drops_columns_in_the_stated_order() {
        let mut table = TextTable::new(HEAD).dropping(&["WORKFLOW", "NOTE"]);
        table.row(vec!["ord-1".into(), "order".into(), "✖ failed".into(), "no truck for order 17".into()]);
        let head = |page: usize| {
            let lines = table.fitted(Colors(false), page);
            lines[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(head(80), HEAD);
        assert_eq!(head(35), ["RUN", "STATUS", "NOTE"]);
        assert_eq!(head(20), ["RUN", "STATUS"]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let long = "x".repeat(200);
        for texts in
            [["ord-1", "order", "✖ failed", "日本語の長い説明です日本語の長い説明です"], [long.as_str(); 4]]
        {
            for wraps in [false, true] {
                let mut table = TextTable { wraps, ..TextTable::new(HEAD) }.dropping(&["WORKFLOW"]);
                table.row(texts.map(|text| Colors(true).apply(Hue::Bad, text)).to_vec());
                table.row(texts.map(str::to_owned).to_vec());
                for page in 24..130 {
                    for line in table.fitted(Colors(true), page) {
                        assert!(columns(&line) <= page, "{page}: {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn colours_have_no_width() {
        assert_eq!(columns(&Colors(true).apply(Hue::Bad, "✖ failed")), 8);
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
