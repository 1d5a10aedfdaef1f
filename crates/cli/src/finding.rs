//! What is wrong, as `sweeper` and `doctor` show it.

use goldseam::healer::doctor::Finding;
use goldseam::healer::foreign::ForeignStalled;
use goldseam::healer::sweeper::{Fate, Stalled};
use goldseam::recovery::Code;
use serde_json::{Value, json};

use crate::app::App;
use crate::paint::Hue;
use crate::table::Table;
use crate::{text, when};

/// One finding.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    /// The rule; none for a state of somebody else, of which no rule speaks.
    pub(crate) code: Option<Code>,
    /// `run`, `task`, `lock` or `state`.
    pub(crate) kind: &'static str,
    /// Which one.
    pub(crate) name: &'a str,
    evidence: &'a str,
    remedy: String,
    /// What became of it.
    pub(crate) fate: &'a Fate,
}

impl<'a> From<&'a Finding> for Item<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            code: Some(finding.code),
            kind: finding.subject.kind(),
            name: finding.subject.name(),
            evidence: &finding.evidence,
            remedy: finding.remedy.clone(),
            fate: &finding.fate,
        }
    }
}

impl<'a> From<&'a Stalled> for Item<'a> {
    fn from(stalled: &'a Stalled) -> Self {
        let diagnosis = &stalled.found.diagnosis;
        Self {
            code: Some(diagnosis.rule),
            kind: "run",
            name: stalled.found.run.as_str(),
            evidence: &diagnosis.evidence,
            remedy: diagnosis.remedy.describe(),
            fate: &stalled.fate,
        }
    }
}

impl<'a> From<&'a ForeignStalled> for Item<'a> {
    fn from(stalled: &'a ForeignStalled) -> Self {
        let remedy = match stalled.fate {
            Fate::NeedsHelp => "see why its task takes its workers down",
            _ => "give it a new task",
        };
        Self {
            code: None,
            kind: "state",
            name: stalled.id.as_str(),
            evidence: &stalled.evidence,
            remedy: remedy.to_owned(),
            fate: &stalled.fate,
        }
    }
}

impl Item<'_> {
    fn code(&self) -> String {
        self.code.map_or_else(|| "-".to_owned(), |code| code.to_string())
    }

    /// As a program reads it.
    pub(crate) fn document(&self) -> Value {
        let mut document =
            json!({ "evidence": self.evidence, "remedy": self.remedy, "fate": self.fate.as_str() });
        if let Some(code) = self.code {
            document["code"] = json!(code);
        }
        document[self.kind] = json!(self.name);
        if let Fate::Failed(error) = self.fate {
            document["error"] = json!(error);
        }
        document
    }
}

/// A stalled run as a program reads it.
pub(crate) fn stalled(stalled: &Stalled) -> Value {
    let mut document = Item::from(stalled).document();
    document["event"] = json!(stalled.found.at);
    document["since"] = json!(when::iso(stalled.since));
    document
}

/// A stalled state of somebody else as a program reads it.
pub(crate) fn foreign(stalled: &ForeignStalled) -> Value {
    let mut document = Item::from(stalled).document();
    document["since"] = json!(when::iso(stalled.since));
    document
}

/// What became of a finding, for a person.
fn words(fate: &Fate) -> (String, Hue) {
    match fate {
        Fate::Healed => ("healed".to_owned(), Hue::Good),
        Fate::Young => ("not yet".to_owned(), Hue::Calm),
        Fate::Told => ("can be healed".to_owned(), Hue::Warm),
        Fate::Moved => ("moved on".to_owned(), Hue::Good),
        Fate::NeedsHelp => ("needs you".to_owned(), Hue::Bad),
        Fate::Failed(error) => (format!("failed: {}", text::one_line(error)), Hue::Bad),
    }
}

/// All findings, one below the other.
pub(crate) fn table(app: &App, items: &[Item<'_>]) -> Table {
    if !app.terminal {
        let mut table = Table::new(&["CODE", "WHAT", "NAME", "FATE", "EVIDENCE", "REMEDY"]);
        for item in items {
            let (fate, _) = words(item.fate);
            table.row(vec![
                item.code(),
                item.kind.to_owned(),
                item.name.to_owned(),
                fate,
                text::one_line(item.evidence),
                item.remedy.clone(),
            ]);
        }
        return table;
    }
    let mut table = Table::wrapping(&["CODE", "WHAT", "FATE", "EVIDENCE → REMEDY"]);
    for item in items {
        let (fate, hue) = words(item.fate);
        let what =
            if item.kind == "run" { item.name.to_owned() } else { format!("{} {}", item.kind, item.name) };
        let why = format!("{} → {}", item.evidence, item.remedy);
        table.row(vec![item.code(), what, app.paint.on(hue, fate), why]);
    }
    table
}
