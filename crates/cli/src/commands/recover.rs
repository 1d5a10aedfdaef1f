//! `goldseam recover`.

use clap::Args;
use goldseam::recovery::Code;
use goldseam::unstable::core::operation::Verb;
use goldseam::{RunId, Status};
use goldseam_api::Api;
use goldseam_api::doc::ItemsDoc;
use goldseam_api::doc::change::{NewRecovery, RecoveryDoc};
use goldseam_api::doc::run::WaitQuery;

use super::actor::Actor;
use super::bulk::{Bulk, BulkArgs, BulkTarget};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::out;

/// Diagnose runs and heal them
///
/// Applies the first rule that matches, or the rule from --rule. A remedy that cuts the log opens a new branch: nothing
/// is deleted, and --undo returns to the other side of the seam. Exits with 9 if the run needs an operator or was
/// parked, and with 11 if nothing is wrong and nothing was changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam recover ord-7 --dry-run --each\n  goldseam recover ord-7 --rule worker-lost\n  goldseam recover ord-7 --undo\n\nWhat the rules mean: goldseam explain worker-lost"
)]
pub(crate) struct RecoverArgs {
    /// The run
    run: Option<String>,
    /// Apply only this rule: its name, as in worker-lost, or its code, as in O2
    #[arg(long, value_name = "RULE", conflicts_with_all = ["undo", "where"])]
    rule: Option<Code>,
    /// Only report what would be done
    #[arg(long, conflicts_with = "undo")]
    dry_run: bool,
    /// Report what each rule that applies would do, not only the first
    #[arg(long, requires = "dry_run", conflicts_with_all = ["rule", "where"])]
    each: bool,
    /// First compensate completed steps that a cut would leave standing
    #[arg(long, conflicts_with_all = ["undo", "dry_run", "where"])]
    compensate: bool,
    /// Return to the other side of the latest seam, on a new branch
    #[arg(long, conflicts_with = "where")]
    undo: bool,
    #[command(flatten)]
    pub(crate) bulk: BulkArgs,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: RecoverArgs) -> Result<Exit, CliError> {
    let run = match args.bulk.target(Verb::Recover, args.run.as_deref())? {
        BulkTarget::Run(run) => run,
        BulkTarget::Many(condition) => {
            let bulk = Bulk::new(Verb::Recover, condition, args.bulk, args.dry_run);
            return bulk.run(app, args.actor).await;
        }
    };
    let api = app.api().await?;
    let caller = args.actor.caller();
    if args.undo {
        let undone = api.undo_recovery(&caller, &run, args.actor.reason()).await?;
        let text = format!("{run} is back on the other side of its seam, on branch {}", undone.branch);
        return Ok(app.print_result(&run, &undone, &text));
    }
    if args.each {
        return Ok(remedies(app, &run, &api.remedies(&run).await?));
    }
    let dry_run = args.dry_run;
    let new = NewRecovery {
        rule: args.rule,
        dry_run,
        compensate: args.compensate,
        by: None,
        reason: args.actor.reason,
    };
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
    for line in lines(&run, &recovery, dry_run, parked) {
        out::line(line);
    }
    if recovery.branch.is_some() {
        app.remark(&format!("both sides: goldseam show {run}; to undo: goldseam recover {run} --undo"));
    }
    Ok(exit)
}

/// Prints what each rule would do.
fn remedies(app: &App, run: &RunId, plans: &ItemsDoc<RecoveryDoc>) -> Exit {
    match () {
        () if app.json => out::json(plans),
        () if app.jsonl => plans.items.iter().for_each(out::jsonl),
        () if app.is_quiet() => {
            plans.items.iter().filter_map(|plan| plan.rule).for_each(|rule| out::line(rule.to_string()));
        }
        () if plans.items.is_empty() => out::line(format!("{run}: no rule applies")),
        () => plans.items.iter().flat_map(|plan| lines(run, plan, true, false)).for_each(out::line),
    }
    Exit::Ok
}

/// Whether the remedy parked the run.
async fn is_parked(api: &dyn Api, run: &RunId) -> Result<bool, CliError> {
    match api.result(run, WaitQuery::default()).await {
        Ok(ending) => Ok(ending.status == Status::Parked),
        // A log that cannot be read is parked by rule K1.
        Err(problem) if problem.code.as_deref() == Some("GS0224") => Ok(true),
        Err(problem) => Err(problem.into()),
    }
}

fn exit_of(recovery: &RecoveryDoc, dry_run: bool, parked: bool) -> Exit {
    match (recovery.healed, recovery.automatic) {
        _ if dry_run => Exit::Ok,
        (true, _) if parked => Exit::NeedsHelp,
        (true, _) => Exit::Ok,
        (false, Some(false)) => Exit::NeedsHelp,
        (false, _) => Exit::Unchanged,
    }
}

fn lines(run: &RunId, recovery: &RecoveryDoc, dry_run: bool, parked: bool) -> Vec<String> {
    let (Some(rule), Some(evidence)) = (&recovery.rule, &recovery.evidence) else {
        return vec![format!(
            "{run} is {}: nothing is wrong with it, and nothing was changed",
            recovery.status
        )];
    };
    let remedy = recovery.remedy.as_deref().unwrap_or_default();
    let mut lines = vec![format!("{run}: rule {}, {evidence}", rule.label())];
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
