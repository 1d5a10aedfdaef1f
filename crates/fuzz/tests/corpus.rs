//! Runs all targets with the stored corpus and random bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use goldseam_core::Seq;
use goldseam_core::codec::decode;
use goldseam_fuzz::TARGETS;
use proptest::prelude::*;
use proptest::sample::{Index, select};

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

#[test]
fn every_corpus_input_passes() {
    for (name, target) in TARGETS {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for (file, data) in inputs {
            assert!(data.len() <= 16 * 1024, "{} is too large for the corpus", file.display());
            target(&data);
        }
    }
}

/// Returns the names of the files with this extension, without it.
fn stems(folder: &str, extension: &str) -> Vec<String> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|found| found == extension));
    files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn corpus_contains_all_golden_histories_and_events() {
    let names = |target: &str| -> Vec<String> {
        let kept = corpus(target).into_iter();
        kept.map(|(file, _)| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let golden = "../core/tests/golden";
    let histories = names("history");
    let events = names("event");
    let mut met = BTreeSet::new();
    for history in stems(golden, "jsonl") {
        assert!(histories.contains(&history), "the golden history {history} is not in the corpus");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden).join(&history).with_extension("jsonl");
        for (seq, line) in (1..).map(Seq).zip(fs::read_to_string(file).unwrap().lines()) {
            met.insert(decode(seq, line).unwrap().event.name());
        }
    }
    // A test of the core ensures that the golden histories contain every event.
    assert!(met.len() >= 36, "{met:?}");
    for event in met {
        assert!(events.iter().any(|name| name == event), "the event {event} is not in the corpus");
    }
}

#[test]
fn every_target_has_a_fuzzer() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut files: Vec<String> = fs::read_dir(place)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let mut names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_pass(data: Vec<u8>) {
        for (_, target) in TARGETS {
            target(&data);
        }
    }

    #[test]
    fn random_text_passes(data in "\\PC{0,40}|[a-z0-9:/?&=#@%.-]{0,40}|[-{}\\[\\]\",:a-z0-9]{0,60}") {
        for (_, target) in TARGETS {
            target(data.as_bytes());
        }
    }

    #[test]
    fn changed_corpus_inputs_pass(
        (name, target) in select(TARGETS),
        file: Index,
        cuts in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let inputs = corpus(name);
        let mut data = file.get(&inputs).1.clone();
        for (at, byte) in cuts {
            if !data.is_empty() {
                let at = at.index(data.len());
                data[at] = byte;
            }
        }
        target(&data);
    }
}
