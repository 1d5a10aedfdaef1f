//! `goldseam doctor`.

use std::collections::BTreeSet;

use clap::Args;
use goldseam::recovery::Code;
use goldseam_api::doc::heal::{Checkup, Fate, NewCheckup};

use super::who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::{finding, out, progress, text};

/// Examine the whole store by every rule, and tell or heal what is wrong
///
/// Tells only, unless --fix is given. Each finding has a severity (critical, error, warning, info), the code of a rule,
/// what was seen, and what is done about it; equal findings share a line, and --json has each of them. A remedy that cuts opens a branch, so nothing is ever deleted. Without --deep, a run that a live node executes or
/// that is over is not read.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 1 if something is wrong and was not healed.\n\nExamples:\n  goldseam doctor\n  goldseam doctor --fix\n  goldseam doctor --rule A2 --fix\n  goldseam doctor --deep --json\n\nWhat the rules mean: goldseam explain A2. One run: goldseam why RUN"
)]
pub(crate) struct DoctorArgs {
    /// Heal what can be healed
    #[arg(long)]
    fix: bool,
    /// Only this rule
    #[arg(long, value_name = "CODE")]
    rule: Option<Code>,
    /// Read every log, those of finished runs too
    #[arg(long)]
    deep: bool,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: DoctorArgs) -> Result<Exit, Fail> {
    let api = app.api().await?;
    let new = NewCheckup { fix: args.fix, rule: args.rule, deep: args.deep, limit: None };
    let line = progress::line(app, None, "{spinner} {msg} runs looked at  {elapsed}");
    let tell = line.clone();
    let tell = &mut move |scanned| tell.set_message(text::thousands(scanned));
    let checkup = api.doctor(&who::caller(None), new, tell).await;
    line.finish_and_clear();
    let mut checkup = checkup?;
    if checkup.counts.is_empty() {
        // Older servers send every finding, and no counts.
        checkup = checkup.counted(None);
    }
    let findings = &checkup.findings;
    match () {
        () if app.json => out::json(&checkup),
        () if app.jsonl => findings.iter().for_each(out::jsonl),
        () if app.quiet => findings.iter().for_each(|finding| out::line(finding.subject().1)),
        () => {
            if !findings.is_empty() {
                app.table(&finding::table(app, findings));
            }
            let (words, hue) = verdict(&checkup);
            out::line(app.paint.on(hue, words));
        }
    }
    if let Some(words) = left_out(&checkup).filter(|_| !app.json) {
        app.warn(&words);
    }
    Ok(if checkup.healthy { Exit::Ok } else { Exit::Error })
}

/// What to do to see the findings that a server left out, if it did.
fn left_out(checkup: &Checkup) -> Option<String> {
    let (shown, total) = (checkup.findings.len() as u64, checkup.total);
    (total > shown).then(|| {
        let (shown, total) = (text::thousands(shown), text::thousands(total));
        format!(
            "{shown} of {total} findings are shown, the worst first; narrow them with --rule CODE, or run \
             goldseam doctor --store URL for all of them"
        )
    })
}

/// The last line: how things stand, and what to type next.
fn verdict(checkup: &Checkup) -> (String, Hue) {
    let looked = format!("{} looked at", text::count(checkup.scanned, "run"));
    let rows = match checkup.rows_rewritten {
        0 => String::new(),
        rows => format!(", {} written anew", text::count(rows, "cached row")),
    };
    let counts = &checkup.counts;
    if counts.is_empty() {
        return (format!("{looked}{rows}: healthy"), Hue::Good);
    }
    let of =
        |wanted: &[Fate]| counts.iter().filter(|one| wanted.contains(&one.fate)).map(|one| one.count).sum();
    let mut parts = vec![text::count(checkup.total, "finding")];
    let mut tell = |count: u64, words: &str| {
        if count > 0 {
            parts.push(format!("{} {words}", text::thousands(count)));
        }
    };
    tell(of(&[Fate::Healed]), "healed");
    tell(of(&[Fate::Moved]), "moved on meanwhile");
    tell(of(&[Fate::Waits]), "recovered by a node without you: goldseam why RUN");
    tell(of(&[Fate::Stopped]), "stopped, to be looked at: goldseam explain P1");
    tell(of(&[Fate::Told, Fate::Young]), "can be healed: goldseam doctor --fix");
    tell(of(&[Fate::Failed]), "could not be healed now");
    let count: u64 = of(&[Fate::NeedsHelp]);
    if count > 0 {
        let needy = counts.iter().filter(|one| one.fate == Fate::NeedsHelp);
        let codes: BTreeSet<Code> = needy.filter_map(|one| one.code).collect();
        let explain: Vec<String> = codes.iter().map(|code| format!("goldseam explain {code}")).collect();
        let verb = if count == 1 { "needs" } else { "need" };
        tell(count, &format!("{verb} you: {}", explain.join("; ")));
    }
    let hue = if checkup.healthy { Hue::Good } else { Hue::Bad };
    (format!("{looked}{rows}: {}", parts.join(", ")), hue)
}

#[cfg(test)]
mod tests {
    use goldseam_api::doc::heal::{Finding, Severity};

    use super::*;

    fn finding(fate: Fate) -> Finding {
        Finding {
            code: Some(Code::O2),
            error: None,
            event: None,
            evidence: String::new(),
            fate,
            lock: None,
            node: None,
            record: None,
            remedy: String::new(),
            run: Some("r".to_owned()),
            severity: Severity::of(Some(Code::O2), fate),
            since: None,
            state: None,
            task: None,
        }
    }

    fn checkup(findings: Vec<Finding>, limit: Option<u32>) -> Checkup {
        let (counts, healed, healthy, rows_rewritten, scanned, total) = (vec![], 0, true, 0, 1, 0);
        Checkup { counts, findings, healed, healthy, rows_rewritten, scanned, total }.counted(limit)
    }

    #[test]
    fn findings_that_a_server_left_out_are_counted_and_named() {
        let mut findings = vec![finding(Fate::Told); 24_000];
        findings.push(finding(Fate::NeedsHelp));
        let bounded = checkup(findings, Some(500));
        assert_eq!((bounded.findings.len(), bounded.total, bounded.counts.len()), (500, 24_001, 2));
        assert_eq!(bounded.findings[0].fate, Fate::NeedsHelp, "the worst comes first");
        let words = verdict(&bounded).0;
        assert!(words.contains("24,001 findings, 24,000 can be healed"), "{words}");
        assert!(left_out(&bounded).unwrap().starts_with("500 of 24,001 findings"), "{bounded:?}");
        assert_eq!(left_out(&checkup(vec![finding(Fate::Told)], Some(500))), None);
    }

    #[test]
    fn only_what_was_healed_is_called_healed() {
        let words = |fate: Fate| {
            let findings = vec![finding(fate)];
            verdict(&checkup(findings, None)).0
        };
        assert!(words(Fate::Healed).ends_with("1 finding, 1 healed"));
        for fate in [Fate::Moved, Fate::Waits, Fate::Stopped] {
            assert!(!words(fate).contains("healed"), "{}", words(fate));
        }
    }
}
