//! The long search: every call fails in every way, power is lost at every position, and a small disk is full. `cargo
//! xtask disk` runs it.

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a search that prints its progress")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use goldseam_testbed::disk::{DiskFault, FailingCalls, SystemCall};

use super::fault::{Base, Outcome};
use super::full::full_and_freed;
use super::power::{Recording, record};

/// The kinds of fault.
const KINDS: &[(SystemCall, &str, FailingCalls)] = &[
    (SystemCall::Write, "ENOSPC", FailingCalls::Once),
    (SystemCall::Write, "ENOSPC", FailingCalls::Short),
    (SystemCall::Write, "ENOSPC", FailingCalls::On),
    (SystemCall::Write, "EDQUOT", FailingCalls::Once),
    (SystemCall::Write, "EIO", FailingCalls::Once),
    (SystemCall::Write, "EIO", FailingCalls::Short),
    (SystemCall::Write, "EIO", FailingCalls::On),
    (SystemCall::Write, "EROFS", FailingCalls::On),
    (SystemCall::Sync, "EIO", FailingCalls::Once),
    (SystemCall::Sync, "EIO", FailingCalls::On),
    (SystemCall::Sync, "ENOSPC", FailingCalls::Once),
    (SystemCall::Truncate, "EIO", FailingCalls::Once),
    (SystemCall::Open, "EIO", FailingCalls::Once),
    (SystemCall::Open, "ENOSPC", FailingCalls::On),
    (SystemCall::Open, "EROFS", FailingCalls::On),
    (SystemCall::Read, "EIO", FailingCalls::Once),
    (SystemCall::Read, "EIO", FailingCalls::On),
];

/// More calls of one kind than any run makes.
const CALLS_MAX: u64 = 2_000;
/// Concurrent checks.
const HANDS: usize = 2;

/// Counts of the search.
#[derive(Default)]
struct Tally {
    images: AtomicUsize,
    faults: AtomicUsize,
    /// The names of the faults that occurred.
    kinds: Mutex<BTreeSet<String>>,
    wrong: Mutex<Vec<String>>,
}

impl Tally {
    fn met(&self, kind: &str) {
        self.kinds.lock().unwrap().insert(kind.to_owned());
    }

    fn note(&self, outcome: Result<(), String>) {
        if let Err(wrong) = outcome {
            println!("wrong: {wrong}");
            self.wrong.lock().unwrap().push(wrong);
        }
    }

    /// The number of losses or repeats, and of other violations.
    fn wrong(&self) -> (usize, usize) {
        let all = self.wrong.lock().unwrap();
        let is_loss =
            |words: &&String| ["acknowledged", "again", "changed"].iter().any(|w| words.contains(w));
        let lost = all.iter().filter(is_loss).count();
        (lost, all.len() - lost)
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
#[ignore = "takes long: cargo xtask disk"]
fn the_long_search_finds_nothing_lost() {
    let began = Instant::now();
    let seeds = number("GOLDSEAM_DISK_SEEDS", 4);
    let from = number("GOLDSEAM_DISK_FROM", 0);
    let step = number("GOLDSEAM_DISK_STEP", 1).max(1);
    let tally = Tally::default();
    for (name, options, orders, length) in
        [("small", "", 4, 3), ("large", "", 24, 30_000), ("process", "?durability=process", 4, 3)]
    {
        let recording = record(options, orders, length);
        println!("{name}: {} changes", recording.journal.changes.len());
        cut_everywhere(&tally, &recording, from..from + seeds);
    }
    let base = Base::new();
    for &(call, errno, manner) in KINDS {
        let met = fail_everywhere(&tally, &base, DiskFault { call, first: 1, errno, manner }, step);
        println!("{call:?} {errno} {manner:?}: {met:?}");
        if !met.is_empty() {
            tally.met(&format!("disk_{call:?}_{errno}_{manner:?}").to_lowercase());
        }
    }
    match full_and_freed() {
        Some(outcome) => {
            tally.met("disk_full");
            tally.faults.fetch_add(1, Ordering::Relaxed);
            tally.note(outcome);
        }
        None => println!("skipped the full disk: mounting is not allowed"),
    }
    let (lost, unsound) = tally.wrong();
    let [images, faults] = [&tally.images, &tally.faults].map(|count| count.load(Ordering::Relaxed));
    let kinds = tally.kinds.lock().unwrap().iter().cloned().collect::<Vec<_>>().join(",");
    let seconds = began.elapsed().as_secs();
    println!(
        "record: images={images} faults={faults} lost={lost} unsound={unsound} seconds={seconds} kinds={kinds}"
    );
    assert_eq!((lost, unsound), (0, 0));
}

fn cut_everywhere(tally: &Tally, recording: &Recording, seeds: std::ops::Range<u64>) {
    let positions: Vec<usize> = recording.positions(1).collect();
    in_parallel(positions.len(), |index| {
        let position = positions[index];
        for seed in seeds.clone() {
            tally.note(recording.cut(position, seed).map(drop));
            tally.met("power_cut");
        }
        tally.note(recording.copy(position));
        tally.met("copied_in_use");
        tally.images.fetch_add(usize::try_from(seeds.end - seeds.start).unwrap() + 1, Ordering::Relaxed);
        if position % 97 == 1 {
            tally.note(recording.cut_and_go_on(position, seeds.start));
            tally.images.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Fails each call in turn until the worker makes no such call; counts the outcomes.
fn fail_everywhere(tally: &Tally, base: &Base, fault: DiskFault, step: u64) -> BTreeMap<String, usize> {
    let last = AtomicU64::new(CALLS_MAX);
    let met = Mutex::new(BTreeMap::new());
    in_parallel(usize::try_from(CALLS_MAX / step).unwrap(), |index| {
        let first = 1 + u64::try_from(index).unwrap() * step;
        if first > last.load(Ordering::Relaxed) {
            return;
        }
        match base.meet(DiskFault { first, ..fault }) {
            Ok(Outcome::NotMet) => last.store(first, Ordering::Relaxed),
            Ok(outcome) => {
                tally.faults.fetch_add(1, Ordering::Relaxed);
                *met.lock().unwrap().entry(format!("{outcome:?}")).or_default() += 1;
            }
            Err(wrong) => tally.note(Err(wrong)),
        }
    });
    met.into_inner().unwrap()
}

/// Does `work` for every index, in order, with a few threads.
fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..HANDS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    work(index);
                }
            });
        }
    });
}
