//! Tables: aligned for a person, tab-separated and whole for a program.

use crate::out;
use crate::paint::{Hue, Paint, columns};

/// Rows under a head.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub(crate) fn new(head: &[&'static str]) -> Self {
        Self { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Its lines. The last column is cut to the page when a person reads it.
    pub(crate) fn lines(&self, paint: Paint, terminal: bool) -> Vec<String> {
        if !terminal {
            let head = self.head.join("\t");
            return std::iter::once(head).chain(self.rows.iter().map(|row| row.join("\t"))).collect();
        }
        let widths: Vec<usize> = (0..self.head.len()).map(|at| self.widest(at)).collect();
        let head: Vec<String> = self.head.iter().map(|cell| paint.on(Hue::Dim, cell)).collect();
        let page = out::width();
        std::iter::once(&head).chain(&self.rows).map(|row| aligned(row, &widths, page)).collect()
    }

    fn widest(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell));
        cells.max().unwrap_or(0).max(columns(self.head[at]))
    }
}

fn aligned(row: &[String], widths: &[usize], page: usize) -> String {
    let mut line = String::new();
    let mut used = 0;
    for (at, cell) in row.iter().enumerate() {
        if at + 1 == row.len() {
            line.push_str(&cut(cell, page.saturating_sub(used).max(8)));
        } else {
            line.push_str(cell);
            line.push_str(&" ".repeat(widths[at].saturating_sub(columns(cell)) + 2));
            used += widths[at] + 2;
        }
    }
    line.trim_end().to_owned()
}

/// The beginning of `text`, at most so many columns. Coloured text is left whole.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if columns(text) <= most || text.contains('\x1b') {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_tabs_and_whole_cells() {
        let mut table = Table::new(&["RUN", "NOTE"]);
        table.row(vec!["r".into(), "x".repeat(300)]);
        assert_eq!(table.lines(Paint(false), false)[1].len(), 302);
    }

    #[test]
    fn colour_takes_no_room() {
        assert_eq!(columns(&Paint(true).on(Hue::Bad, "✖ failed")), 8);
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
