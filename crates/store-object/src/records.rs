//! Records: tasks, locks and beats. One object each, changed by compare-and-set and remembered by tag.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_store::StoreError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bucket::{BucketPrefix, ListedObject, ObjectTag, Put, PutCondition, StoredObject};
use crate::clock::MonotonicTime;
use crate::fault::damaged;
use crate::write_ids::WriteIds;

/// How old a list may be that a sweep relies on.
const SWEEP_AGE_MAX: Duration = Duration::from_secs(60);
/// Most records of a folder whose tags are remembered from a list.
const LISTED_MAX: usize = 20_000;

/// A record with a version that grows with every change.
pub(crate) trait Versioned: Clone + Serialize + DeserializeOwned {
    fn version(&self) -> u64;
}

impl Versioned for Task {
    fn version(&self) -> u64 {
        self.version
    }
}

impl Versioned for Lock {
    fn version(&self) -> u64 {
        self.version
    }
}

#[derive(Serialize)]
struct EncodedRecord<'a, T> {
    write: String,
    record: &'a T,
}

#[derive(Deserialize)]
struct DecodedRecord<T> {
    record: T,
}

/// Encodes a record as an object that is unlike any other because of its write-id.
pub(crate) fn encode<T: Serialize>(record: &T, write_ids: &WriteIds) -> Bytes {
    serde_json::to_vec(&EncodedRecord { write: write_ids.next(), record }).unwrap_or_default().into()
}

/// Decodes an object that [`encode`] made.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, object: &[u8]) -> Result<T, StoreError> {
    let read: DecodedRecord<T> = serde_json::from_slice(object).map_err(|error| damaged(key, error))?;
    Ok(read.record)
}

/// A record with the tag of its object.
#[derive(Debug, Clone)]
pub(crate) struct Tagged<T> {
    pub(crate) record: T,
    pub(crate) tag: ObjectTag,
}

impl<T: Versioned> Tagged<T> {
    fn read(key: &str, object: StoredObject) -> Result<Self, StoreError> {
        Ok(Self { record: decode(key, &object.body)?, tag: object.tag })
    }
}

/// The outcome of a write of a record.
pub(crate) enum RecordWrite<T> {
    Done,
    /// A rival was faster; this is stored instead.
    Lost(Option<Tagged<T>>),
}

/// The tags of a folder at the time of a list.
#[derive(Debug)]
struct ListedTags {
    at: MonotonicTime,
    tags: HashMap<String, ObjectTag>,
}

/// An object that could not be decoded.
#[derive(Debug)]
struct UnreadableObject {
    tag: ObjectTag,
    reason: String,
}

/// All records of a folder, as this process last saw them.
#[derive(Debug)]
pub(crate) struct Records<T> {
    folder: &'static str,
    bucket: BucketPrefix,
    write_ids: Arc<WriteIds>,
    known: Mutex<HashMap<String, Tagged<T>>>,
    /// Objects that could not be decoded when they were last read.
    unreadable: Mutex<BTreeMap<String, UnreadableObject>>,
    /// The last list, unless it had too many entries.
    listed: Mutex<Option<ListedTags>>,
}

impl<T: Versioned> Records<T> {
    pub(crate) fn new(folder: &'static str, bucket: &BucketPrefix, write_ids: &Arc<WriteIds>) -> Self {
        Self {
            folder,
            bucket: bucket.clone(),
            write_ids: Arc::clone(write_ids),
            known: Mutex::default(),
            unreadable: Mutex::default(),
            listed: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Tagged<T>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable_objects(&self) -> MutexGuard<'_, BTreeMap<String, UnreadableObject>> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> MutexGuard<'_, Option<ListedTags>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record that this process last saw. It may be outdated, but is enough to try a compare-and-set.
    pub(crate) fn last_seen(&self, key: &str) -> Option<Tagged<T>> {
        self.known().get(key).cloned()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.unreadable_objects().clear();
        self.known().clear();
    }

    fn remember(&self, key: &str, record: Option<Tagged<T>>) {
        let mut known = self.known();
        match record {
            Some(record) => known.insert(key.to_owned(), record),
            None => known.remove(key),
        };
    }

    /// Reads the record; none if it does not exist or is unreadable.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Tagged<T>>, StoreError> {
        let record = self.read(key, self.bucket.get(key).await?);
        self.remember(key, record.clone());
        Ok(record)
    }

    /// Decodes an object. Remembers an unreadable one as unreadable, and returns none.
    fn read(&self, key: &str, object: Option<StoredObject>) -> Option<Tagged<T>> {
        let mut unreadable = self.unreadable_objects();
        let Some(object) = object else {
            unreadable.remove(key);
            return None;
        };
        let tag = object.tag.clone();
        match Tagged::read(key, object) {
            Ok(record) => {
                unreadable.remove(key);
                Some(record)
            }
            Err(error) => {
                unreadable.insert(key.to_owned(), UnreadableObject { tag, reason: error.to_string() });
                None
            }
        }
    }

    /// Whether the record was unreadable when it was last read.
    pub(crate) fn is_unreadable(&self, key: &str) -> bool {
        self.unreadable_objects().contains_key(key)
    }

    /// What `make` makes of the names of all records that were unreadable when they were last read.
    pub(crate) fn unreadable_names<U>(&self, make: impl Fn(String) -> Option<U>) -> Vec<U> {
        let unreadable = self.unreadable_objects();
        unreadable.keys().filter_map(|key| make(key.strip_prefix(self.folder)?.to_owned())).collect()
    }

    /// Reads all changed records. Returns the names of unreadable ones, and why each is unreadable.
    pub(crate) async fn unreadable(&self) -> Result<Vec<(String, String)>, StoreError> {
        self.all().await?;
        let unreadable = self.unreadable_objects();
        let name = |key: &str| key.strip_prefix(self.folder).unwrap_or(key).to_owned();
        Ok(unreadable.iter().map(|(key, object)| (name(key), object.reason.clone())).collect())
    }

    /// Returns the record as a recent list showed it, for a sweep that looks at many records and will look again: a
    /// list costs as much as a few reads.
    pub(crate) async fn get_for_sweep(&self, key: &str) -> Result<Option<T>, StoreError> {
        let is_old = self.listed().as_ref().is_none_or(|listed| listed.at.elapsed() > SWEEP_AGE_MAX);
        let known_count = self.known().len();
        if is_old && known_count < LISTED_MAX {
            self.all().await?;
        }
        let unchanged = self.last_seen(key).filter(|seen| {
            let listed = self.listed();
            listed.as_ref().and_then(|listed| listed.tags.get(key)).is_some_and(|tag| tag.is(&seen.tag))
        });
        match unchanged {
            Some(seen) => Ok(Some(seen.record)),
            None => Ok(self.get(key).await?.map(|found| found.record)),
        }
    }

    /// Returns the record if it has this version, and what is stored otherwise. The remembered record is enough.
    pub(crate) async fn at(
        &self,
        key: &str,
        version: u64,
    ) -> Result<Result<Tagged<T>, Option<Tagged<T>>>, StoreError> {
        if let Some(seen) = self.last_seen(key).filter(|seen| seen.record.version() == version) {
            return Ok(Ok(seen));
        }
        Ok(match self.get(key).await? {
            Some(found) if found.record.version() == version => Ok(found),
            other => Err(other),
        })
    }

    /// Writes a record over `before`.
    pub(crate) async fn write(
        &self,
        key: &str,
        record: &T,
        before: Option<&Tagged<T>>,
    ) -> Result<RecordWrite<T>, StoreError> {
        let condition =
            before.map_or(PutCondition::Absent, |before| PutCondition::Unchanged(before.tag.clone()));
        let put = self.bucket.put_if(key, encode(record, &self.write_ids), condition).await;
        match put.inspect_err(|_| self.remember(key, None))? {
            Put::Done(tag) => {
                self.read(key, None);
                self.remember(key, Some(Tagged { record: record.clone(), tag }));
                Ok(RecordWrite::Done)
            }
            Put::Lost(object) => {
                let rival = self.read(key, object);
                self.remember(key, rival.clone());
                Ok(RecordWrite::Lost(rival))
            }
        }
    }

    /// Writes a record without a condition.
    pub(crate) async fn overwrite(&self, key: &str, record: &T) -> Result<(), StoreError> {
        let tag = self.bucket.put(key, encode(record, &self.write_ids)).await?;
        self.read(key, None);
        self.remember(key, Some(Tagged { record: record.clone(), tag }));
        Ok(())
    }

    pub(crate) async fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.remember(key, None);
        self.read(key, None);
        self.bucket.delete(key).await
    }

    /// All readable records in order of their keys: one list, and one read of each record that changed since the last
    /// list.
    pub(crate) async fn all(&self) -> Result<Vec<T>, StoreError> {
        let at = MonotonicTime::now();
        let listed = self.bucket.list(self.folder, None, usize::MAX).await?;
        let is_small = listed.len() < LISTED_MAX;
        let tags = || listed.iter().map(|entry| (entry.key.clone(), entry.tag.clone())).collect();
        *self.listed() = is_small.then(|| ListedTags { at, tags: tags() });
        let changed = self.changed(&listed);
        let found = self.bucket.get_all(changed.clone()).await?;
        for (key, object) in changed.iter().zip(found) {
            self.remember(key, self.read(key, object));
        }
        let mut known = self.known();
        let records: Vec<T> =
            listed.iter().filter_map(|entry| known.get(&entry.key)).map(|seen| seen.record.clone()).collect();
        if known.len() > listed.len().saturating_mul(2) + 1_000 {
            let existing: HashSet<&str> = listed.iter().map(|entry| entry.key.as_str()).collect();
            known.retain(|key, _| existing.contains(key.as_str()));
        }
        Ok(records)
    }

    /// The keys whose objects this process has not read in their current form.
    fn changed(&self, listed: &[ListedObject]) -> Vec<String> {
        let known = self.known();
        let mut unreadable = self.unreadable_objects();
        let existing: HashSet<&str> = listed.iter().map(|entry| entry.key.as_str()).collect();
        unreadable.retain(|key, _| existing.contains(key.as_str()));
        let is_known = |key: &str, tag: &ObjectTag| {
            known.get(key).is_some_and(|seen| seen.tag.is(tag))
                || unreadable.get(key).is_some_and(|seen| seen.tag.is(tag))
        };
        let new = listed.iter().filter(|entry| !is_known(&entry.key, &entry.tag));
        new.map(|entry| entry.key.clone()).collect()
    }
}
