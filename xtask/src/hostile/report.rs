//! What every check came to: printed as it comes, and as a table at the end.

use std::fmt::Write as _;

/// One check.
struct Row {
    part: &'static str,
    what: String,
    /// What was measured or counted.
    figure: String,
    passed: bool,
}

/// All checks, in order.
#[derive(Default)]
pub(super) struct Report {
    part: &'static str,
    rows: Vec<Row>,
    /// Figures for the record.
    figures: Vec<(String, u64)>,
}

impl Report {
    /// What follows belongs to this part.
    pub(super) fn begin(&mut self, part: &'static str) {
        println!("── {part}");
        self.part = part;
    }

    /// A check with what was measured.
    pub(super) fn row(&mut self, what: impl Into<String>, figure: impl Into<String>, passed: bool) {
        let row = Row { part: self.part, what: what.into(), figure: figure.into(), passed };
        println!("{}", row.line(0));
        self.rows.push(row);
    }

    /// A check that did not pass, with everything that was said; the table shows the last line of it.
    pub(super) fn failed(&mut self, what: impl Into<String>, said: &str) {
        println!("{said}");
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        self.row(what, last.trim().chars().take(100).collect::<String>(), false);
    }

    /// A check that says nothing if it passes.
    pub(super) fn outcome_of(&mut self, what: &str, figure: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(_) => self.row(what, figure, true),
            Err(said) => self.failed(what, &said),
        }
    }

    /// A figure for the record.
    pub(super) fn figure(&mut self, name: impl Into<String>, value: u64) {
        self.figures.push((name.into(), value));
    }

    pub(super) fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or_default();
        let mut table = String::new();
        for row in &self.rows {
            // To write to a string cannot fail.
            let _ = writeln!(table, "{:<8} {}", row.part, row.line(width));
        }
        table
    }

    /// The counts of a record.
    pub(super) fn counts(&self) -> String {
        let failed = self.rows.iter().filter(|row| !row.passed).count();
        let mut counts = format!("checks={} failed={failed}", self.rows.len());
        for (name, value) in &self.figures {
            let _ = write!(counts, " {name}={value}");
        }
        counts
    }

    /// An error if any check did not pass.
    pub(super) fn outcome(&self) -> Result<(), String> {
        match self.rows.iter().filter(|row| !row.passed).count() {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} checks failed", self.rows.len())),
        }
    }
}

impl Row {
    fn line(&self, width: usize) -> String {
        let outcome = if self.passed { "ok" } else { "FAILED" };
        format!("{outcome:>6}  {:<width$}  {}", self.what, self.figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_all_and_is_counted() {
        let mut report = Report::default();
        report.begin("lint");
        report.outcome_of("redocly", "0 findings", Ok(String::new()));
        assert_eq!(report.outcome(), Ok(()));
        report.failed("spectral", "first\nlast line\n");
        report.figure("requests", 7);
        assert!(report.table().contains("last line") && !report.table().contains("first"));
        assert_eq!(report.counts(), "checks=2 failed=1 requests=7");
        assert_eq!(report.outcome(), Err("1 of 2 checks failed".to_owned()));
    }
}
