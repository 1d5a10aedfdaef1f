//! `goldseam sweeper`.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::poll;
use goldseam::Millis;
use goldseam::healer::foreign::ForeignReport;
use goldseam::healer::sweeper::{Fate, SweepOptions, SweepReport, Sweeper};
use goldseam::recovery::Code;
use serde_json::{Value, json};

use super::until_told;
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::finding::{self, Item};
use crate::{out, text, when};

/// Look over all active runs, and heal those that are stalled
///
/// A finding must have held for --stale-after, the run not moving, before it is healed: that takes two
/// looks. So --once heals nothing but with --stale-after 0, which heals at the first look. No age makes a run
/// stalled that a live node executes. Any number of sweepers may run at once, beside engines that sweep too.
///
/// Where others keep states of their own beside the runs (`workflow/ID/state.json` in a bucket), those that are active
/// and whose orchestrator_task_id names no task that can still run get a new task; those without one are skipped.
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

/// What the sweep before told: kind, name, rule and fate.
type Told = HashSet<(&'static str, String, Option<Code>, Fate)>;

/// Everything that is stalled: runs, then states of others.
fn items(report: &SweepReport) -> Vec<Item<'_>> {
    let others = report.foreign.iter().flat_map(|foreign| &foreign.stalled).map(Item::from);
    report.stalled.iter().map(Item::from).chain(others).collect()
}

/// A sweep that found nothing is silent unless it is the only one; what was told before is not told again.
fn show(app: &App, report: &SweepReport, args: &SweeperArgs, told: &mut Told) {
    let fact = |item: &Item<'_>| (item.kind, item.name.to_owned(), item.code, item.fate.clone());
    let items = items(report);
    let facts: Told = items.iter().map(fact).collect();
    match () {
        () if app.wants_json() && args.once => out::json(&document(app.now(), report)),
        () if app.wants_json() => out::jsonl(&document(app.now(), report)),
        () if app.quiet => items.iter().for_each(|item| out::line(item.name)),
        () if items.is_empty() && report.rows_rewritten == 0 && !args.once => {}
        () => {
            let at = if args.once { String::new() } else { format!("{} ", when::iso(app.now())) };
            let young = args.once && items.iter().any(|item| *item.fate == Fate::Young);
            let news: Vec<Item<'_>> = items.into_iter().filter(|item| !told.contains(&fact(item))).collect();
            if !news.is_empty() {
                app.table(&finding::table(app, &news));
            }
            out::line(format!("{at}{}", sentence(report)));
            if young {
                app.remark("nothing is healed at the first look; --stale-after 0 does so");
            }
        }
    }
    *told = facts;
}

fn sentence(report: &SweepReport) -> String {
    let SweepReport { scanned, terminal, healthy, healed, rows_rewritten, stalled, .. } = report;
    let rows = match rows_rewritten {
        0 => String::new(),
        rows => format!(", {rows} cached rows written anew"),
    };
    let stalled = stalled.len();
    let foreign = report.foreign.as_ref().filter(|foreign| foreign.scanned > 0).map(states);
    format!(
        "{scanned} scanned: {terminal} terminal, {healthy} healthy, {stalled} stalled, {healed} healed{rows}{}",
        foreign.unwrap_or_default()
    )
}

fn states(foreign: &ForeignReport) -> String {
    let ForeignReport { scanned, skipped, healthy, healed, stalled } = foreign;
    let (what, stalled) = (text::count(*scanned, "state"), stalled.len());
    format!("; {what} of others: {skipped} skipped, {healthy} healthy, {stalled} stalled, {healed} healed")
}

fn document(at: Millis, report: &SweepReport) -> Value {
    let SweepReport { scanned, terminal, healthy, healed, rows_rewritten, stalled, foreign, .. } = report;
    let stalled: Vec<Value> = stalled.iter().map(finding::stalled).collect();
    let mut document = json!({ "at": when::iso(at), "scanned": scanned, "terminal": terminal,
        "healthy": healthy, "healed": healed, "rows_rewritten": rows_rewritten, "stalled": stalled });
    if let Some(ForeignReport { scanned, skipped, healthy, healed, stalled }) = foreign {
        let stalled: Vec<Value> = stalled.iter().map(finding::foreign).collect();
        document["foreign"] = json!({ "scanned": scanned, "skipped": skipped, "healthy": healthy,
            "healed": healed, "stalled": stalled });
    }
    document
}

#[cfg(test)]
mod tests {
    use goldseam::RunId;
    use goldseam::healer::foreign::ForeignStalled;
    use insta::assert_snapshot;

    use super::*;

    fn report() -> SweepReport {
        let stalled = |name: &str, evidence: &str, fate: Fate| ForeignStalled {
            id: RunId::new(name).unwrap(),
            evidence: evidence.to_owned(),
            since: Millis(1_700_000_000_000),
            fate,
        };
        let foreign = ForeignReport {
            scanned: 6,
            skipped: 2,
            healthy: 1,
            healed: 1,
            stalled: vec![
                stalled("wf-1", "its task t-1 is missing", Fate::Healed),
                stalled("wf-2", "its task t-2 is completed", Fate::Young),
                stalled("wf-3", "its task t-3 is dead", Fate::NeedsHelp),
            ],
        };
        SweepReport { scanned: 3, healthy: 3, foreign: Some(foreign), ..SweepReport::default() }
    }

    #[test]
    fn states_of_others_are_counted_by_themselves() {
        assert_snapshot!(sentence(&report()), @"3 scanned: 0 terminal, 3 healthy, 0 stalled, 0 healed; 6 states of others: 2 skipped, 1 healthy, 3 stalled, 1 healed");
        let nobody = SweepReport { foreign: Some(ForeignReport::default()), ..report() };
        assert_snapshot!(sentence(&nobody), @"3 scanned: 0 terminal, 3 healthy, 0 stalled, 0 healed");
    }

    #[test]
    fn states_of_others_are_told_to_programs_by_themselves() {
        let document = document(Millis(1_700_000_060_000), &report());
        assert_snapshot!(serde_json::to_string_pretty(&document).unwrap(), @r#"
        {
          "at": "2023-11-14T22:14:20.000Z",
          "foreign": {
            "healed": 1,
            "healthy": 1,
            "scanned": 6,
            "skipped": 2,
            "stalled": [
              {
                "evidence": "its task t-1 is missing",
                "fate": "healed",
                "remedy": "give it a new task",
                "since": "2023-11-14T22:13:20.000Z",
                "state": "wf-1"
              },
              {
                "evidence": "its task t-2 is completed",
                "fate": "young",
                "remedy": "give it a new task",
                "since": "2023-11-14T22:13:20.000Z",
                "state": "wf-2"
              },
              {
                "evidence": "its task t-3 is dead",
                "fate": "needs_help",
                "remedy": "see why its task takes its workers down",
                "since": "2023-11-14T22:13:20.000Z",
                "state": "wf-3"
              }
            ]
          },
          "healed": 0,
          "healthy": 3,
          "rows_rewritten": 0,
          "scanned": 3,
          "stalled": [],
          "terminal": 0
        }
        "#);
    }
}
