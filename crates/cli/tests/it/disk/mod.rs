//! Failing disks under the real binary: full, broken, read-only, power loss. Nothing acknowledged is lost.

mod fault;
pub(crate) mod full;
mod power;
mod search;
mod store;

use goldseam_testbed::disk::{Disk, DiskFault, FailingCalls, SystemCall};

use fault::{Base, Outcome, failures};
use power::{Kept, record};
use store::Site;

use crate::support::eventually;

fn fault(call: SystemCall, first: u64, errno: &'static str, manner: FailingCalls) -> DiskFault {
    DiskFault { call, first, errno, manner }
}

#[track_caller]
fn right<T>(outcome: Result<T, String>) -> T {
    outcome.unwrap_or_else(|wrong| panic!("{wrong}"))
}

#[test]
fn a_power_loss_at_any_time_loses_nothing_acknowledged() {
    let recording = record("", 3, 3);
    for position in recording.positions(7) {
        right(recording.cut(position, 1));
    }
    right(recording.cut_and_go_on(recording.journal.changes.len() * 2 / 3, 2));
}

#[test]
fn a_file_copy_at_any_time_has_everything_acknowledged() {
    let recording = record("", 2, 3);
    for position in recording.positions(11) {
        right(recording.copy(position));
    }
}

#[test]
fn with_durability_process_a_power_loss_keeps_a_sound_prefix() {
    let recording = record("?durability=process", 2, 3);
    let cuts: Vec<_> = recording.positions(9).map(|position| right(recording.cut(position, 3))).collect();
    // These images lose data, which shows that the power-loss test can detect losses.
    assert!(cuts.contains(&Kept::Prefix) && cuts.contains(&Kept::All), "{cuts:?}");
    for position in recording.positions(29) {
        right(recording.copy(position));
    }
}

#[test]
fn a_failed_sync_or_write_ends_the_worker_and_a_new_one_continues() {
    let base = Base::new();
    for (call, first, errno) in [
        (SystemCall::Sync, 1, "EIO"),
        (SystemCall::Sync, 6, "EIO"),
        (SystemCall::Write, 23, "EIO"),
        (SystemCall::Write, 41, "EROFS"),
    ] {
        let outcome = right(base.meet(fault(call, first, errno, FailingCalls::Once)));
        assert_eq!(outcome, Outcome::Ended, "{call:?} {first}");
    }
}

#[test]
fn a_worker_survives_a_full_disk() {
    let base = Base::new();
    for (first, errno, manner) in [
        (21, "ENOSPC", FailingCalls::Once),
        (30, "ENOSPC", FailingCalls::Short),
        (37, "ENOSPC", FailingCalls::On),
    ] {
        let outcome = right(base.meet(fault(SystemCall::Write, first, errno, manner)));
        assert_eq!(outcome, Outcome::WentOn, "{first} {errno}");
    }
}

#[test]
fn a_full_disk_is_reported_and_reads_work() {
    let site = Base::new().site();
    let journal = site.path("disk.journal");
    let healed = site.path("healed");
    let disk = Disk::under(&site.database()).failing(fault(SystemCall::Write, 1, "ENOSPC", FailingCalls::On));
    let disk = disk.until(&healed).journalling_to(&journal);
    let start = ["start", "order", "--id", "ord-9", "--input", "1"];
    assert!(site.run(Some(&disk), &start).fails(1, "GS0207").contains("free some space"));
    assert!(failures(&journal) > 0);
    assert!(site.run(Some(&disk), &["ls"]).ok().contains("ord-1"));
    site.run(Some(&disk), &["history", "ord-1"]).ok();
    site.run(Some(&disk), &["show", "ord-9"]).fails(3, "GS0104");
    std::fs::write(&healed, "").unwrap();
    site.run(Some(&disk), &start).ok();
    assert!(site.run(None, &["store", "check"]).ok().contains("sound"));
}

#[test]
fn a_broken_disk_is_reported_and_commands_are_atomic() {
    for (call, first) in
        [(SystemCall::Sync, 1), (SystemCall::Sync, 2), (SystemCall::Write, 3), (SystemCall::Open, 2)]
    {
        let site = Base::new().site();
        let disk = Disk::under(&site.database()).failing(fault(call, first, "EIO", FailingCalls::On));
        let start = ["start", "order", "--id", "ord-9", "--input", "1"];
        let ran = site.run(Some(&disk), &start);
        assert!(ran.code != 0 && ran.err.contains("error[GS02"), "{call:?} {first}: {}", ran.err);
        assert!(ran.err.contains("\nhelp: ") && ran.err.contains("goldseam explain GS02"), "{}", ran.err);
        site.run(None, &start).ok();
        assert!(site.run(None, &["store", "check"]).ok().contains("sound"));
        assert_eq!(site.logs()["ord-9"].len(), 1);
    }
}

/// Copies the files while a worker is stopped at an arbitrary point.
#[test]
fn files_copied_from_a_frozen_worker_have_everything_visible() {
    let site = Base::new().site();
    let worker = site.worker(None);
    eventually("the worker works", || site.is_open().then_some(()));
    let copies: Vec<(Site, store::Logs)> = (0..4)
        .map(|_| {
            let seen = site.logs();
            worker.signal(rustix::process::Signal::STOP);
            let copy = Site::new("");
            for suffix in ["", "-wal"] {
                let name = format!("gold.db{suffix}");
                std::fs::copy(site.path(&name), copy.path(&name)).unwrap();
            }
            worker.signal(rustix::process::Signal::CONT);
            (copy, seen)
        })
        .collect();
    site.finish(None);
    for (copy, seen) in copies {
        right(power::sound(&copy));
        let found = copy.logs();
        assert!(seen.iter().all(|(run, log)| found[run].starts_with(log)));
    }
}
