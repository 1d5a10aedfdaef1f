//! `goldseam doctor`.

use std::collections::BTreeSet;

use clap::Args;
use goldseam::recovery::Code;
use goldseam_api::doc::heal::{CheckupDoc, FateDoc, NewCheckup};

use super::actor;
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::progress::ExaminationProgress;
use crate::{finding, out, text};

/// Examine the whole store with every rule, and report or heal findings
///
/// Only reports, unless --fix is given. Findings are grouped by rule, the most severe first (critical, error, warning,
/// info), with examples, the evidence, and the one command to run next; --json lists each finding. A remedy that cuts a
/// log opens a branch, so nothing is deleted. Without --deep, doctor does not read logs of ended runs or of runs that a
/// live node executes. Progress goes to stderr.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 1 if a finding was not healed.\n\nExamples:\n  goldseam doctor\n  goldseam doctor --fix\n  goldseam doctor --rule worker-lost --fix\n  goldseam doctor --limit 20 --json\n  goldseam doctor --deep --json\n\nWhat the rules mean: goldseam explain worker-lost. One run: goldseam why RUN"
)]
pub(crate) struct DoctorArgs {
    /// Heal findings that have an automatic remedy
    #[arg(long)]
    fix: bool,
    /// Apply only this rule: its name, as in worker-lost, or its code, as in O2
    #[arg(long, value_name = "RULE")]
    rule: Option<Code>,
    /// Read every log, including those of ended runs
    #[arg(long)]
    deep: bool,
    /// Maximum number of findings to list, the most severe first; all of them are counted
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

pub(crate) async fn run(app: &App, args: DoctorArgs) -> Result<Exit, CliError> {
    let api = app.api().await?;
    let new = NewCheckup {
        fix: args.fix,
        rule: args.rule,
        deep: args.deep,
        limit: args.limit,
        ..NewCheckup::default()
    };
    let examined = ExaminationProgress::start(app);
    let caller = actor::caller(None);
    let mut on_progress = examined.on_progress();
    let checkup = examined.during(api.doctor(&caller, new, &mut on_progress)).await;
    drop(examined);
    let mut checkup = checkup?;
    if checkup.counts.is_empty() {
        // Older servers send every finding, but no counts.
        checkup = checkup.counted(None);
    }
    let findings = &checkup.findings;
    match () {
        () if app.json => out::json(&checkup),
        () if app.jsonl => findings.iter().for_each(out::jsonl),
        () if app.quiet => findings.iter().for_each(|finding| out::line(finding.subject().1)),
        () => {
            if !findings.is_empty() {
                app.table(&finding::grouped(app, &checkup));
            }
            let (text, hue) = verdict(&checkup);
            app.text(Some(hue), &text);
        }
    }
    if let Some(warning) = left_out(&checkup, args.limit).filter(|_| !app.json) {
        app.warn(&warning);
    }
    Ok(if checkup.healthy { Exit::Ok } else { Exit::Error })
}

/// The warning if the limit, or a server, left out findings.
fn left_out(checkup: &CheckupDoc, limit: Option<u32>) -> Option<String> {
    let shown = checkup.findings.len() as u64;
    let more = match limit {
        Some(limit) if shown >= u64::from(limit) => "raise --limit",
        _ => "run goldseam doctor --store URL for all of them",
    };
    (checkup.total > shown).then(|| {
        format!(
            "showing the {} most severe of {} findings; narrow them with --rule RULE, or {more}",
            text::thousands(shown),
            text::thousands(checkup.total)
        )
    })
}

/// The last line: the counts, and the next command.
fn verdict(checkup: &CheckupDoc) -> (String, Hue) {
    let examined = format!("{} examined", text::count(checkup.scanned, "run"));
    let rows = match checkup.rows_rewritten {
        0 => String::new(),
        rows => format!(", {} rewritten", text::count(rows, "cached row")),
    };
    let counts = &checkup.counts;
    if counts.is_empty() {
        return (format!("{examined}{rows}: healthy"), Hue::Good);
    }
    let of = |wanted: &[FateDoc]| {
        counts.iter().filter(|one| wanted.contains(&one.fate)).map(|one| one.count).sum()
    };
    let mut parts = vec![text::count(checkup.total, "finding")];
    let mut add = |count: u64, what: &str| {
        if count > 0 {
            parts.push(format!("{} {what}", text::thousands(count)));
        }
    };
    add(of(&[FateDoc::Healed]), "healed");
    add(of(&[FateDoc::Moved]), "moved on meanwhile");
    add(of(&[FateDoc::Waits]), "will be recovered by a node: goldseam why RUN");
    add(of(&[FateDoc::Stopped]), "stopped, to be examined: goldseam explain crash-loop");
    add(of(&[FateDoc::Reported, FateDoc::Young]), "can be healed: goldseam doctor --fix");
    add(of(&[FateDoc::Failed]), "could not be healed now");
    let count: u64 = of(&[FateDoc::NeedsHelp]);
    if count > 0 {
        let needing_help = counts.iter().filter(|one| one.fate == FateDoc::NeedsHelp);
        let codes: BTreeSet<Code> = needing_help.filter_map(|one| one.code).collect();
        let explain: Vec<String> =
            codes.iter().map(|code| format!("goldseam explain {}", code.name())).collect();
        let verb = if count == 1 { "needs" } else { "need" };
        add(count, &format!("{verb} you: {}", explain.join("; ")));
    }
    let hue = if checkup.healthy { Hue::Good } else { Hue::Bad };
    (format!("{examined}{rows}: {}", parts.join(", ")), hue)
}

#[cfg(test)]
mod tests {
    use goldseam_api::doc::heal::{FindingDoc, Severity};

    use super::*;

    fn finding(fate: FateDoc) -> FindingDoc {
        FindingDoc {
            code: Some(Code::O2),
            error: None,
            event: None,
            evidence: String::new(),
            fate,
            lock: None,
            node: None,
            record: None,
            remedy: String::new(),
            rule_name: None,
            run: Some("r".to_owned()),
            severity: Severity::of(Some(Code::O2), fate),
            since: None,
            state: None,
            task: None,
        }
    }

    fn checkup(findings: Vec<FindingDoc>, limit: Option<u32>) -> CheckupDoc {
        let checkup = CheckupDoc {
            counts: vec![],
            findings,
            healed: 0,
            healthy: true,
            rows_rewritten: 0,
            scanned: 1,
            total: 0,
            next: None,
        };
        checkup.counted(limit)
    }

    #[test]
    fn warns_about_findings_that_a_server_left_out() {
        let mut findings = vec![finding(FateDoc::Reported); 24_000];
        findings.push(finding(FateDoc::NeedsHelp));
        let bounded = checkup(findings, Some(500));
        assert_eq!((bounded.findings.len(), bounded.total, bounded.counts.len()), (500, 24_001, 2));
        assert_eq!(bounded.findings[0].fate, FateDoc::NeedsHelp, "the most severe comes first");
        let text = verdict(&bounded).0;
        assert!(text.contains("24,001 findings, 24,000 can be healed"), "{text}");
        let warning = left_out(&bounded, None).unwrap();
        assert!(warning.starts_with("showing the 500 most severe of 24,001 findings"), "{warning}");
        assert_eq!(left_out(&checkup(vec![finding(FateDoc::Reported)], Some(500)), None), None);
    }

    #[test]
    fn only_healed_findings_are_counted_as_healed() {
        let text = |fate: FateDoc| {
            let findings = vec![finding(fate)];
            verdict(&checkup(findings, None)).0
        };
        assert!(text(FateDoc::Healed).ends_with("1 finding, 1 healed"));
        for fate in [FateDoc::Moved, FateDoc::Waits, FateDoc::Stopped] {
            assert!(!text(fate).contains("healed"), "{}", text(fate));
        }
    }
}
