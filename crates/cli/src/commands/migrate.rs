//! `goldseam migrate`.

use clap::Args;
use goldseam::preflight::{Order, Verdict};
use goldseam::{RunId, Seq};
use goldseam_api::Api;
use goldseam_api::doc::change::NewMigration;
use goldseam_api::doc::event::History;
use serde_json::json;

use super::history;
use super::preflight::Program;
use super::who::Who;
use crate::app::App;
use crate::fail::{Exit, Fail};

/// Move a run to another version of its workflow
///
/// With --program, the run's history is first tried on that version, as by `goldseam preflight`; a run that would park or
/// fail stays where it is unless --force is given. A parked run goes on. A run that a live node executes is refused: pause
/// it first, and resume it afterwards. A run that was moved wrongly parks (V1) and can be moved back.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  goldseam migrate ord-7 --to-version 2 --program ./worker --dry-run\n  goldseam migrate ord-7 --to-version 2 --program ./worker --reason 'version 1 is gone'\n  goldseam migrate ord-7 --to-version 2 --force      without a preflight"
)]
pub(crate) struct MigrateArgs {
    /// The run
    run: String,
    /// The version to go on with
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u32).range(1..))]
    to_version: u32,
    #[command(flatten)]
    program: Program,
    /// Only tell what would happen
    #[arg(long)]
    dry_run: bool,
    /// Move it although it would park, or without a preflight
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    who: Who,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: MigrateArgs) -> Result<Exit, Fail> {
    let (run, to) = (RunId::new(&args.run)?, args.to_version);
    if !args.program.is_named() && !args.force && !args.dry_run {
        return Err(Fail::usage(
            "no preflight was made",
            format!("name the program with version {to}: --program PATH; or move it all the same: --force"),
        ));
    }
    let api = app.api().await?;
    let verdict = match args.program.is_named() {
        true => Some(tried(&*api, &run, to, &args.program).await?),
        false => None,
    };
    let bad = verdict.as_ref().filter(|verdict| **verdict != Verdict::Safe);
    if args.dry_run {
        return Ok(tell(app, &run, to, verdict.as_ref()));
    }
    if let Some(verdict) = bad.filter(|_| !args.force) {
        return Err(refused(&run, to, verdict));
    }
    let caller = args.who.caller();
    let new = NewMigration { to_version: to, by: None, reason: args.who.reason };
    let done = api.migrate(&caller, &run, new).await?;
    let words = match (&verdict, bad) {
        (_, Some(verdict)) => {
            format!("{run} goes on with version {to}, although it {}: {}", verdict.word(), verdict.reason())
        }
        (Some(_), None) => format!("{run} goes on with version {to}"),
        (None, None) => format!("{run} goes on with version {to}; no preflight was made"),
    };
    Ok(app.did(&run, &done, &words))
}

/// The run's history on that version, by the program.
async fn tried(api: &dyn Api, run: &RunId, to: u32, program: &Program) -> Result<Verdict, Fail> {
    let (items, damage) = history::events(api, run, None, Seq::ZERO).await?;
    let folder = tempfile::tempdir().map_err(|error| Fail::plain(error.to_string()))?;
    let file = folder.path().join("history.json");
    let document = History { items, next: None, run: run.clone(), damage };
    let text = serde_json::to_string(&document).map_err(|error| Fail::plain(error.to_string()))?;
    std::fs::write(&file, text).map_err(|error| Fail::plain(error.to_string()))?;
    let order = Order { histories: Some(file), to_version: Some(to), ..Order::default() };
    let report = program.answer(order).await?;
    Ok(report.findings.into_iter().next().map_or(Verdict::Safe, |finding| finding.verdict))
}

fn tell(app: &App, run: &RunId, to: u32, verdict: Option<&Verdict>) -> Exit {
    let word = verdict.map_or("untried", Verdict::word);
    let reason = verdict.map_or("", Verdict::reason);
    let words = match verdict {
        None => format!("{run} would go on with version {to}; no preflight was made"),
        Some(Verdict::Safe) => format!("{run} is safe: it would go on with version {to}"),
        Some(verdict) => format!("{run} {} with version {to}: {}", verdict.word(), verdict.reason()),
    };
    app.did(run, &json!({ "run": run, "to_version": to, "verdict": word, "reason": reason }), &words);
    match verdict {
        None | Some(Verdict::Safe) => Exit::Ok,
        Some(Verdict::Unknown { .. }) => Exit::Untried,
        Some(_) => Exit::WouldPark,
    }
}

fn refused(run: &RunId, to: u32, verdict: &Verdict) -> Fail {
    Fail {
        code: Some("GS0124".to_owned()),
        message: format!(
            "run {run} cannot go on with version {to}: it {}: {}",
            verdict.word(),
            verdict.reason()
        ),
        help: Some("change the code, or move the run all the same with --force".to_owned()),
        exit: match verdict {
            Verdict::Unknown { .. } => Exit::Untried,
            _ => Exit::WouldPark,
        },
    }
}
