//! The markers of ready and poked tasks, as the last list showed them.
//!
//! The index is a hint: it decides which tasks a claim looks at, and never what is true of them. Own writes are in it
//! at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_store::StoreError;

use crate::bucket::BucketPrefix;
use crate::clock::MonotonicTime;
use crate::keys::{self, TaskMarker};

/// How old a list of the tasks that are due later may be: no task that is due within a minute is listed there.
const LATER_AGE_MAX: Duration = Duration::from_secs(30);
/// How long a list is remembered.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How long a marker without its task is skipped before it is looked at again.
const SKIPPED: Duration = Duration::from_secs(2);
/// Most tasks due later that are read; the nearest come first.
const LATER_MAX: usize = 1_000;

/// Markers with the times at which they were written.
type Markers = BTreeMap<String, (TaskMarker, Millis)>;

/// A marker that this process wrote or removed.
#[derive(Debug)]
struct OwnChange {
    key: String,
    exists: bool,
}

/// One folder of markers.
#[derive(Debug, Default)]
struct Folder {
    markers: Markers,
    listed: Option<MonotonicTime>,
    /// Own changes during a list, which may not show them; none while no list is under way.
    during_list: Option<Vec<OwnChange>>,
    /// Markers without their tasks, and since when they are skipped.
    skipped: BTreeMap<String, MonotonicTime>,
}

impl Folder {
    fn is_fresh(&self, age_max: Duration) -> bool {
        self.listed.is_some_and(|at| at.elapsed() < age_max)
    }

    fn change(&mut self, key: &str, exists: bool) {
        if let Some(changes) = &mut self.during_list {
            changes.push(OwnChange { key: key.to_owned(), exists });
        }
        // A process that never claims need not remember markers.
        if !self.is_fresh(REMEMBERED) {
            self.markers.clear();
            return;
        }
        self.skipped.remove(key);
        match TaskMarker::parse(key).filter(|_| exists) {
            Some(marker) => self.markers.insert(key.to_owned(), (marker, Millis::NEVER)),
            None => self.markers.remove(key),
        };
    }
}

/// The task markers that this process knows.
#[derive(Debug, Default)]
pub(crate) struct ReadyIndex {
    now: Mutex<Folder>,
    later: Mutex<Folder>,
    /// Held while a list is under way: one at a time.
    listing: tokio::sync::Mutex<()>,
}

impl ReadyIndex {
    fn folder(&self, key: &str) -> MutexGuard<'_, Folder> {
        let folder = if key.starts_with(keys::LATER) { &self.later } else { &self.now };
        folder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this process wrote a marker.
    pub(crate) fn added(&self, key: &str) {
        self.folder(key).change(key, true);
    }

    /// Records that this process removes a marker.
    pub(crate) fn removed(&self, key: &str) {
        self.folder(key).change(key, false);
    }

    /// The key of this marker, if it is known.
    pub(crate) fn key_of(&self, marker: &TaskMarker) -> Option<String> {
        marker.keys().into_iter().find(|key| self.folder(key).markers.contains_key(key))
    }

    /// All markers except the skipped ones. Lists them again if the last list is older than `age_max`.
    pub(crate) async fn markers(
        &self,
        bucket: &BucketPrefix,
        age_max: Duration,
    ) -> Result<Vec<(String, TaskMarker)>, StoreError> {
        self.refresh(bucket, age_max).await?;
        let mut all = Vec::new();
        for name in [keys::NOW, keys::LATER] {
            let mut folder = self.folder(name);
            let Folder { markers, skipped, .. } = &mut *folder;
            skipped.retain(|key, since| since.elapsed() < SKIPPED && markers.contains_key(key));
            let current = markers.iter().filter(|(key, _)| !skipped.contains_key(*key));
            all.extend(current.map(|(key, (marker, _))| (key.clone(), marker.clone())));
        }
        Ok(all)
    }

    /// Skips a marker for a moment: its task does not exist, or is not yet as the marker says.
    pub(crate) fn skip(&self, key: &str) {
        self.folder(key).skipped.insert(key.to_owned(), MonotonicTime::now());
    }

    /// When this marker was written; never, if this process wrote it or it is unknown.
    pub(crate) fn written_at(&self, key: &str) -> Millis {
        self.folder(key).markers.get(key).map_or(Millis::NEVER, |(_, at)| *at)
    }

    /// Lists the folders whose last list is too old. Returns whether there are new markers.
    pub(crate) async fn refresh(&self, bucket: &BucketPrefix, age_max: Duration) -> Result<bool, StoreError> {
        let _only_list = self.listing.lock().await;
        let mut has_new = false;
        if !self.folder(keys::NOW).is_fresh(age_max) {
            has_new |= self.list(bucket, keys::NOW, usize::MAX).await?;
        }
        if !self.folder(keys::LATER).is_fresh(LATER_AGE_MAX) {
            has_new |= self.list(bucket, keys::LATER, LATER_MAX).await?;
        }
        Ok(has_new)
    }

    async fn list(&self, bucket: &BucketPrefix, name: &str, limit: usize) -> Result<bool, StoreError> {
        self.folder(name).during_list = Some(Vec::new());
        let at = MonotonicTime::now();
        let listed = bucket.list(name, None, limit).await?;
        let mut folder = self.folder(name);
        let mut markers: Markers = listed
            .into_iter()
            .filter_map(|entry| Some((entry.key.clone(), (TaskMarker::parse(&entry.key)?, entry.modified))))
            .collect();
        for OwnChange { key, exists } in folder.during_list.take().unwrap_or_default() {
            match TaskMarker::parse(&key).filter(|_| exists) {
                Some(marker) => markers.insert(key, (marker, Millis::NEVER)),
                None => markers.remove(&key),
            };
        }
        let has_new = markers.keys().any(|key| !folder.markers.contains_key(key));
        folder.markers = markers;
        folder.listed = Some(at);
        Ok(has_new)
    }
}
