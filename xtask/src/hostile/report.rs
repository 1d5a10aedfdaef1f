//! The results of all checks: printed one by one, and as a table at the end.

use std::fmt::Write as _;

/// One check.
struct Row {
    part: &'static str,
    what: String,
    /// The measurement or count.
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
    /// Starts a part: the following rows belong to it.
    pub(super) fn begin(&mut self, part: &'static str) {
        println!("── {part}");
        self.part = part;
    }

    /// Adds a check with its measurement.
    pub(super) fn row(&mut self, what: impl Into<String>, figure: impl Into<String>, passed: bool) {
        let row = Row { part: self.part, what: what.into(), figure: figure.into(), passed };
        println!("{}", row.line(0));
        self.rows.push(row);
    }

    /// Adds a failed check and prints its output; the table shows the last line of the output.
    pub(super) fn failed(&mut self, what: impl Into<String>, said: &str) {
        println!("{said}");
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        self.row(what, last.trim().chars().take(100).collect::<String>(), false);
    }

    /// Adds a check by the outcome of a command.
    pub(super) fn outcome_of(&mut self, what: &str, figure: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(_) => self.row(what, figure, true),
            Err(said) => self.failed(what, &said),
        }
    }

    /// Adds a figure to the record.
    pub(super) fn figure(&mut self, name: impl Into<String>, value: u64) {
        self.figures.push((name.into(), value));
    }

    pub(super) fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or_default();
        let mut table = String::new();
        for row in &self.rows {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{:<8} {}", row.part, row.line(width));
        }
        table
    }

    /// The counts for the record line.
    pub(super) fn counts(&self) -> String {
        let failed = self.rows.iter().filter(|row| !row.passed).count();
        let mut counts = format!("checks={} failed={failed}", self.rows.len());
        for (name, value) in &self.figures {
            let _ = write!(counts, " {name}={value}");
        }
        counts
    }

    /// An error if any check failed.
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
    fn one_failed_check_fails_the_report() {
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
