//! `goldseam sweeper`.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::poll;
use goldseam::recovery::Code;
use goldseam_api::doc::heal::{FateDoc, FindingDoc, ForeignSweepDoc, NewSweep, SweepDoc};

use super::{Signals, actor};
use crate::app::App;
use crate::error::{CliError, Exit};
use crate::{finding, out, text, time};

/// Examine all active runs and heal stalled ones
///
/// A finding must have held for --stale-after, while the run did not move, before it is healed. A sweeper remembers
/// when it first saw a finding. With --once, the age of a finding comes from the last event, the row, the task and the
/// owner's last beat, by the store's clock; --stale-after 0 heals immediately. A run that a live node executes is never
/// stalled, whatever its age. Several sweepers may run at once, beside engines, which sweep too.
///
/// Other systems may keep their own workflow states beside the runs (`workflow/ID/state.json` in a bucket). Sweepers
/// ignore these foreign states unless you pass --foreign. Then an active state whose orchestrator_task_id names no task
/// in Goldseam's own queue that can still run gets a new task; states without an orchestrator_task_id are skipped. Do
/// not pass --foreign if their tasks are in another queue; use the library, which accepts a lookup function. A foreign
/// state must have been seen stalled for --stale-after, even with --once.
#[derive(Debug, Args)]
#[command(
    after_help = "Durations are seconds, or spans such as 90s, 5m, 1h. Ctrl-C ends the sweeper after the current batch.\n\nExamples:\n  goldseam sweeper\n  goldseam sweeper --interval 1m --stale-after 2m --json\n  goldseam sweeper --once --stale-after 0      heal now\n  goldseam sweeper --once --dry-run            only report\n  goldseam sweeper --foreign --foreign-queue theirs"
)]
pub(crate) struct SweeperArgs {
    /// Pause between two sweeps
    #[arg(long, value_name = "DURATION", value_parser = time::parse_seconds, default_value = "300")]
    interval: Duration,
    /// How long a finding must have held before it is healed
    #[arg(long, value_name = "DURATION", value_parser = time::parse_seconds, default_value = "600")]
    stale_after: Duration,
    /// Also heal foreign states; their tasks are looked up in Goldseam's own queue
    #[arg(long)]
    foreign: bool,
    /// Queue of the tasks for foreign states
    #[arg(long, value_name = "QUEUE", requires = "foreign", default_value = "default")]
    foreign_queue: String,
    /// Kind of the tasks for foreign states
    #[arg(long, value_name = "KIND", requires = "foreign", default_value = "workflow.orchestrate")]
    foreign_kind: String,
    /// Make one sweep, then exit
    #[arg(long)]
    once: bool,
    /// Only report; change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(app: &App, args: SweeperArgs) -> Result<Exit, CliError> {
    if args.interval.is_zero() && !args.once {
        let help = "pass a duration such as 30s, or --once for a single sweep";
        return Err(CliError::usage("--interval must be greater than zero", help));
    }
    let api = app.api().await?;
    let caller = actor::caller(None);
    let stale_after_ms = u64::try_from(args.stale_after.as_millis()).ok();
    let new = NewSweep {
        stale_after_ms,
        dry_run: args.dry_run,
        from_log: args.once,
        foreign: args.foreign,
        foreign_queue: args.foreign.then(|| args.foreign_queue.clone()),
        foreign_kind: args.foreign.then(|| args.foreign_kind.clone()),
    };
    if args.foreign {
        app.remark("tasks of foreign states are looked up in Goldseam's own queue");
    }
    let mut signals = Signals::install()?;
    let mut signal = pin!(signals.next());
    if !args.once {
        app.remark(&format!("sweeping every {}; Ctrl-C ends it", time::span(args.interval)));
    }
    let mut reported = Reported::new();
    loop {
        let mut swept = api.sweep(&caller, new.clone()).await;
        let mut is_stopped = poll!(signal.as_mut()).is_ready();
        while let Ok(whole) = &mut swept
            && whole.more
            && !is_stopped
        {
            match api.sweep(&caller, new.clone()).await {
                Ok(later) => whole.add(later),
                Err(problem) => swept = Err(problem),
            }
            is_stopped = poll!(signal.as_mut()).is_ready();
        }
        match swept {
            Ok(sweep) => show(app, sweep, &args, &mut reported),
            Err(problem) if args.once => return Err(problem.into()),
            // The store may be available again at the next sweep.
            Err(problem) => drop(app.print_error(&problem.into())),
        }
        if args.once || is_stopped {
            return Ok(Exit::Ok);
        }
        tokio::select! {
            _ = signal.as_mut() => return Ok(Exit::Ok),
            () = tokio::time::sleep(args.interval) => {}
        }
    }
}

/// The findings of the previous sweep: kind, name, rule and fate.
type Reported = HashSet<(&'static str, String, Option<Code>, FateDoc)>;

/// All stalled runs, then stalled foreign states.
fn findings(sweep: &SweepDoc) -> Vec<&FindingDoc> {
    sweep.stalled.iter().chain(sweep.foreign.iter().flat_map(|foreign| &foreign.stalled)).collect()
}

/// Prints a sweep. Without --once, prints nothing if nothing was found, and only findings that the previous sweep did
/// not report.
fn show(app: &App, sweep: SweepDoc, args: &SweeperArgs, reported: &mut Reported) {
    let fact = |finding: &FindingDoc| {
        let (kind, name) = finding.subject();
        (kind, name.to_owned(), finding.code, finding.fate)
    };
    // The sweep is complete, or the user ended it.
    let sweep = SweepDoc { more: false, ..sweep };
    let findings = findings(&sweep);
    let has_unnamed = sweep.foreign.as_ref().is_some_and(|foreign| !foreign.unnamed.is_empty());
    let facts: Reported = findings.iter().map(|finding| fact(finding)).collect();
    match () {
        () if app.wants_json() && args.once => out::json(&sweep),
        () if app.wants_json() => out::jsonl(&sweep),
        () if app.quiet => findings.iter().for_each(|finding| out::line(finding.subject().1)),
        () if findings.is_empty() && sweep.rows_rewritten == 0 && !has_unnamed && !args.once => {}
        () => {
            let at = if args.once { String::new() } else { format!("{} ", time::iso(app.now())) };
            let young = args.once && findings.iter().any(|finding| finding.fate == FateDoc::Young);
            let news: Vec<&FindingDoc> =
                findings.into_iter().filter(|finding| !reported.contains(&fact(finding))).collect();
            if !news.is_empty() {
                app.table(&finding::table(app, &news));
            }
            out::line(format!("{at}{}", sentence(&sweep)));
            for name in sweep.foreign.iter().flat_map(|foreign| &foreign.unnamed) {
                app.remark(&format!("skipped foreign state {name:?}: its name is not a valid run id"));
            }
            if young {
                app.remark("findings that have not held for --stale-after are not healed; --stale-after 0 heals them now");
            }
        }
    }
    *reported = facts;
}

fn sentence(sweep: &SweepDoc) -> String {
    let SweepDoc { scanned, terminal, healthy, healed, rows_rewritten, stalled, .. } = sweep;
    let rows = match rows_rewritten {
        0 => String::new(),
        rows => format!(", {rows} cached rows rewritten"),
    };
    let stalled = stalled.len();
    let foreign = sweep.foreign.as_ref().filter(|foreign| foreign.scanned > 0).map(states);
    format!(
        "{scanned} scanned: {terminal} terminal, {healthy} healthy, {stalled} stalled, {healed} healed{rows}{}",
        foreign.unwrap_or_default()
    )
}

fn states(foreign: &ForeignSweepDoc) -> String {
    let ForeignSweepDoc { scanned, skipped, healthy, healed, stalled, .. } = foreign;
    let states = text::count(*scanned, "foreign state");
    let stalled = stalled.len();
    format!("; {states}: {skipped} skipped, {healthy} healthy, {stalled} stalled, {healed} healed")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn foreign_states_are_counted_separately() {
        let stalled = json!({ "state": "wf-1", "evidence": "-", "remedy": "-", "fate": "young" });
        let mut sweep = json!({ "at": "never", "scanned": 3, "terminal": 0, "healthy": 3, "healed": 0,
            "rows_rewritten": 0, "stalled": [], "foreign": { "scanned": 6, "skipped": 2, "healthy": 1,
            "healed": 1, "stalled": [stalled, stalled, stalled] } });
        let read = |sweep: &serde_json::Value| serde_json::from_value::<SweepDoc>(sweep.clone()).unwrap();
        assert_snapshot!(sentence(&read(&sweep)), @"3 scanned: 0 terminal, 3 healthy, 0 stalled, 0 healed; 6 foreign states: 2 skipped, 1 healthy, 3 stalled, 1 healed");
        sweep["foreign"] = json!({ "scanned": 0, "skipped": 0, "healthy": 0, "healed": 0, "stalled": [] });
        assert_snapshot!(sentence(&read(&sweep)), @"3 scanned: 0 terminal, 3 healthy, 0 stalled, 0 healed");
    }
}
