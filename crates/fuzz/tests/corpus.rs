//! The kept corpus and random bytes, in every build.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

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
fn every_input_that_was_kept_is_dealt_with() {
    for (name, target) in TARGETS {
        let kept = corpus(name);
        assert!(!kept.is_empty(), "{name} has no corpus");
        for (file, data) in kept {
            assert!(data.len() <= 16 * 1024, "{} is too large to keep", file.display());
            target(&data);
        }
    }
}

/// Names of the files there, without what is behind the last dot.
fn stems(folder: &str, extension: &str) -> Vec<String> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|file| file.extension().is_some_and(|found| found == extension));
    files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_golden_history_and_every_event_in_them_is_in_the_corpus() {
    let names = |target: &str| -> Vec<String> {
        let kept = corpus(target).into_iter();
        kept.map(|(file, _)| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let golden = "../core/tests/golden";
    let (histories, events) = (names("history"), names("event"));
    let mut met = BTreeSet::new();
    for history in stems(golden, "jsonl") {
        assert!(histories.contains(&history), "the golden history {history} is not in the corpus");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden).join(&history).with_extension("jsonl");
        for (seq, line) in (1..).map(Seq).zip(fs::read_to_string(file).unwrap().lines()) {
            met.insert(decode(seq, line).unwrap().event.name());
        }
    }
    // The golden histories have every event: a test of the core sees to it.
    assert!(met.len() >= 36, "{met:?}");
    for event in met {
        assert!(events.iter().any(|name| name == event), "the event {event} is not in the corpus");
    }
}

#[test]
fn every_target_is_run_by_the_fuzzer() {
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
    fn random_bytes_are_dealt_with(data: Vec<u8>) {
        for (_, target) in TARGETS {
            target(&data);
        }
    }

    #[test]
    fn random_text_is_dealt_with(data in "\\PC{0,40}|[a-z0-9:/?&=#@%.-]{0,40}|[-{}\\[\\]\",:a-z0-9]{0,60}") {
        for (_, target) in TARGETS {
            target(data.as_bytes());
        }
    }

    #[test]
    fn what_was_kept_and_then_changed_is_dealt_with(
        (name, target) in select(TARGETS),
        file: Index,
        cuts in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
    ) {
        let kept = corpus(name);
        let mut data = file.get(&kept).1.clone();
        for (at, byte) in cuts {
            if !data.is_empty() {
                let at = at.index(data.len());
                data[at] = byte;
            }
        }
        target(&data);
    }
}
