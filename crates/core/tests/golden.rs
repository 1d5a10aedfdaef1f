//! Golden histories: the on-disk format, which every later release must read.
//!
//! A release of Goldseam wrote each file of `tests/golden`, and users have logs like it. These files are therefore
//! never edited and this test is never relaxed: every history must decode, be encoded again byte for byte, have an
//! unbroken chain, and derive to the stored summary. When the format grows, add a history; a new field or variant
//! must not change these. Only a row with additional fields gains a line in its `.summary.json`; no line is changed
//! or removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use goldseam_core::codec::{decode_all, encode};
use goldseam_core::{Hash, RunId, Seq, Summary, derive};

/// Every event type, by its name on disk.
const EVENTS: [&str; 41] = [
    "attributes.changed",
    "branch.opened",
    "change.marked",
    "child.completed",
    "child.failed",
    "child.started",
    "compensation.completed",
    "compensation.failed",
    "compensation.started",
    "input.answered",
    "input.requested",
    "jump.requested",
    "note.added",
    "progress.emitted",
    "request.answered",
    "request.withdrawn",
    "run.cancel_requested",
    "run.cancelled",
    "run.claimed",
    "run.completed",
    "run.failed",
    "run.parked",
    "run.paused",
    "run.pruned",
    "run.queued",
    "run.recovered",
    "run.released",
    "run.resumed",
    "run.started",
    "signal.received",
    "step.completed",
    "step.failed",
    "step.retry_scheduled",
    "step.started",
    "step.timeout",
    "timer.fired",
    "timer.set",
    "value.published",
    "version.changed",
    "wait.resolved",
    "wait.started",
];

fn histories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|ext| ext == "jsonl")).collect();
    files.sort();
    assert!(files.len() >= 3, "the golden histories are missing");
    files
}

fn lines(text: &str) -> impl Iterator<Item = (Seq, &str)> {
    (1..).map(Seq).zip(text.lines())
}

#[test]
fn golden_histories_derive_the_same() {
    for file in histories() {
        let name = file.display();
        let text = std::fs::read_to_string(&file).unwrap();
        let (history, head) =
            decode_all(Seq::ZERO, Hash::ZERO, lines(&text)).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (recorded, (_, line)) in history.iter().zip(lines(&text)) {
            assert_eq!(encode(recorded), line, "{name}: event {} is written differently now", recorded.seq);
        }
        let stored = std::fs::read_to_string(file.with_extension("summary.json")).unwrap();
        let stored_row: Summary = serde_json::from_str(&stored).unwrap();
        let run = RunId::new(stored_row.run.as_str()).unwrap();
        let state = derive(&run, &history, head).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Rows from before sizes were counted have none.
        let derived = Summary { bytes: state.summary.bytes.and(stored_row.bytes), ..state.summary.clone() };
        let derived = serde_json::to_string_pretty(&derived).unwrap();
        assert_eq!(derived, stored.trim_end(), "{name}: derives another summary now");
        assert!(stored_row.agrees_with(&state.summary), "{name}: the stored row reads differently now");
    }
}

#[test]
fn a_golden_tombstone_derives_the_same_without_its_log() {
    let file = histories().into_iter().find(|file| file.ends_with("a_departed.jsonl")).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let (history, head) = decode_all(Seq::ZERO, Hash::ZERO, lines(&text)).unwrap();
    let run = RunId::new("r1").unwrap();
    let whole = derive(&run, &history, head);
    let alone = derive(&run, &history[history.len() - 1..], head);
    assert_eq!(whole.unwrap().summary, alone.unwrap().summary);
}

#[test]
fn a_row_of_an_older_release_still_reads() {
    for file in histories() {
        let stored = std::fs::read_to_string(file.with_extension("summary.json")).unwrap();
        let mut older: serde_json::Value = serde_json::from_str(&stored).unwrap();
        older.as_object_mut().unwrap().remove("recovered_at");
        let read: Summary = serde_json::from_value(older).unwrap();
        let now: Summary = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, Summary { recovered_at: None, ..now });
    }
}

#[test]
fn golden_histories_hold_every_event() {
    let mut found = BTreeSet::new();
    for file in histories() {
        let text = std::fs::read_to_string(&file).unwrap();
        let (history, _) = decode_all(Seq::ZERO, Hash::ZERO, lines(&text)).unwrap();
        found.extend(history.iter().map(|recorded| recorded.event.name()));
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), EVENTS);
}
