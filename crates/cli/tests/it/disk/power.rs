//! Records a workload on a journalling disk, and checks whether a power loss at any time loses data.

use std::collections::BTreeMap;

use goldseam_testbed::disk::image::{self, Image};
use goldseam_testbed::disk::{Disk, DiskJournal, DiskRandom, FileChange};

use super::store::{Logs, Site, Watcher, logs};
use crate::support::{block, eventually};

/// The changes of a store, and when results were acknowledged.
pub(crate) struct Recording {
    pub(crate) journal: DiskJournal,
    /// The logs at the end.
    pub(crate) logs: Logs,
    pub(crate) options: &'static str,
}

/// What a power loss kept of the acknowledged results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    All,
    /// All but the end.
    Prefix,
}

/// Starts, executes, answers and completes `orders` on a journalling disk.
pub(crate) fn record(options: &'static str, orders: usize, length: usize) -> Recording {
    let site = Site::new(options);
    let journal = site.path("disk.journal");
    let disk = Disk::under(&site.database()).journalling_to(&journal);
    for order in 0..orders {
        let run = format!("ord-{order}");
        site.order(Some(&disk), &run, length);
        DiskJournal::mark(&journal, &format!("{run} 1")).unwrap();
    }
    let mut worker = site.worker(Some(&disk));
    eventually("the worker has the database open", || {
        assert!(worker.ended().is_none(), "{}", site.worker_log());
        site.is_open().then_some(())
    });
    let watcher = Watcher::start(&site.database(), &journal);
    site.finish(Some(&disk));
    drop(watcher);
    assert!(worker.stop().success(), "{}", site.worker_log());
    // The last process to close the database moves the write-ahead log into it.
    site.run(Some(&disk), &["ls"]).ok();
    site.repeats_nothing().unwrap();
    Recording { journal: DiskJournal::read(&journal).unwrap(), logs: site.logs(), options }
}

impl Recording {
    /// What was acknowledged after `position` changes: each run with the end of its log.
    fn acknowledged(&self, position: usize) -> BTreeMap<&str, usize> {
        let marks = self.journal.changes[..position].iter().filter_map(|change| match change {
            FileChange::Mark(word) => word.split_once(' '),
            _ => None,
        });
        marks.map(|(run, end)| (run, end.parse().unwrap())).collect()
    }

    /// Positions, `step` apart.
    pub(crate) fn positions(&self, step: usize) -> impl Iterator<Item = usize> {
        (1..=self.journal.changes.len()).step_by(step)
    }

    /// Simulates a power loss after `position` changes and checks the store.
    pub(crate) fn cut(&self, position: usize, seed: u64) -> Result<Kept, String> {
        let mut dice = DiskRandom::new(seed ^ (position as u64) << 20);
        let image = image::after_power_loss(&self.journal.changes[..position], &mut dice);
        match self.check(&image, position).map_err(|wrong| format!("cut {position} seed {seed}: {wrong}"))? {
            Some(lost) if !self.options.contains("process") => {
                Err(format!("cut {position} seed {seed}: {lost}"))
            }
            Some(_) => Ok(Kept::Prefix),
            None => Ok(Kept::All),
        }
    }

    /// Simulates a copy of the files after `position` changes and checks it.
    pub(crate) fn copy(&self, position: usize) -> Result<(), String> {
        let image = image::copied(&self.journal.changes[..position]);
        let lost = self.check(&image, position).map_err(|wrong| format!("copy {position}: {wrong}"))?;
        lost.map_or(Ok(()), |lost| Err(format!("copy {position}: {lost}")))
    }

    /// Checks that the store is sound and has only events that were written; returns an acknowledged result that is
    /// missing.
    fn check(&self, image: &Image, position: usize) -> Result<Option<String>, String> {
        let site = Site::new(self.options);
        image.put(&site.database()).unwrap();
        sound(&site)?;
        let found = logs(&site.database());
        for (run, log) in &found {
            if !self.logs.get(run).is_some_and(|whole| whole.starts_with(log)) {
                return Err(format!("the log of {run} is not what was written"));
            }
        }
        let is_lost = |(run, end): &(&str, usize)| found.get(*run).map_or(0, Vec::len) < *end;
        let lost = self.acknowledged(position).into_iter().find(is_lost);
        Ok(lost.map(|(run, end)| format!("{run} was acknowledged up to {end} and ends earlier")))
    }

    /// Like [`Self::cut`], and then a worker completes every remaining run.
    pub(crate) fn cut_and_go_on(&self, position: usize, seed: u64) -> Result<(), String> {
        let site = Site::new(self.options);
        let image = image::after_power_loss(&self.journal.changes[..position], &mut DiskRandom::new(seed));
        image.put(&site.database()).unwrap();
        sound(&site)?;
        let before = site.logs();
        if before.is_empty() {
            return Ok(());
        }
        let worker = site.worker(None);
        site.finish(None);
        worker.stop();
        let after = site.logs();
        let keeps = |run: &String, log: &Vec<String>| after.get(run).is_some_and(|now| now.starts_with(log));
        match before.iter().find(|(run, log)| !keeps(run, log)) {
            Some((run, _)) => Err(format!("the log of {run} was changed")),
            None => site.repeats_nothing(),
        }
    }
}

/// Opens the store as an engine does, and checks it.
pub(crate) fn sound(site: &Site) -> Result<(), String> {
    block(async {
        let url = site.url();
        let store = goldseam::open_store(&url).await.map_err(|error| format!("it does not open: {error}"))?;
        let report =
            goldseam::admin::check_store(&url).await.map_err(|error| format!("no check: {error}"))?;
        drop(store);
        if report.is_sound() { Ok(()) } else { Err(format!("unsound: {:?}", report.complaints)) }
    })
}
