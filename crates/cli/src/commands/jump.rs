//! `goldseam jump`.

use clap::Args;
use goldseam::{Path, RunId};
use goldseam_api::doc::change::NewJump;

use super::actor::Actor;
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::payload;

/// Jump back to a step, on a new branch
///
/// The run repeats the step and everything after it; the old branch stays in the log. Mail that was consumed after the
/// step is delivered again, unless --drop-mail is given. Completed steps with a compensation are left standing, unless
/// --compensate is given; --dry-run lists them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam jump ord-7 charge\n  goldseam jump ord-7 reserve --input '{\"customer\":\"ben\"}' --compensate\n\nSee the result: goldseam branches ord-7, goldseam diff ord-7 b1 b2"
)]
pub(crate) struct JumpArgs {
    /// The run
    run: String,
    /// The step, wait, sleep or question to jump to, as `goldseam show` names it
    step: String,
    /// New input of the run: JSON, @file, or - for stdin
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    input: Option<String>,
    /// Do not deliver again mail that was consumed after the step
    #[arg(long)]
    drop_mail: bool,
    /// First compensate the steps after this one
    #[arg(long)]
    compensate: bool,
    /// Only report what would be left standing
    #[arg(long, conflicts_with = "compensate")]
    dry_run: bool,
    /// Drop a pending cancel request; otherwise the jump is refused while one is pending
    #[arg(long)]
    drop_cancel: bool,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: JumpArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let step = Path::new(&args.step)?;
    let input = args.input.as_deref().map(|text| payload::read(Some(text))).transpose()?;
    let caller = args.actor.caller();
    let dry_run = args.dry_run;
    let new = NewJump {
        to: args.step,
        input,
        drop_mail: args.drop_mail,
        compensate: args.compensate,
        dry_run,
        drop_cancel: args.drop_cancel,
        by: None,
        reason: args.actor.reason,
    };
    let jumped = app.api().await?.jump(&caller, &run, new).await?;
    let (first, how_to_compensate) = match &jumped.branch {
        _ if dry_run => (
            format!("{run} would jump to {step}"),
            match &jumped.waits_for {
                Some(condition) => format!("they cannot be compensated now: {condition}"),
                None => format!("to compensate them first: goldseam jump {run} {step} --compensate"),
            },
        ),
        Some(branch) if !jumped.compensating => (
            format!("{run} jumped to {step}, on branch {branch}"),
            format!("goldseam jump {run} {step} --compensate would have compensated them first"),
        ),
        _ => {
            let waits_for = jumped.waits_for.as_deref().unwrap_or("a worker");
            let first = format!("{run} jumps to {step} after its compensations");
            (format!("{first}; it waits for {waits_for}"), String::new())
        }
    };
    let cancel = match (jumped.cancel_pending, dry_run) {
        (false, _) => None,
        (true, true) => Some("a cancel request is pending: the jump needs --drop-cancel, which drops it"),
        (true, false) => Some("the pending cancel request was dropped"),
    };
    let cancel = cancel.into_iter().map(str::to_owned).collect();
    let standing = left_standing(&jumped.standing, jumped.over, how_to_compensate);
    let text = [vec![first], standing, cancel].concat().join("\n");
    Ok(app.print_result(&run, &jumped, &text))
}

/// Lists the steps that a jump leaves standing, and how to compensate them.
fn left_standing(standing: &[Path], was_over: bool, how_to_compensate: String) -> Vec<String> {
    if standing.is_empty() {
        return Vec::new();
    }
    let steps: Vec<&str> = standing.iter().map(Path::as_str).collect();
    let how = match was_over {
        true => "the run has ended, so they cannot be compensated".to_owned(),
        false => how_to_compensate,
    };
    vec![format!("left standing, to run again under new keys: {}", steps.join(", ")), how]
}
