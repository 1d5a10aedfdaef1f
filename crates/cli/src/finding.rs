//! What is wrong, as `sweeper` and `doctor` show it.

use std::borrow::Borrow;

use goldseam_api::doc::heal::{Fate, Finding};

use crate::app::App;
use crate::paint::Hue;
use crate::table::Table;
use crate::text;

fn code(finding: &Finding) -> String {
    finding.code.map_or_else(|| "-".to_owned(), |code| code.to_string())
}

/// What became of a finding, for a person.
fn words(finding: &Finding) -> (String, Hue) {
    match finding.fate {
        Fate::Healed => ("healed".to_owned(), Hue::Good),
        Fate::Young => ("not yet".to_owned(), Hue::Calm),
        Fate::Told => ("can be healed".to_owned(), Hue::Warm),
        Fate::Moved => ("moved on".to_owned(), Hue::Good),
        Fate::NeedsHelp => ("needs you".to_owned(), Hue::Bad),
        Fate::Waits => ("a node recovers it".to_owned(), Hue::Calm),
        Fate::Stopped => ("stopped".to_owned(), Hue::Bad),
        Fate::Failed => {
            let error = finding.error.as_deref().unwrap_or_default();
            (format!("failed: {}", text::one_line(error)), Hue::Bad)
        }
    }
}

/// All findings, one below the other.
pub(crate) fn table(app: &App, findings: &[impl Borrow<Finding>]) -> Table {
    if !app.terminal {
        let mut table = Table::new(&["CODE", "WHAT", "NAME", "FATE", "EVIDENCE", "REMEDY"]);
        for finding in findings.iter().map(Borrow::borrow) {
            let ((kind, name), (fate, _)) = (finding.subject(), words(finding));
            table.row(vec![
                code(finding),
                kind.to_owned(),
                name.to_owned(),
                fate,
                text::one_line(&finding.evidence),
                finding.remedy.clone(),
            ]);
        }
        return table;
    }
    let mut table = Table::wrapping(&["CODE", "WHAT", "FATE", "EVIDENCE → REMEDY"]);
    for finding in findings.iter().map(Borrow::borrow) {
        let ((kind, name), (fate, hue)) = (finding.subject(), words(finding));
        let what = if kind == "run" { name.to_owned() } else { format!("{kind} {name}") };
        let why = format!("{} → {}", finding.evidence, finding.remedy);
        table.row(vec![code(finding), what, app.paint.on(hue, fate), why]);
    }
    table
}
