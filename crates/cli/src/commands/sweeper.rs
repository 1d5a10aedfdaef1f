//! `goldseam sweeper`.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::poll;
use goldseam::Config;
use goldseam::recovery::Code;
use goldseam::unstable::engine::settings::span_text;
use goldseam_api::doc::heal::{FateDoc, FindingDoc, ForeignSweepDoc, NewSweep, SweepDoc};

use goldseam_api::{Api, LocalApi};
use goldseam_server::config::{Settings, SweeperSettings};

use super::serve::{gather, known_setting, setting};
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
    after_help = "Durations are seconds, or spans such as 90s, 5m, 1h. Ctrl-C ends the sweeper after the current batch.\n\nExamples:\n  goldseam sweeper\n  goldseam sweeper --interval 1m --stale-after 2m --json\n  goldseam sweeper --once --stale-after 0      heal now\n  goldseam sweeper --once --dry-run            only report\n  goldseam sweeper --foreign --foreign-queue theirs\n  goldseam sweeper --set recovery.version_grace=10m\n\nSettings also come from a file and the environment: goldseam config show."
)]
pub(crate) struct SweeperArgs {
    /// Pause between two sweeps [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_seconds)]
    interval: Option<Duration>,
    /// How long a finding must have held before it is healed [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_seconds)]
    stale_after: Option<Duration>,
    /// Also heal foreign states; their tasks are looked up in Goldseam's own queue
    #[arg(long)]
    foreign: bool,
    /// Queue of the tasks for foreign states
    #[arg(long, value_name = "QUEUE", requires = "foreign")]
    foreign_queue: Option<String>,
    /// Kind of the tasks for foreign states
    #[arg(long, value_name = "KIND", requires = "foreign")]
    foreign_kind: Option<String>,
    /// The settings file; defaults to goldseam.toml if it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Any setting of healing, as in recovery.version_grace=10m; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Make one sweep, then exit
    #[arg(long)]
    once: bool,
    /// Only report; change nothing
    #[arg(long)]
    dry_run: bool,
}

impl SweeperArgs {
    /// Merges the settings of all sources.
    fn settings(&self) -> Result<Settings, CliError> {
        let mut flags = BTreeMap::new();
        for (name, value) in &self.set {
            flags.insert(known_setting(name)?, value.clone());
        }
        // With --once there is no pause.
        let interval = self.interval.filter(|span| !(self.once && span.is_zero()));
        let typed = [
            ("sweeper.interval", interval.map(span_text)),
            ("sweeper.stale_after", self.stale_after.map(span_text)),
            ("healing.foreign", self.foreign.then(|| "true".to_owned())),
            ("healing.foreign_queue", self.foreign_queue.clone()),
            ("healing.foreign_kind", self.foreign_kind.clone()),
        ];
        flags.extend(typed.into_iter().filter_map(|(name, value)| Some((name, value?))));
        gather(&flags, self.config.as_deref())
    }

    /// Connects to the server, or to the store with these settings.
    async fn connect(&self, app: &App, config: &Config) -> Result<Arc<dyn Api>, CliError> {
        let healing = |(name, _): &&(String, String)| !name.starts_with("sweeper.");
        match (app.remote()?, self.set.iter().find(healing)) {
            (Some(_), Some((name, _))) => Err(CliError::usage(
                format!("{name} cannot be set for a sweep by a server"),
                "set it where the server runs; --stale-after and --interval work here",
            )),
            (Some(remote), None) => Ok(remote),
            (None, _) => {
                let client = goldseam::connect_existing(&app.url).await?.with_config(config.clone());
                Ok(Arc::new(LocalApi::new(client)))
            }
        }
    }
}

pub(crate) async fn run(app: &App, args: SweeperArgs) -> Result<Exit, CliError> {
    if args.interval.is_some_and(|span| span.is_zero()) && !args.once {
        let help = "pass a duration such as 30s, or --once for a single sweep";
        return Err(CliError::usage("--interval must be greater than zero", help));
    }
    let settings = args.settings()?;
    let config = settings.engine()?;
    let SweeperSettings { interval, stale_after } = settings.sweeper()?;
    let api = args.connect(app, &config).await?;
    let caller = actor::caller(None);
    let foreign = config.foreign;
    let new = NewSweep {
        stale_after_ms: u64::try_from(stale_after.as_millis()).ok(),
        dry_run: args.dry_run,
        from_log: args.once,
        foreign: foreign.is_some(),
        foreign_queue: foreign.as_ref().map(|foreign| foreign.queue.as_str().to_owned()),
        foreign_kind: foreign.as_ref().map(|foreign| foreign.kind.clone()),
    };
    if foreign.is_some() {
        app.remark("tasks of foreign states are looked up in Goldseam's own queue");
    }
    let mut signals = Signals::install()?;
    let mut signal = pin!(signals.next());
    if !args.once {
        app.remark(&format!("sweeping every {}; Ctrl-C ends it", time::span(interval)));
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
            () = tokio::time::sleep(interval) => {}
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
