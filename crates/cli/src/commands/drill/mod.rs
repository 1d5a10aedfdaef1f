//! `goldseam drill`: injects faults and measures how long healing takes.

mod faults;
mod measure;
pub(crate) mod work;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use goldseam::unstable::engine::{Entropy, OsEntropy};
use serde::Serialize;

use super::demo::fleet::{Fleet, WorkerCommand};
use crate::app::App;
use crate::color::Hue;
use crate::error::{CliError, Exit};
use crate::table::TextTable;
use crate::{out, progress, time};
use faults::Drill;
use measure::FaultResult;

const WORKERS: usize = 2;
/// How often the drill's workers sweep.
const SWEEP: &str = "500ms";
/// How long a node may be silent, on a temporary store.
const SILENCE: &str = "2s";
/// How long healing a fault may take, on a temporary store.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The same on a given store, where other nodes may need longer.
const TIMEOUT_GIVEN_STORE: Duration = Duration::from_secs(60);

/// Inject faults and measure how long healing takes
///
/// Starts worker processes with real work, then injects one fault after the other: it kills a worker (SIGKILL), freezes
/// one for longer than the allowed silence (SIGSTOP, SIGCONT), kills the holder of a lock, damages a cached status, and
/// loses a task. For each fault it prints the time until the fault was detected, until the work was claimed again, and
/// until the next progress.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --store on the command line, it uses a temporary store. On a given store, it uses its own queue, workflow\nand names, all beginning with drill-, changes nothing else, and leaves four ended runs; silence is judged by the\nusual 10 s there, because other nodes beat for that.\n\nExit code 1 if a fault was not healed.\n\nExamples:\n  goldseam drill\n  goldseam drill --json | jq '.faults[] | {fault, progress_ms}'\n  goldseam drill --store sqlite:goldseam.db"
)]
pub(crate) struct DrillArgs {}

pub(crate) async fn run(app: &App, _: DrillArgs) -> Result<Exit, CliError> {
    app.needs_store("drill")?;
    let name = format!("drill-{:08x}", OsEntropy.next() % 0x1_0000_0000);
    let dir = std::env::temp_dir().join(format!("goldseam-{name}"));
    std::fs::create_dir_all(&dir).map_err(file_error)?;
    let files = DrillFiles(dir);
    let (url, silence, timeout) = match app.names_store {
        true => (app.url.clone(), "10s", TIMEOUT_GIVEN_STORE),
        false => (format!("sqlite:{}", files.0.join("drill.db").display()), SILENCE, TIMEOUT),
    };
    let client = goldseam::connect(&url).await?;
    let options = ["--drill", &name, "--silence", silence, "--sweep", SWEEP].map(Into::into).to_vec();
    let plan = WorkerCommand { url, options, log: files.0.join("workers.log") };
    let fleet = Fleet::start(plan, WORKERS).map_err(file_error)?;
    let line = progress::line(app, None, "{spinner} {msg}  {elapsed}");
    let mut drill = Drill { client: &client, fleet, name, timeout, line };
    let faults = drill.run().await;
    drill.line.finish_and_clear();
    drill.fleet.stop_all();
    let faults =
        faults.map_err(|error| CliError { help: error.help.or_else(|| files.last_log_line()), ..error })?;
    show(app, &faults);
    Ok(if faults.iter().all(|fault| fault.healed) { Exit::Ok } else { Exit::Error })
}

/// The drill as a document.
#[derive(Debug, Serialize)]
struct DrillReport<'a> {
    faults: &'a [FaultResult],
}

/// The drill's folder, removed at the end.
struct DrillFiles(PathBuf);

impl DrillFiles {
    /// The last log line of a worker.
    fn last_log_line(&self) -> Option<String> {
        let log = std::fs::read_to_string(self.0.join("workers.log")).ok()?;
        log.lines().last().map(|line| format!("last log line of a worker: {line}"))
    }
}

impl Drop for DrillFiles {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn file_error(error: std::io::Error) -> CliError {
    CliError::plain(format!("cannot use the files of the drill: {error}"))
}

fn show(app: &App, faults: &[FaultResult]) {
    if app.wants_json() {
        return out::json(&DrillReport { faults });
    }
    let mut table = TextTable::new(&["FAULT", "HEALED", "DETECT", "RECLAIM", "PROGRESS", "WHAT"]);
    let time = |ms: Option<i64>| match (ms.and_then(|ms| u64::try_from(ms).ok()), app.terminal) {
        (None, _) => "-".to_owned(),
        (Some(ms), true) => time::span(Duration::from_millis(ms)),
        (Some(ms), false) => ms.to_string(),
    };
    for fault in faults {
        let (healed, hue) = if fault.healed { ("yes", Hue::Good) } else { ("no", Hue::Bad) };
        table.row(vec![
            fault.fault.to_owned(),
            app.colors.apply(hue, healed),
            time(fault.detect_ms),
            time(fault.reclaim_ms),
            time(fault.progress_ms),
            meaning(fault.fault).to_owned(),
        ]);
    }
    app.table(&table);
    let (text, hue) = verdict(faults);
    out::line(app.colors.apply(hue, text));
}

fn meaning(fault: &str) -> &'static str {
    match fault {
        "kill" => "SIGKILL to the owner of a run",
        "freeze" => "SIGSTOP for longer than the allowed silence, then SIGCONT; late results were refused",
        "lock" => "the holder of a lock was killed",
        "status" => "a cached status hid an open question",
        "task" => "the task of a run that could move was lost",
        _ => "",
    }
}

fn verdict(faults: &[FaultResult]) -> (String, Hue) {
    let left: Vec<&str> = faults.iter().filter(|fault| !fault.healed).map(|fault| fault.fault).collect();
    if !left.is_empty() {
        let text = format!("✖ {} of {} faults not healed: {}", left.len(), faults.len(), left.join(", "));
        return (text, Hue::Bad);
    }
    let slowest = faults.iter().filter_map(|fault| fault.progress_ms).max().unwrap_or(0);
    let slowest = time::span(Duration::from_millis(u64::try_from(slowest).unwrap_or(0)));
    (format!("✔ all {} faults healed, the slowest within {slowest}", faults.len()), Hue::Good)
}
