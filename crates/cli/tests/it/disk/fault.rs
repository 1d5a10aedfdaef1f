//! One call to the system fails under a worker, and then?

use std::os::unix::fs::PermissionsExt;

use goldseam_testbed::disk::{Change, Disk, Fault, Journal};

use super::power::Recording;
use super::store::{Site, Watcher};
use crate::support::eventually;

/// Failures that a worker must live through before a disk that goes on failing is healed.
const FAILURES: usize = 3;
/// Images of a power loss that are judged after every fault.
const IMAGES: u64 = 4;

/// How a worker got through a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It made no such call.
    NotMet,
    /// It went on.
    WentOn,
    /// It ended with an error and a hint, and a fresh one went on.
    Ended,
}

/// Orders that wait for a worker.
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

    /// Puts `fault` under a worker and says how it got through; what went wrong is an error.
    pub(crate) fn meet(&self, fault: Fault) -> Result<Outcome, String> {
        let site = self.site();
        let (path, healed) = (site.path("disk.journal"), site.path("healed"));
        let disk = Disk::under(&site.database()).failing(fault).until(&healed).remembering(&path);
        let ended = observe(&site, &disk, || {
            if failures(&path) >= FAILURES {
                std::fs::write(&healed, "").unwrap();
            }
        });
        let outcome = match ended {
            _ if failures(&path) == 0 => Outcome::NotMet,
            None => Outcome::WentOn,
            Some(0) => return Err(format!("{fault}: it ended as if nothing had been")),
            Some(_) => {
                told_why(&site.told()).map(|()| Outcome::Ended).map_err(|e| format!("{fault}: {e}"))?
            }
        };
        let fresh = site.worker(None);
        site.finish(None);
        fresh.stop();
        site.repeats_nothing().map_err(|wrong| format!("{fault}: {wrong}"))?;
        let journal = Journal::read(&path).unwrap().onto(&self.0);
        let recording = Recording { journal, logs: site.logs(), options: "" };
        let end = recording.journal.changes.len();
        for seed in 0..IMAGES {
            recording.cut(end, seed).map_err(|wrong| format!("{fault}: {wrong}"))?;
        }
        Ok(outcome)
    }
}

/// A worker on `disk` until it ends or every order asks; its exit code if it ended. What is seen meanwhile is marked.
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

/// How many calls have failed.
pub(crate) fn failures(journal: &std::path::Path) -> usize {
    let Ok(journal) = Journal::read(journal) else { return 0 };
    journal.changes.iter().filter(|change| matches!(change, Change::Failed(_))).count()
}

/// An error with its code, what to do, and where to read on.
fn told_why(told: &str) -> Result<(), String> {
    let parts = ["error[GS02", "\nhelp: ", "\ndocs: goldseam explain GS02"];
    if parts.iter().all(|part| told.contains(part)) {
        Ok(())
    } else {
        Err(format!("it did not say why: {told}"))
    }
}
