//! `goldseam sweeper`.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::poll;
use goldseam::RunId;
use goldseam::healer::sweeper::{Fate, Stalled, SweepOptions, SweepReport, Sweeper};
use goldseam::recovery::Code;
use serde_json::{Value, json};

use super::until_told;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::finding::{self, Item};
use crate::{out, when};

/// Look over all active runs, and heal those that are stalled
///
/// A finding must have held for --stale-after, the run not moving, before it is healed: that takes two
/// looks. So --once heals nothing but with --stale-after 0, which heals at the first look. No age makes a run
/// stalled that a live node executes. Any number of sweepers may run at once, beside engines that sweep too.
#[derive(Debug, Args)]
#[command(
    after_help = "Durations are seconds, or spans such as 90s, 5m, 1h. Ctrl-C ends it after the batch that it is at.\n\nExamples:\n  goldseam sweeper\n  goldseam sweeper --interval 1m --stale-after 2m --json\n  goldseam sweeper --once --stale-after 0      heal now\n  goldseam sweeper --once --dry-run            only tell"
)]
pub(crate) struct SweeperArgs {
    /// Pause between two sweeps
    #[arg(long, value_name = "DURATION", value_parser = when::parse_seconds, default_value = "300")]
    interval: Duration,
    /// How long a finding must have held before it is healed
    #[arg(long, value_name = "DURATION", value_parser = when::parse_seconds, default_value = "600")]
    stale_after: Duration,
    /// One sweep, then end
    #[arg(long)]
    once: bool,
    /// Only tell; change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: SweeperArgs) -> Result<Exit, Fail> {
    let client = app.client().await?;
    let (stale_after, dry_run) = (Some(args.stale_after), args.dry_run);
    let mut sweeper = client.sweeper(SweepOptions { stale_after, dry_run, ..SweepOptions::default() });
    let mut told = pin!(until_told()?);
    if !args.once {
        app.remark(&format!("sweeping every {}; Ctrl-C ends it", when::span(args.interval)));
    }
    let mut told_before = Told::new();
    loop {
        let mut report = SweepReport { more: true, ..SweepReport::default() };
        let (mut swept, mut is_told) = (Ok(()), false);
        while report.more && swept.is_ok() && !is_told {
            swept = look(&mut sweeper, &mut report).await;
            is_told = poll!(told.as_mut()).is_ready();
        }
        match swept {
            Ok(()) => show(app, &report, &args, &mut told_before),
            Err(fail) if args.once => return Err(fail),
            // The store may be back at the next sweep.
            Err(fail) => drop(app.fail(&fail)),
        }
        if args.once || is_told {
            return Ok(Exit::Ok);
        }
        tokio::select! {
            () = told.as_mut() => return Ok(Exit::Ok),
            () = tokio::time::sleep(args.interval) => {}
        }
    }
}

async fn look(sweeper: &mut Sweeper, report: &mut SweepReport) -> Result<(), Fail> {
    report.add(sweeper.tick().await?);
    Ok(())
}

/// What the sweep before told: run, rule and fate.
type Told = HashSet<(RunId, Code, Fate)>;

/// A sweep that found nothing is silent unless it is the only one; what was told before is not told again.
fn show(app: &App, report: &SweepReport, args: &SweeperArgs, told: &mut Told) {
    let fact = |stalled: &Stalled| {
        let Stalled { found, fate, .. } = stalled;
        (found.run.clone(), found.diagnosis.rule, fate.clone())
    };
    let items: Vec<Item<'_>> = report.stalled.iter().map(Item::from).collect();
    match () {
        () if app.wants_json() && args.once => out::json(&document(app, report)),
        () if app.wants_json() => out::jsonl(&document(app, report)),
        () if app.quiet => items.iter().for_each(|item| out::line(item.name)),
        () if items.is_empty() && report.rows_rewritten == 0 && !args.once => {}
        () => {
            let at = if args.once { String::new() } else { format!("{} ", when::iso(app.now())) };
            let news = report.stalled.iter().filter(|stalled| !told.contains(&fact(stalled)));
            let news: Vec<Item<'_>> = news.map(Item::from).collect();
            if !news.is_empty() {
                app.table(&finding::table(app, &news));
            }
            out::line(format!("{at}{}", sentence(report)));
            if args.once && report.stalled.iter().any(|stalled| stalled.fate == Fate::Young) {
                app.remark("nothing is healed at the first look; --stale-after 0 does so");
            }
        }
    }
    *told = report.stalled.iter().map(fact).collect();
}

fn sentence(report: &SweepReport) -> String {
    let SweepReport { scanned, terminal, healthy, healed, rows_rewritten, stalled, .. } = report;
    let rows = match rows_rewritten {
        0 => String::new(),
        rows => format!(", {rows} cached rows written anew"),
    };
    let stalled = stalled.len();
    format!(
        "{scanned} scanned: {terminal} terminal, {healthy} healthy, {stalled} stalled, {healed} healed{rows}"
    )
}

fn document(app: &App, report: &SweepReport) -> Value {
    let SweepReport { scanned, terminal, healthy, healed, rows_rewritten, stalled, .. } = report;
    let stalled: Vec<Value> = stalled.iter().map(finding::stalled).collect();
    json!({ "at": when::iso(app.now()), "scanned": scanned, "terminal": terminal, "healthy": healthy,
        "healed": healed, "rows_rewritten": rows_rewritten, "stalled": stalled })
}
