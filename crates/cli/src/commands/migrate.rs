//! `goldseam migrate`.

use clap::Args;
use goldseam::preflight::{Order, Verdict};
use goldseam::{RunId, Seq};
use goldseam_api::Api;
use goldseam_api::doc::change::NewMigration;
use goldseam_api::doc::event::HistoryDoc;
use serde_json::json;

use super::actor::Actor;
use super::history;
use super::preflight::Program;
use crate::app::App;
use crate::error::{CliError, Exit};

/// Move a run to another version of its workflow
///
/// With --program, the command first replays the run's history on that version, as `goldseam preflight` does; a run
/// that would park or fail is not moved, unless --force is given. A parked run continues after the move. A run that a
/// live node executes is refused: pause it first, and resume it afterwards. A run on the wrong version parks (V1) and
/// can be moved back.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam migrate ord-7 --to-version 2 --program ./worker --dry-run\n  goldseam migrate ord-7 --to-version 2 --program ./worker --reason 'version 1 is gone'\n  goldseam migrate ord-7 --to-version 2 --force      without a preflight"
)]
pub(crate) struct MigrateArgs {
    /// The run
    run: String,
    /// The version to move the run to
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u32).range(1..))]
    to_version: u32,
    #[command(flatten)]
    program: Program,
    /// Only report what would happen
    #[arg(long)]
    dry_run: bool,
    /// Move the run without a preflight, or although it would park
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    actor: Actor,
}

pub(crate) async fn run(app: &App, args: MigrateArgs) -> Result<Exit, CliError> {
    let run = RunId::new(&args.run)?;
    let to = args.to_version;
    if !args.program.is_named() && !args.force && !args.dry_run {
        return Err(CliError::usage(
            "a migration needs a preflight",
            format!(
                "pass the program with version {to} as --program PATH, or skip the preflight with --force"
            ),
        ));
    }
    let api = app.api().await?;
    let verdict = match args.program.is_named() {
        true => Some(preflight(&*api, &run, to, &args.program).await?),
        false => None,
    };
    let bad = verdict.as_ref().filter(|verdict| **verdict != Verdict::Safe);
    if args.dry_run {
        return Ok(report(app, &run, to, verdict.as_ref()));
    }
    if let Some(verdict) = bad.filter(|_| !args.force) {
        return Err(refused(&run, to, verdict));
    }
    let caller = args.actor.caller();
    let new = NewMigration { to_version: to, by: None, reason: args.actor.reason };
    let done = api.migrate(&caller, &run, new).await?;
    let text = match (&verdict, bad) {
        (_, Some(verdict)) => {
            format!("moved {run} to version {to}, although it {}: {}", verdict.word(), verdict.reason())
        }
        (Some(_), None) => format!("moved {run} to version {to}"),
        (None, None) => format!("moved {run} to version {to}, without a preflight"),
    };
    Ok(app.print_result(&run, &done, &text))
}

/// Has the program replay the run's history on that version.
async fn preflight(api: &dyn Api, run: &RunId, to: u32, program: &Program) -> Result<Verdict, CliError> {
    let (items, damage) = history::events(api, run, None, Seq::ZERO).await?;
    let folder = tempfile::tempdir().map_err(|error| CliError::plain(error.to_string()))?;
    let file = folder.path().join("history.json");
    let document = HistoryDoc { items, next: None, run: run.clone(), damage };
    let text = serde_json::to_string(&document).map_err(|error| CliError::plain(error.to_string()))?;
    std::fs::write(&file, text).map_err(|error| CliError::plain(error.to_string()))?;
    let order = Order { histories: Some(file), to_version: Some(to), ..Order::default() };
    let report = program.answer(order).await?;
    Ok(report.findings.into_iter().next().map_or(Verdict::Safe, |finding| finding.verdict))
}

fn report(app: &App, run: &RunId, to: u32, verdict: Option<&Verdict>) -> Exit {
    let word = verdict.map_or("untried", Verdict::word);
    let reason = verdict.map_or("", Verdict::reason);
    let text = match verdict {
        None => format!("{run} would move to version {to}, without a preflight"),
        Some(Verdict::Safe) => format!("{run} is safe: it would continue on version {to}"),
        Some(verdict) => format!("{run} {} on version {to}: {}", verdict.word(), verdict.reason()),
    };
    app.print_result(run, &json!({ "run": run, "to_version": to, "verdict": word, "reason": reason }), &text);
    match verdict {
        None | Some(Verdict::Safe) => Exit::Ok,
        Some(Verdict::Unknown { .. }) => Exit::Untried,
        Some(_) => Exit::WouldPark,
    }
}

fn refused(run: &RunId, to: u32, verdict: &Verdict) -> CliError {
    CliError {
        code: Some("GS0124".to_owned()),
        message: format!(
            "run {run} cannot continue on version {to}: it {}: {}",
            verdict.word(),
            verdict.reason()
        ),
        help: Some("change the code, or move the run anyway with --force".to_owned()),
        next: Vec::new(),
        exit: match verdict {
            Verdict::Unknown { .. } => Exit::Untried,
            _ => Exit::WouldPark,
        },
    }
}
