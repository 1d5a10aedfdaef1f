//! `goldseam drill`: break something on purpose, and measure how long healing takes.

mod faults;
mod measure;
pub(crate) mod work;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use goldseam::engine::{Entropy, OsEntropy};
use serde::Serialize;

use super::demo::fleet::{Fleet, Plan};
use crate::app::App;
use crate::fail::{Exit, Fail};
use crate::paint::Hue;
use crate::table::Table;
use crate::{out, progress, when};
use faults::Drill;
use measure::Fault;

/// Workers at a time.
const WORKERS: usize = 2;
/// How often the drill's workers look over all runs.
const SWEEP: &str = "500ms";
/// How long a node may be silent, on a store of the drill's own.
const SILENCE: &str = "2s";
/// How long a fault may take to be healed: on a store of the drill's own, and on one with others' settings.
const PATIENCE: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(60));

/// Break something on purpose, and measure how long healing takes
///
/// Starts worker processes with real work, then injects one fault after the other: a worker is killed (SIGKILL), one is
/// frozen past the limit of silence (SIGSTOP, SIGCONT), a lock is left behind by a dead holder, a cached status is
/// damaged, a task is lost. For each: the time until it was noticed, until the work was in somebody's hands again, and
/// until it went on.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --store on the command line it uses a store of its own and removes it. On a given store it has its own\nqueue, workflow and names, all beginning with drill-, touches nothing else, and leaves four finished runs;\nsilence is judged by the usual 10 s there, because other nodes beat for that.\n\nExit code 1 if a fault was not healed.\n\nExamples:\n  goldseam drill\n  goldseam drill --json | jq '.faults[] | {fault, progress_ms}'\n  goldseam drill --store sqlite:goldseam.db"
)]
pub(crate) struct DrillArgs {}

/// Runs the drill.
pub(crate) async fn run(app: &App, _: DrillArgs) -> Result<Exit, Fail> {
    app.needs_store("drill")?;
    let name = format!("drill-{:08x}", OsEntropy.next() % 0x1_0000_0000);
    let dir = std::env::temp_dir().join(format!("goldseam-{name}"));
    std::fs::create_dir_all(&dir).map_err(cannot_write)?;
    let place = Place(dir);
    let (url, silence, patience) = match app.names_store {
        true => (app.url.clone(), "10s", PATIENCE.1),
        false => (format!("sqlite:{}", place.0.join("drill.db").display()), SILENCE, PATIENCE.0),
    };
    let client = goldseam::connect(&url).await?;
    let options = ["--drill", &name, "--silence", silence, "--sweep", SWEEP].map(Into::into).to_vec();
    let plan = Plan { url, options, log: place.0.join("workers.log") };
    let fleet = Fleet::start(plan, WORKERS).map_err(cannot_write)?;
    let line = progress::line(app, None, "{spinner} {msg}  {elapsed}");
    let mut drill = Drill { client: &client, fleet, name, patience, line };
    let faults = drill.run().await;
    drill.line.finish_and_clear();
    drill.fleet.dismiss();
    let faults = faults.map_err(|fail| Fail { help: fail.help.or_else(|| place.last_words()), ..fail })?;
    show(app, &faults);
    Ok(if faults.iter().all(|fault| fault.healed) { Exit::Ok } else { Exit::Error })
}

/// The drill as a program reads it.
#[derive(Debug, Serialize)]
struct Report<'a> {
    faults: &'a [Fault],
}

/// The drill's files, gone when it is over.
struct Place(PathBuf);

impl Place {
    /// What a worker said last.
    fn last_words(&self) -> Option<String> {
        let log = std::fs::read_to_string(self.0.join("workers.log")).ok()?;
        log.lines().last().map(|line| format!("a worker said: {line}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn cannot_write(error: std::io::Error) -> Fail {
    Fail::plain(format!("the drill's files cannot be used: {error}"))
}

fn show(app: &App, faults: &[Fault]) {
    if app.wants_json() {
        return out::json(&Report { faults });
    }
    let mut table = Table::new(&["FAULT", "HEALED", "DETECT", "RECLAIM", "PROGRESS", "WHAT"]);
    let time = |ms: Option<i64>| match (ms.and_then(|ms| u64::try_from(ms).ok()), app.terminal) {
        (None, _) => "-".to_owned(),
        (Some(ms), true) => when::span(Duration::from_millis(ms)),
        (Some(ms), false) => ms.to_string(),
    };
    for fault in faults {
        let (healed, hue) = if fault.healed { ("yes", Hue::Good) } else { ("no", Hue::Bad) };
        table.row(vec![
            fault.fault.to_owned(),
            app.paint.on(hue, healed),
            time(fault.detect_ms),
            time(fault.reclaim_ms),
            time(fault.progress_ms),
            meaning(fault.fault).to_owned(),
        ]);
    }
    app.table(&table);
    let (words, hue) = verdict(faults);
    out::line(app.paint.on(hue, words));
}

fn meaning(fault: &str) -> &'static str {
    match fault {
        "kill" => "SIGKILL to the worker that had a run",
        "freeze" => "SIGSTOP past the limit of silence, then SIGCONT; nothing late was accepted",
        "lock" => "the holder of a lock was killed",
        "status" => "a cached status hid an open question",
        "task" => "the task of a run that could move was lost",
        _ => "",
    }
}

fn verdict(faults: &[Fault]) -> (String, Hue) {
    let left: Vec<&str> = faults.iter().filter(|fault| !fault.healed).map(|fault| fault.fault).collect();
    if !left.is_empty() {
        let words = format!("✖ {} of {} faults not healed: {}", left.len(), faults.len(), left.join(", "));
        return (words, Hue::Bad);
    }
    let slowest = faults.iter().filter_map(|fault| fault.progress_ms).max().unwrap_or(0);
    let slowest = when::span(Duration::from_millis(u64::try_from(slowest).unwrap_or(0)));
    (format!("✔ all {} faults healed, the slowest within {slowest}", faults.len()), Hue::Good)
}
