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
    let new = NewCheckup { fix: args.fix, rule: args.rule, deep: args.deep };
    let line = progress::line(app, None, "{spinner} {msg} runs looked at  {elapsed}");
    let tell = line.clone();
    let tell = &mut move |scanned| tell.set_message(text::thousands(scanned));
    let checkup = api.doctor(&who::caller(None), new, tell).await;
    line.finish_and_clear();
    let checkup = checkup?;
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
    Ok(if checkup.healthy { Exit::Ok } else { Exit::Error })
}

/// The last line: how things stand, and what to type next.
fn verdict(checkup: &Checkup) -> (String, Hue) {
    let looked = format!("{} looked at", text::count(checkup.scanned, "run"));
    let rows = match checkup.rows_rewritten {
        0 => String::new(),
        rows => format!(", {} written anew", text::count(rows, "cached row")),
    };
    if checkup.findings.is_empty() {
        return (format!("{looked}{rows}: healthy"), Hue::Good);
    }
    let of = |wanted: fn(Fate) -> bool| checkup.findings.iter().filter(move |finding| wanted(finding.fate));
    let mut parts = vec![text::count(checkup.findings.len() as u64, "finding")];
    let mut tell = |count: usize, words: &str| {
        if count > 0 {
            parts.push(format!("{count} {words}"));
        }
    };
    tell(of(|fate| fate == Fate::Healed).count(), "healed");
    tell(of(|fate| fate == Fate::Moved).count(), "moved on meanwhile");
    tell(of(|fate| fate == Fate::Waits).count(), "recovered by a node without you: goldseam why RUN");
    tell(of(|fate| fate == Fate::Stopped).count(), "stopped, to be looked at: goldseam explain P1");
    let told = of(|fate| matches!(fate, Fate::Told | Fate::Young)).count();
    if told > 0 {
        parts.push(format!("{told} can be healed: goldseam doctor --fix"));
    }
    let failed = of(|fate| fate == Fate::Failed).count();
    if failed > 0 {
        parts.push(format!("{failed} could not be healed now"));
    }
    let count = of(|fate| fate == Fate::NeedsHelp).count();
    if count > 0 {
        let codes: BTreeSet<Code> =
            of(|fate| fate == Fate::NeedsHelp).filter_map(|finding| finding.code).collect();
        let explain: Vec<String> = codes.iter().map(|code| format!("goldseam explain {code}")).collect();
        let verb = if count == 1 { "needs" } else { "need" };
        parts.push(format!("{count} {verb} you: {}", explain.join("; ")));
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

    #[test]
    fn only_what_was_healed_is_called_healed() {
        let words = |fate: Fate| {
            let findings = vec![finding(fate)];
            verdict(&Checkup { findings, healed: 0, healthy: true, rows_rewritten: 0, scanned: 1 }).0
        };
        assert!(words(Fate::Healed).ends_with("1 finding, 1 healed"));
        for fate in [Fate::Moved, Fate::Waits, Fate::Stopped] {
            assert!(!words(fate).contains("healed"), "{}", words(fate));
        }
    }
}
