//! One system call of a worker fails.

use std::os::unix::fs::PermissionsExt;

use goldseam_testbed::disk::{Disk, DiskFault, DiskJournal, FileChange};

use super::power::Recording;
use super::store::{Site, Watcher};
use crate::support::eventually;

/// Failures that a worker must survive before a permanently failing disk is healed.
const FAILURES: usize = 3;
/// Images of a power loss that are checked after every fault.
const IMAGES: u64 = 4;

/// How a worker handled a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The worker made no such call.
    NotMet,
    /// The worker continued.
    WentOn,
    /// The worker ended with an error and a hint, and a new one continued.
    Ended,
}

/// A store with orders that wait for a worker.
pub(crate) struct Base(Vec<u8>);

impl Base {
    pub(crate) fn new() -> Self {
        let site = Site::new("");
        site.order(None, "ord-0", 3);
        site.order(None, "ord-1", 3);
        Self(std::fs::read(site.database()).unwrap())
    }

    pub(crate) fn site(&self) -> Site {
        let site = Site::new("");
        std::fs::write(site.database(), &self.0).unwrap();
        std::fs::set_permissions(site.database(), std::fs::Permissions::from_mode(0o600)).unwrap();
        site
    }

    /// Injects `fault` into a worker and returns how it handled it; a violation is an error.
    pub(crate) fn meet(&self, fault: DiskFault) -> Result<Outcome, String> {
        let site = self.site();
        let path = site.path("disk.journal");
        let healed = site.path("healed");
        let disk = Disk::under(&site.database()).failing(fault).until(&healed).journalling_to(&path);
        let ended = observe(&site, &disk, || {
            if failures(&path) >= FAILURES {
                std::fs::write(&healed, "").unwrap();
            }
        });
        let outcome = match ended {
            _ if failures(&path) == 0 => Outcome::NotMet,
            None => Outcome::WentOn,
            Some(0) => return Err(format!("{fault}: the worker ended with success")),
            Some(_) => explains(&site.worker_log())
                .map(|()| Outcome::Ended)
                .map_err(|wrong| format!("{fault}: {wrong}"))?,
        };
        let fresh = site.worker(None);
        site.finish(None);
        fresh.stop();
        site.repeats_nothing().map_err(|wrong| format!("{fault}: {wrong}"))?;
        let journal = DiskJournal::read(&path).unwrap().onto(&self.0);
        let recording = Recording { journal, logs: site.logs(), options: "" };
        let end = recording.journal.changes.len();
        for seed in 0..IMAGES {
            recording.cut(end, seed).map_err(|wrong| format!("{fault}: {wrong}"))?;
        }
        Ok(outcome)
    }
}

/// Runs a worker on `disk` until it ends or every order asks; returns its exit code if it ended. Marks in the journal
/// what becomes visible meanwhile.
fn observe(site: &Site, disk: &Disk, mut look: impl FnMut()) -> Option<i32> {
    let mut worker = site.worker(Some(disk));
    let mut watcher = None;
    eventually("the worker ends, or every order asks", || {
        if watcher.is_none() && site.is_open() {
            watcher = Some(Watcher::start(&site.database(), &site.path("disk.journal")));
        }
        look();
        match worker.ended() {
            Some(status) => Some(Some(status.code().unwrap_or(-1))),
            None => site.is_asking().then_some(None),
        }
    })
}

/// The number of failed calls.
pub(crate) fn failures(journal: &std::path::Path) -> usize {
    let Ok(journal) = DiskJournal::read(journal) else { return 0 };
    journal.changes.iter().filter(|change| matches!(change, FileChange::Failed(_))).count()
}

/// Checks that the log has an error with a code, help and a page.
fn explains(log: &str) -> Result<(), String> {
    let parts = ["error[GS02", "\nhelp: ", "\ndocs: goldseam explain GS02"];
    if parts.iter().all(|part| log.contains(part)) {
        Ok(())
    } else {
        Err(format!("the worker did not explain its end: {log}"))
    }
}
