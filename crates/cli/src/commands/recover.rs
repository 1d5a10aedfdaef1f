//! `goldseam recover`.

use clap::Args;
use goldseam::recovery::Code;
use goldseam::{RunId, Status};
use goldseam_api::Api;
use goldseam_api::doc::change::{NewRecovery, Recovery};
use goldseam_api::doc::run::WaitQuery;

use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::out;

/// Find out what is wrong with a run, and heal it
///
/// Heals by the first rule that applies, or by the one that is named. A remedy that cuts opens a new branch: nothing
/// is ever deleted, and --undo goes back to the other side of the seam. Exits with 9 if only a person can help or the run
/// was parked, and with 11 if nothing is wrong with the run: then nothing was changed.
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
    let (api, caller) = (app.api().await?, args.who.caller());
    if args.undo {
        let undone = api.undo_recovery(&caller, &run, args.who.reason()).await?;
        let words = format!("{run} is back on the other side of its seam, on branch {}", undone.branch);
        return Ok(app.did(&run, &undone, &words));
    }
    let (rule, dry_run, compensate) = (args.rule, args.dry_run, args.compensate);
    let new = NewRecovery { rule, dry_run, compensate, by: None, reason: args.who.reason };
    let recovery = api.recover(&caller, &run, new).await?;
    let parked = recovery.healed && is_parked(&*api, &run).await?;
    let exit = exit_of(&recovery, dry_run, parked);
    if app.wants_json() {
        out::json(&recovery);
        return Ok(exit);
    }
    if app.is_quiet() {
        out::line(run.as_str());
        return Ok(exit);
    }
    for line in lines(&run, &recovery, (dry_run, parked)) {
        out::line(line);
    }
    if recovery.branch.is_some() {
        app.remark(&format!("both sides: goldseam show {run}; back again: goldseam recover {run} --undo"));
    }
    Ok(exit)
}

/// Whether all that a remedy could do was to park the run.
async fn is_parked(api: &dyn Api, run: &RunId) -> Result<bool, Fail> {
    match api.result(run, WaitQuery::default()).await {
        Ok(ending) => Ok(ending.status == Status::Parked),
        // A log that cannot be read is parked by rule K1.
        Err(problem) if problem.code.as_deref() == Some("GS0224") => Ok(true),
        Err(problem) => Err(problem.into()),
    }
}

fn exit_of(recovery: &Recovery, dry_run: bool, parked: bool) -> Exit {
    match (recovery.healed, recovery.automatic) {
        _ if dry_run => Exit::Ok,
        (true, _) if parked => Exit::NeedsHelp,
        (true, _) => Exit::Ok,
        (false, Some(false)) => Exit::NeedsHelp,
        (false, _) => Exit::Unchanged,
    }
}

fn lines(run: &RunId, recovery: &Recovery, (dry_run, parked): (bool, bool)) -> Vec<String> {
    let (Some(rule), Some(evidence)) = (&recovery.rule, &recovery.evidence) else {
        return vec![format!(
            "{run} is {}: nothing is wrong with it, and nothing was changed",
            recovery.status
        )];
    };
    let remedy = recovery.remedy.as_deref().unwrap_or_default();
    let mut lines = vec![format!("{run}: rule {rule}, {evidence}")];
    lines.push(match (recovery.automatic.unwrap_or_default(), &recovery.branch) {
        (false, _) if dry_run => format!("needs you: {remedy}"),
        (true, _) if dry_run => format!("would: {remedy}"),
        (_, Some(branch)) if recovery.healed => format!("healed: now on branch {branch}"),
        (_, None) if recovery.healed && *rule == Code::P1 => format!("stopped: {remedy}"),
        (_, None) if parked => format!("parked, not healed; it needs you: goldseam explain {rule}"),
        (_, None) if recovery.healed => format!("healed: {remedy}"),
        (true, _) => "it moved on meanwhile: nothing was changed".to_owned(),
        (false, _) => format!("needs you, nothing was changed: {remedy}"),
    });
    if !recovery.standing.is_empty() {
        let steps: Vec<&str> = recovery.standing.iter().map(goldseam::Path::as_str).collect();
        lines.push(format!("left standing, to run again under the same keys: {}", steps.join(", ")));
    }
    lines
}
