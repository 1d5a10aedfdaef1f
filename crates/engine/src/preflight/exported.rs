//! Histories in files: the output of `goldseam history`, and archives of a prune.

use std::fs;
use std::path::{Path, PathBuf};

use goldseam_core::{
    BranchId, Corrupt, Event, Hash, Millis, Payload, Recorded, RunId, Seq, State, WriteId, derive,
};
use serde::{Deserialize, Serialize};

use crate::ledger::archive::archived_states;
use crate::ledger::error::EngineError;

/// One event of the output of `goldseam history --json`.
#[derive(Deserialize)]
struct Line {
    seq: Seq,
    at_ms: i64,
    branch: String,
    #[serde(default)]
    epoch: Option<Seq>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    data: Option<Payload>,
}

/// Type and data of an event, as in a log.
#[derive(Serialize)]
struct Parts<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: &'a Option<Payload>,
}

/// A whole history in the output of `goldseam history --json`.
#[derive(Deserialize)]
struct Document {
    run: RunId,
    items: Vec<Line>,
}

/// A run and the state derived from its history.
type Exported = (RunId, Result<State, Corrupt>);

fn cannot(path: &Path, why: impl std::fmt::Display) -> EngineError {
    EngineError::Preflight { what: format!("cannot read {}: {why}", path.display()) }
}

/// The file itself, or every `.json` and `.jsonl` file of the directory, ordered by name.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, EngineError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| cannot(path, error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| cannot(path, error))?.path();
        let known = file.extension().is_some_and(|end| end == "json" || end == "jsonl");
        files.extend(known.then_some(file));
    }
    files.sort();
    match files.is_empty() {
        true => Err(cannot(path, "the directory has no .json or .jsonl file")),
        false => Ok(files),
    }
}

/// Reads the runs of one file.
pub(super) fn read(file: &Path) -> Result<Vec<Exported>, EngineError> {
    let text = fs::read_to_string(file).map_err(|error| cannot(file, error))?;
    let first = text.lines().next().unwrap_or_default();
    if first.starts_with("{\"goldseam_archive\"") {
        let runs = archived_states(&text).map_err(|flaw| cannot(file, flaw))?;
        return Ok(runs.into_iter().map(|(run, state)| (run, Ok(state))).collect());
    }
    if let Ok(Document { run, items }) = serde_json::from_str(&text) {
        return Ok(vec![(run.clone(), state(&run, items))]);
    }
    let lines: Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let run = RunId::new(&*name).map_err(|_| cannot(file, "its name is not a valid run id"))?;
    match lines {
        Ok(items) if !items.is_empty() => Ok(vec![(run.clone(), state(&run, items))]),
        Ok(_) => Err(cannot(file, "the file is empty")),
        Err(error) => Err(cannot(file, error)),
    }
}

fn state(run: &RunId, items: Vec<Line>) -> Result<State, Corrupt> {
    let history: Result<Vec<Recorded>, Corrupt> = items.iter().map(recorded).collect();
    derive(run, &history?, Hash::ZERO)
}

fn recorded(line: &Line) -> Result<Recorded, Corrupt> {
    let corrupt = |detail: String| Corrupt::new(line.seq, detail);
    let parts = Parts { kind: &line.kind, data: &line.data };
    let text = serde_json::to_string(&parts).map_err(|error| corrupt(error.to_string()))?;
    let event: Event = serde_json::from_str(&text).map_err(|error| corrupt(error.to_string()))?;
    let branch: BranchId = line.branch.parse().map_err(|error| corrupt(format!("{error}")))?;
    let write = WriteId(0);
    let prev = Hash::ZERO;
    Ok(Recorded {
        seq: line.seq,
        at: Millis(line.at_ms),
        branch,
        epoch: line.epoch,
        write,
        prev,
        bytes: 0,
        event,
    })
}
