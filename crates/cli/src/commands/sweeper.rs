//! `goldseam sweeper`.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures_util::poll;
use goldseam::recovery::Code;
use goldseam_api::doc::heal::{Fate, Finding, ForeignSweep, NewSweep, Sweep};

use super::{Signals, who};
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::{finding, out, text, when};

/// Look over all active runs, and heal those that are stalled
///
/// A finding must have held for --stale-after, the run not moving, before it is healed. A sweeper that stays remembers
/// when it first saw a finding. With --once the age comes from the log's last event, the row, the task and the owner's last
/// beat, by the store's clock; --stale-after 0 heals at the first look. No age makes a run stalled that a live node executes.
/// Any number of sweepers may run at once, beside engines that sweep too.
///
/// Others may keep states of their own beside the runs (`workflow/ID/state.json` in a bucket). They are left alone unless
/// you pass --foreign: then those that are active and whose orchestrator_task_id names no task in Goldseam's own queue that
/// can still run get a new task; those without one are skipped. If their tasks are in another queue, do not pass it; use
/// the library, which takes a lookup. A foreign state must have been seen stalled for --stale-after, with --once too.
#[derive(Debug, Args)]
#[command(
    after_help = "Durations are seconds, or spans such as 90s, 5m, 1h. Ctrl-C ends it after the batch that it is at.\n\nExamples:\n  goldseam sweeper\n  goldseam sweeper --interval 1m --stale-after 2m --json\n  goldseam sweeper --once --stale-after 0      heal now\n  goldseam sweeper --once --dry-run            only tell\n  goldseam sweeper --foreign --foreign-queue theirs"
)]
pub(crate) struct SweeperArgs {
    /// Pause between two sweeps
    #[arg(long, value_name = "DURATION", value_parser = when::parse_seconds, default_value = "300")]
    interval: Duration,
    /// How long a finding must have held before it is healed
    #[arg(long, value_name = "DURATION", value_parser = when::parse_seconds, default_value = "600")]
    stale_after: Duration,
    /// Heal the states that others keep beside the runs, too: their tasks are looked up in Goldseam's own queue
    #[arg(long)]
    foreign: bool,
    /// Queue of the tasks that states of others get
    #[arg(long, value_name = "QUEUE", requires = "foreign", default_value = "default")]
    foreign_queue: String,
    /// Kind of the tasks that states of others get
    #[arg(long, value_name = "KIND", requires = "foreign", default_value = "workflow.orchestrate")]
    foreign_kind: String,
    /// One sweep, then end
    #[arg(long)]
    once: bool,
    /// Only tell; change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Carries it out.
pub(crate) async fn run(app: &App, args: SweeperArgs) -> Result<Exit, Fail> {
    if args.interval.is_zero() && !args.once {
        let help = "pass a span such as 30s, or --once for a single sweep";
        return Err(Fail::usage("--interval must be greater than zero", help));
    }
    let (api, caller) = (app.api().await?, who::caller(None));
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
        app.remark("states of others: their tasks are looked up in Goldseam's own queue");
    }
    let mut signals = Signals::install()?;
    let mut told = pin!(signals.next());
    if !args.once {
        app.remark(&format!("sweeping every {}; Ctrl-C ends it", when::span(args.interval)));
    }
    let mut told_before = Told::new();
    loop {
        let (mut swept, mut is_told) =
            (api.sweep(&caller, new.clone()).await, poll!(told.as_mut()).is_ready());
        while let Ok(whole) = &mut swept
            && whole.more
            && !is_told
        {
            match api.sweep(&caller, new.clone()).await {
                Ok(later) => whole.add(later),
                Err(problem) => swept = Err(problem),
            }
            is_told = poll!(told.as_mut()).is_ready();
        }
        match swept {
            Ok(sweep) => show(app, sweep, &args, &mut told_before),
            Err(problem) if args.once => return Err(problem.into()),
            // The store may be back at the next sweep.
            Err(problem) => drop(app.fail(&problem.into())),
        }
        if args.once || is_told {
            return Ok(Exit::Ok);
        }
        tokio::select! {
            _ = told.as_mut() => return Ok(Exit::Ok),
            () = tokio::time::sleep(args.interval) => {}
        }
    }
}

/// What the sweep before told: kind, name, rule and fate.
type Told = HashSet<(&'static str, String, Option<Code>, Fate)>;

/// Everything that is stalled: runs, then states of others.
fn findings(sweep: &Sweep) -> Vec<&Finding> {
    sweep.stalled.iter().chain(sweep.foreign.iter().flat_map(|foreign| &foreign.stalled)).collect()
}

/// A sweep that found nothing is silent unless it is the only one; what was told before is not told again.
fn show(app: &App, sweep: Sweep, args: &SweeperArgs, told: &mut Told) {
    let fact = |finding: &Finding| {
        let (kind, name) = finding.subject();
        (kind, name.to_owned(), finding.code, finding.fate)
    };
    // It is whole, or was ended: either way nothing is to come.
    let sweep = Sweep { more: false, ..sweep };
    let findings = findings(&sweep);
    let odd = sweep.foreign.as_ref().is_some_and(|foreign| !foreign.unnamed.is_empty());
    let facts: Told = findings.iter().map(|finding| fact(finding)).collect();
    match () {
        () if app.wants_json() && args.once => out::json(&sweep),
        () if app.wants_json() => out::jsonl(&sweep),
        () if app.quiet => findings.iter().for_each(|finding| out::line(finding.subject().1)),
        () if findings.is_empty() && sweep.rows_rewritten == 0 && !odd && !args.once => {}
        () => {
            let at = if args.once { String::new() } else { format!("{} ", when::iso(app.now())) };
            let young = args.once && findings.iter().any(|finding| finding.fate == Fate::Young);
            let news: Vec<&Finding> =
                findings.into_iter().filter(|finding| !told.contains(&fact(finding))).collect();
            if !news.is_empty() {
                app.table(&finding::table(app, &news));
            }
            out::line(format!("{at}{}", sentence(&sweep)));
            for name in sweep.foreign.iter().flat_map(|foreign| &foreign.unnamed) {
                app.remark(&format!("state {name:?} was not looked at: no run can have this name"));
            }
            if young {
                app.remark("what has not held for --stale-after is not healed; --stale-after 0 heals it now");
            }
        }
    }
    *told = facts;
}

fn sentence(sweep: &Sweep) -> String {
    let Sweep { scanned, terminal, healthy, healed, rows_rewritten, stalled, .. } = sweep;
    let rows = match rows_rewritten {
        0 => String::new(),
        rows => format!(", {rows} cached rows written anew"),
    };
    let stalled = stalled.len();
    let foreign = sweep.foreign.as_ref().filter(|foreign| foreign.scanned > 0).map(states);
    format!(
        "{scanned} scanned: {terminal} terminal, {healthy} healthy, {stalled} stalled, {healed} healed{rows}{}",
        foreign.unwrap_or_default()
    )
}

fn states(foreign: &ForeignSweep) -> String {
    let ForeignSweep { scanned, skipped, healthy, healed, stalled, .. } = foreign;
    let (what, stalled) = (text::count(*scanned, "state"), stalled.len());
    format!("; {what} of others: {skipped} skipped, {healthy} healthy, {stalled} stalled, {healed} healed")
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use serde_json::json;

    use super::*;

    #[test]
    fn states_of_others_are_counted_by_themselves() {
        let stalled = json!({ "state": "wf-1", "evidence": "-", "remedy": "-", "fate": "young" });
        let mut sweep = json!({ "at": "never", "scanned": 3, "terminal": 0, "healthy": 3, "healed": 0,
            "rows_rewritten": 0, "stalled": [], "foreign": { "scanned": 6, "skipped": 2, "healthy": 1,
            "healed": 1, "stalled": [stalled, stalled, stalled] } });
        let read = |sweep: &serde_json::Value| serde_json::from_value::<Sweep>(sweep.clone()).unwrap();
        assert_snapshot!(sentence(&read(&sweep)), @"3 scanned: 0 terminal, 3 healthy, 0 stalled, 0 healed; 6 states of others: 2 skipped, 1 healthy, 3 stalled, 1 healed");
        sweep["foreign"] = json!({ "scanned": 0, "skipped": 0, "healthy": 0, "healed": 0, "stalled": [] });
        assert_snapshot!(sentence(&read(&sweep)), @"3 scanned: 0 terminal, 3 healthy, 0 stalled, 0 healed");
    }
}
