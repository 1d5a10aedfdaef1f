//! `goldseam recover`.

use clap::Args;
use goldseam::RunId;
use goldseam::healer::Healed;
use goldseam::healer::by_hand::{RecoverOptions, Recovery};
use goldseam::recovery::Code;
use serde_json::{Value, json};

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;

/// Find out what is wrong with a run, and heal it
///
/// Heals by the first rule that applies, or by the one that is named. A remedy that cuts opens a new branch: nothing
/// is ever deleted, and --undo goes back to the other side of the seam. A run that is well is left alone.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam recover ord-7 --dry-run\n  goldseam recover ord-7 --rule A2\n  goldseam recover ord-7 --undo\n\nWhat the rules mean: goldseam explain A2"
)]
pub(crate) struct RecoverArgs {
    /// The run
    run: String,
    /// Heal by this rule only
    #[arg(long, value_name = "CODE", conflicts_with = "undo")]
    rule: Option<Code>,
    /// Only tell what would be done
    #[arg(long, conflicts_with = "undo")]
    dry_run: bool,
    /// First undo completed steps that a cut would leave standing
    #[arg(long, conflicts_with_all = ["undo", "dry_run"])]
    compensate: bool,
    /// Go back to the other side of the latest seam, on a new branch
    #[arg(long)]
    undo: bool,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: RecoverArgs) -> Result<Exit, Fail> {
    let run = RunId::new(&args.run)?;
    let client = app.client().await?;
    if args.undo {
        let event = client.undo_recovery(&run, args.who.by()).await?;
        let branch = client.get(&run).await?.branch;
        let document = json!({ "run": run, "branch": branch.to_string(), "event": event });
        return Ok(app.did(
            &run,
            &document,
            &format!("{run} is back on the other side of its seam, on branch {branch}"),
        ));
    }
    let (rule, dry_run, compensate) = (args.rule, args.dry_run, args.compensate);
    let recovery = client.recover(&run, RecoverOptions { rule, dry_run, compensate }).await?;
    if args.who.says_why() && matches!(recovery.healed, Some(Healed::Done { .. })) {
        client.annotate(&run, args.who.by()).await?;
    }
    if app.wants_json() {
        let mut document = told(&recovery);
        document["run"] = json!(run);
        out::json(&document);
        return Ok(Exit::Ok);
    }
    if app.is_quiet() {
        out::line(run.as_str());
        return Ok(Exit::Ok);
    }
    for line in lines(&run, &recovery) {
        out::line(line);
    }
    if recovery.branch().is_some() {
        app.remark(&format!("both sides: goldseam show {run}; back again: goldseam recover {run} --undo"));
    }
    Ok(Exit::Ok)
}

fn lines(run: &RunId, recovery: &Recovery) -> Vec<String> {
    let Some(found) = &recovery.found else {
        return vec![format!(
            "{run} is {}: nothing is wrong with it, and nothing was changed",
            recovery.status
        )];
    };
    let diagnosis = &found.diagnosis;
    let (rule, remedy) = (diagnosis.rule, diagnosis.remedy.describe());
    let mut lines = vec![format!("{run}: rule {rule}, {}", diagnosis.evidence)];
    lines.push(match (&recovery.healed, recovery.branch()) {
        (None, _) if !diagnosis.remedy.is_automatic() => format!("needs you: {remedy}"),
        (None, _) => format!("would: {remedy}"),
        (Some(Healed::Done { .. }), Some(branch)) => format!("healed: now on branch {branch}"),
        (Some(Healed::Done { .. }), None) => format!("healed: {remedy}"),
        (Some(Healed::Moved), _) => "it moved on meanwhile: nothing was changed".to_owned(),
        (Some(Healed::NotByItself), _) => format!("needs you, nothing was changed: {remedy}"),
    });
    if !recovery.standing.is_empty() {
        let steps: Vec<&str> = recovery.standing.iter().map(goldseam::Path::as_str).collect();
        lines.push(format!("left standing, to run again under the same keys: {}", steps.join(", ")));
    }
    lines
}

/// A recovery as a document.
pub(crate) fn told(recovery: &Recovery) -> Value {
    let done = matches!(recovery.healed, Some(Healed::Done { .. }));
    let diagnosis = recovery.found.as_ref().map(|found| &found.diagnosis);
    json!({
        "needed": recovery.was_needed(),
        "healed": done,
        "status": recovery.status,
        "rule": diagnosis.map(|d| d.rule),
        "evidence": diagnosis.map(|d| d.evidence.clone()),
        "remedy": diagnosis.map(|d| d.remedy.describe()),
        "branch": recovery.branch().map(|branch| branch.to_string()),
        "standing": recovery.standing,
    })
}
