//! The table of findings of `sweeper` and `doctor`: the most severe first, similar findings on one line.

use std::borrow::Borrow;

use goldseam::recovery::Code;
use goldseam_api::doc::heal::{CheckupDoc, FateDoc, FindingDoc, Severity};

use crate::app::App;
use crate::color::Hue;
use crate::table::TextTable;
use crate::text;

/// Names that a line with several findings shows.
const NAMES: usize = 3;

/// Similar findings of one rule.
struct FindingGroup<'a> {
    findings: Vec<&'a FindingDoc>,
}

impl FindingGroup<'_> {
    fn first(&self) -> &FindingDoc {
        self.findings[0]
    }

    /// The first names, and the number of the others.
    fn names(&self) -> String {
        let names: Vec<&str> = self.findings.iter().take(NAMES).map(|finding| finding.subject().1).collect();
        match self.findings.len().saturating_sub(NAMES) {
            0 => names.join(", "),
            more => format!("{} and {} more", names.join(", "), text::thousands(more as u64)),
        }
    }

    /// The remedy; for several findings, with a placeholder instead of the name.
    fn remedy(&self) -> String {
        let first = self.first();
        match (self.findings.len(), first.subject()) {
            (1, _) | (_, (_, "")) => first.remedy.clone(),
            (_, (kind, name)) => first.remedy.replace(name, &kind.to_uppercase()),
        }
    }
}

/// Replaces what differs between similar findings: the name, and words with digits.
fn shape(text: &str, name: &str) -> String {
    let plain = |word: &str| word == name || word.chars().any(|c| c.is_ascii_digit());
    text.split_whitespace().map(|word| if plain(word) { "#" } else { word }).collect::<Vec<_>>().join(" ")
}

fn is_alike(one: &FindingDoc, other: &FindingDoc) -> bool {
    let (kind, name) = one.subject();
    let (other_kind, other_name) = other.subject();
    (one.code, one.fate, kind) == (other.code, other.fate, other_kind)
        && shape(&one.evidence, name) == shape(&other.evidence, other_name)
        && shape(&one.remedy, name) == shape(&other.remedy, other_name)
}

/// Groups similar findings, the most severe first.
fn groups<'a>(findings: &'a [impl Borrow<FindingDoc>]) -> Vec<FindingGroup<'a>> {
    let mut groups: Vec<FindingGroup<'a>> = Vec::new();
    for finding in findings.iter().map(Borrow::borrow) {
        match groups.iter_mut().find(|group| is_alike(group.findings[0], finding)) {
            Some(group) => group.findings.push(finding),
            None => groups.push(FindingGroup { findings: vec![finding] }),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.first().severity));
    groups
}

fn code(finding: &FindingDoc) -> String {
    finding.code.map_or_else(|| "-".to_owned(), |code| code.to_string())
}

/// The text and colour of a finding's fate.
fn fate(finding: &FindingDoc) -> (String, Hue) {
    match finding.fate {
        // Parking a damaged run protects it, but does not heal it.
        FateDoc::Healed if finding.code == Some(Code::K1) => ("parked, needs you".to_owned(), Hue::Bad),
        FateDoc::Young | FateDoc::Reported if finding.code == Some(Code::K1) => {
            ("needs you".to_owned(), Hue::Bad)
        }
        FateDoc::Healed => ("healed".to_owned(), Hue::Good),
        FateDoc::Young => ("not yet".to_owned(), Hue::Calm),
        FateDoc::Reported => ("can be healed".to_owned(), Hue::Warm),
        FateDoc::Moved => ("moved on".to_owned(), Hue::Good),
        FateDoc::NeedsHelp => ("needs you".to_owned(), Hue::Bad),
        FateDoc::Waits => ("a node will recover it".to_owned(), Hue::Calm),
        FateDoc::Stopped => ("stopped".to_owned(), Hue::Bad),
        FateDoc::Failed => {
            let error = finding.error.as_deref().unwrap_or_default();
            (format!("failed: {}", text::one_line(error)), Hue::Bad)
        }
    }
}

fn severity(app: &App, finding: &FindingDoc) -> String {
    let hue = match finding.severity {
        Severity::Info => Hue::Dim,
        Severity::Warning => Hue::Warm,
        Severity::Error | Severity::Critical => Hue::Bad,
    };
    app.colors.apply(hue, finding.severity.as_str())
}

/// The name and code of a finding's rule.
fn rule(finding: &FindingDoc) -> String {
    finding.code.map_or_else(|| "-".to_owned(), Code::label)
}

/// The one command to run next; none if a node heals the findings.
fn command(finding: &FindingDoc) -> Option<String> {
    let name = finding.code.map(Code::name);
    match (finding.fate, finding.subject(), name) {
        (FateDoc::Healed, _, Some(name)) if finding.code == Some(Code::K1) => {
            Some(format!("goldseam explain {name}"))
        }
        (FateDoc::Healed | FateDoc::Moved | FateDoc::Waits, ..) => None,
        (FateDoc::Reported | FateDoc::Young, _, Some(name)) if finding.code != Some(Code::K1) => {
            Some(format!("goldseam doctor --rule {name} --fix"))
        }
        (_, ("run", run), _) if !run.is_empty() => Some(format!("goldseam why {run}")),
        (_, _, Some(name)) => Some(format!("goldseam explain {name}")),
        (_, _, None) => None,
    }
}

/// The table of findings for a program: one line for similar findings, with complete cells.
fn lines(app: &App, findings: &[impl Borrow<FindingDoc>]) -> TextTable {
    let head = ["SEVERITY", "CODE", "COUNT", "WHAT", "NAME", "FATE", "EVIDENCE", "REMEDY", "RULE", "COMMAND"];
    let mut table = TextTable::new(&head);
    for group in groups(findings) {
        let finding = group.first();
        table.row(vec![
            severity(app, finding),
            code(finding),
            group.findings.len().to_string(),
            finding.subject().0.to_owned(),
            group.names(),
            fate(finding).0,
            text::one_line(&finding.evidence),
            group.remedy(),
            finding.code.map_or("-", Code::name).to_owned(),
            command(finding).unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    table
}

/// Columns that a narrow terminal does not show, the first to be dropped first.
const OPTIONAL: &[&str] = &["COUNT", "FATE", "SEVERITY", "WHAT"];

/// The table of all findings, similar ones on one line.
pub(crate) fn table(app: &App, findings: &[impl Borrow<FindingDoc>]) -> TextTable {
    if !app.terminal {
        return lines(app, findings);
    }
    let head = ["SEVERITY", "RULE", "COUNT", "WHAT", "FATE", "EVIDENCE → REMEDY"];
    let mut table = TextTable::wrapping(&head).dropping(OPTIONAL);
    for group in groups(findings) {
        let finding = group.first();
        let (fate, hue) = fate(finding);
        let why = format!("{} → {}", finding.evidence, group.remedy());
        let count = text::thousands(group.findings.len() as u64);
        let what = what(&group);
        table.row(vec![severity(app, finding), rule(finding), count, what, app.colors.apply(hue, fate), why]);
    }
    table
}

/// The names of a group, with their kind unless they are runs.
fn what(group: &FindingGroup<'_>) -> String {
    match group.first().subject().0 {
        "run" => group.names(),
        kind => format!("{kind} {}", group.names()),
    }
}

/// Shapes of evidence that a rule shows.
const SHAPES_MAX: usize = 3;

/// The table of an examination: findings by rule and fate, each with its count, examples and the next command.
pub(crate) fn grouped(app: &App, checkup: &CheckupDoc) -> TextTable {
    if !app.terminal {
        return lines(app, &checkup.findings);
    }
    let head = ["SEVERITY", "RULE", "COUNT", "FATE", "EXAMPLES AND WHAT TO DO"];
    let mut table = TextTable::wrapping(&head).dropping(OPTIONAL);
    let groups = groups(&checkup.findings);
    for counted in &checkup.counts {
        let of_rule = |group: &&FindingGroup<'_>| {
            let first = group.first();
            (first.code, first.fate) == (counted.code, counted.fate)
        };
        let shapes: Vec<&FindingGroup<'_>> = groups.iter().filter(of_rule).collect();
        let Some(finding) = shapes.first().map(|shape| shape.first()) else {
            let label = counted.code.map_or_else(|| "-".to_owned(), Code::label);
            let none = "not listed: raise --limit".to_owned();
            let severity = counted.severity.as_str().to_owned();
            table.row(vec![severity, label, text::thousands(counted.count), String::new(), none]);
            continue;
        };
        let (fate, hue) = fate(finding);
        let mut first = vec![
            severity(app, finding),
            rule(finding),
            text::thousands(counted.count),
            app.colors.apply(hue, fate),
        ];
        let mut add = |text: String| {
            let row = std::mem::replace(&mut first, vec![String::new(); 4]);
            table.row(row.into_iter().chain([text]).collect());
        };
        for shape in shapes.iter().take(SHAPES_MAX) {
            add(format!("{}: {} → {}", what(shape), shape.first().evidence, shape.remedy()));
        }
        if shapes.len() > SHAPES_MAX {
            add(format!("and {} more kinds of evidence: --json", shapes.len() - SHAPES_MAX));
        }
        if let Some(command) = command(finding) {
            add(app.colors.apply(Hue::Bold, format!("→ {command}")));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn finding(run: &str, code: &str, fate: FateDoc, evidence: &str) -> FindingDoc {
        let severity = Severity::of(code.parse().ok(), fate);
        let remedy = format!("resolve the problem, then: goldseam resume {run}");
        let found = json!({ "run": run, "code": code, "fate": fate, "evidence": evidence, "remedy": remedy,
            "severity": severity });
        serde_json::from_value(found).unwrap()
    }

    #[test]
    fn similar_findings_share_a_line_and_the_most_severe_come_first() {
        let lost = |run: &str, node: &str| {
            finding(run, "O2", FateDoc::Reported, &format!("node {node} (vm:1) is gone"))
        };
        let mut findings: Vec<FindingDoc> =
            (0..5).map(|at| lost(&format!("ord-{at}"), &format!("n-{at}"))).collect();
        findings.push(finding("odd", "K1", FateDoc::Reported, "event 5 of the log is damaged"));
        findings.push(finding("ord-9", "O2", FateDoc::Reported, "its process is frozen"));
        let groups = groups(&findings);
        let lines: Vec<(usize, String)> =
            groups.iter().map(|group| (group.findings.len(), group.names())).collect();
        let expected = [(1, "odd"), (5, "ord-0, ord-1, ord-2 and 2 more"), (1, "ord-9")];
        assert_eq!(lines, expected.map(|(count, names)| (count, names.to_owned())));
        assert_eq!(groups[1].remedy(), "resolve the problem, then: goldseam resume RUN");
        assert_eq!(groups[2].remedy(), "resolve the problem, then: goldseam resume ord-9");
    }

    #[test]
    fn damaged_logs_are_never_shown_as_healed() {
        for fate in [FateDoc::Reported, FateDoc::Young, FateDoc::Healed, FateDoc::NeedsHelp] {
            let damaged = finding("odd", "K1", fate, "event 5 of the log is damaged");
            assert_eq!(damaged.severity, Severity::Critical);
            assert!(!super::fate(&damaged).0.contains("healed"), "{fate:?}");
        }
    }

    #[test]
    fn each_group_names_one_command() {
        let command = |code: &str, fate| command(&finding("ord-1", code, fate, "x"));
        let fix = Some("goldseam doctor --rule worker-lost --fix".to_owned());
        assert_eq!(command("O2", FateDoc::Reported), fix);
        assert_eq!(command("V1", FateDoc::NeedsHelp), Some("goldseam why ord-1".to_owned()));
        assert_eq!(command("K1", FateDoc::Reported), Some("goldseam why ord-1".to_owned()));
        assert_eq!(command("O2", FateDoc::Waits), None);
        assert_eq!(command("O2", FateDoc::Healed), None);
    }
}
