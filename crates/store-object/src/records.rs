//! Records that are truths by themselves: one object each, changed by compare-and-set, remembered by tag.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_store::StoreError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Found, Listed, Put, Tag, When};
use crate::clock::Moment;
use crate::fault::damaged;
use crate::write_ids::Writes;

/// How long a list says enough to a sweep.
const A_MOMENT: Duration = Duration::from_secs(60);
/// Records of a folder that a list is remembered of.
const LISTED_MAX: usize = 20_000;

/// Something with a version that grows with every change.
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
struct Written<'a, T> {
    write: String,
    record: &'a T,
}

#[derive(Deserialize)]
struct Read<T> {
    record: T,
}

/// Makes the content of an object that is unlike any other's.
pub(crate) fn encode<T: Serialize>(record: &T, writes: &Writes) -> Bytes {
    serde_json::to_vec(&Written { write: writes.next(), record }).unwrap_or_default().into()
}

/// Reads what [`encode`] made.
pub(crate) fn decode<T: DeserializeOwned>(key: &str, object: &[u8]) -> Result<T, StoreError> {
    let read: Read<T> = serde_json::from_slice(object).map_err(|error| damaged(key, error))?;
    Ok(read.record)
}

/// Whether an object of this folder can be read.
pub(crate) fn decode_any(folder: &str, key: &str, object: &[u8]) -> Result<(), StoreError> {
    match folder {
        "lane/" => decode::<crate::lanes::Lane>(key, object).map(drop),
        _ => decode::<Task>(key, object).map(drop),
    }
}

/// A record with the tag of the object that holds it.
#[derive(Debug, Clone)]
pub(crate) struct Held<T> {
    pub(crate) record: T,
    pub(crate) tag: Tag,
}

impl<T: Versioned> Held<T> {
    pub(crate) fn read(key: &str, found: Found) -> Result<Self, StoreError> {
        Ok(Self { record: decode(key, &found.body)?, tag: found.tag })
    }
}

/// All records of a folder, as this process last saw them.
#[derive(Debug)]
pub(crate) struct Records<T> {
    folder: &'static str,
    known: Mutex<HashMap<String, Held<T>>>,
    /// What could not be read when it was last looked at: its tag, and why.
    unreadable: Mutex<BTreeMap<String, (Tag, String)>>,
    /// What the last list showed, unless that was too much to remember.
    listed: Mutex<Option<(Moment, HashMap<String, Tag>)>>,
}

/// What became of a write of a record.
pub(crate) enum Wrote<T> {
    Done,
    Lost(Option<Held<T>>),
}

impl<T: Versioned> Records<T> {
    pub(crate) fn new(folder: &'static str) -> Self {
        Self { folder, known: Mutex::default(), unreadable: Mutex::default(), listed: Mutex::default() }
    }

    /// What this process last saw: perhaps outdated, but enough to try a compare-and-set.
    pub(crate) fn last_seen(&self, key: &str) -> Option<Held<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Forgets what was last seen.
    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn see(&self, key: &str, held: Option<Held<T>>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match held {
            Some(held) => known.insert(key.to_owned(), held),
            None => known.remove(key),
        };
    }

    /// The record as it is now; none if it cannot be read.
    pub(crate) async fn get(&self, bucket: &Bucket, key: &str) -> Result<Option<Held<T>>, StoreError> {
        let held = self.read(key, bucket.get(key).await?);
        self.see(key, held.clone());
        Ok(held)
    }

    /// Makes sense of an object. One that cannot be read is remembered as that, and is none.
    fn read(&self, key: &str, found: Option<Found>) -> Option<Held<T>> {
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = found else {
            unreadable.remove(key);
            return None;
        };
        let tag = found.tag.clone();
        match Held::read(key, found) {
            Ok(held) => {
                unreadable.remove(key);
                Some(held)
            }
            Err(error) => {
                unreadable.insert(key.to_owned(), (tag, error.to_string()));
                None
            }
        }
    }

    /// Why a record could not be read when it was last looked at.
    pub(crate) fn why_unreadable(&self, key: &str) -> Option<String> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.get(key).map(|(_, reason)| reason.clone())
    }

    /// What `make` makes of the names of all records that could not be read when they were last looked at.
    pub(crate) fn unreadable_names<U>(&self, make: impl Fn(String) -> Option<U>) -> Vec<U> {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.keys().filter_map(|key| make(key.strip_prefix(self.folder)?.to_owned())).collect()
    }

    /// Reads what has changed, and names what cannot be read: names of records, and why.
    pub(crate) async fn unreadable(&self, bucket: &Bucket) -> Result<Vec<(String, String)>, StoreError> {
        self.all(bucket).await?;
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |key: &str| key.strip_prefix(self.folder).unwrap_or(key).to_owned();
        Ok(unreadable.iter().map(|(key, (_, reason))| (name(key), reason.clone())).collect())
    }

    /// The record as it was a moment ago, for whoever looks at many and will look again: a list costs what a few
    /// reads do.
    pub(crate) async fn get_for_sweep(&self, bucket: &Bucket, key: &str) -> Result<Option<T>, StoreError> {
        let is_old = {
            let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            listed.as_ref().is_none_or(|(at, _)| at.elapsed() > A_MOMENT)
        };
        if is_old && self.count() < LISTED_MAX {
            self.all(bucket).await?;
        }
        let seen = self.last_seen(key);
        let same = seen.filter(|held| {
            let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            listed.as_ref().and_then(|(_, tags)| tags.get(key)).is_some_and(|tag| tag.is(&held.tag))
        });
        match same {
            Some(held) => Ok(Some(held.record)),
            None => Ok(self.get(bucket, key).await?.map(|held| held.record)),
        }
    }

    fn count(&self) -> usize {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The record at `version`, if that is what it has: what was last seen will do.
    pub(crate) async fn at(
        &self,
        bucket: &Bucket,
        key: &str,
        version: u64,
    ) -> Result<Result<Held<T>, Option<Held<T>>>, StoreError> {
        if let Some(held) = self.last_seen(key).filter(|held| held.record.version() == version) {
            return Ok(Ok(held));
        }
        Ok(match self.get(bucket, key).await? {
            Some(held) if held.record.version() == version => Ok(held),
            other => Err(other),
        })
    }

    /// Writes a record over `before`.
    pub(crate) async fn write(
        &self,
        bucket: &Bucket,
        (key, record): (&str, &T),
        before: Option<&Held<T>>,
        writes: &Writes,
    ) -> Result<Wrote<T>, StoreError> {
        let when = before.map_or(When::Absent, |held| When::Is(held.tag.clone()));
        let put = bucket.put_if(key, encode(record, writes), when).await;
        match put.inspect_err(|_| self.see(key, None))? {
            Put::Done(tag) => {
                self.read(key, None);
                self.see(key, Some(Held { record: record.clone(), tag }));
                Ok(Wrote::Done)
            }
            Put::Lost(found) => {
                let held = self.read(key, found);
                self.see(key, held.clone());
                Ok(Wrote::Lost(held))
            }
        }
    }

    /// Writes a record whatever is there.
    pub(crate) async fn overwrite(
        &self,
        bucket: &Bucket,
        (key, record): (&str, &T),
        writes: &Writes,
    ) -> Result<(), StoreError> {
        let tag = bucket.put(key, encode(record, writes)).await?;
        self.read(key, None);
        self.see(key, Some(Held { record: record.clone(), tag }));
        Ok(())
    }

    pub(crate) async fn remove(&self, bucket: &Bucket, key: &str) -> Result<(), StoreError> {
        self.see(key, None);
        self.read(key, None);
        bucket.delete(key).await
    }

    /// All records in order of their keys: one list, and one read of each that has changed since the last time.
    pub(crate) async fn all(&self, bucket: &Bucket) -> Result<Vec<T>, StoreError> {
        let at = Moment::now();
        let listed = bucket.list(self.folder, None, usize::MAX).await?;
        let tags = |entry: &Listed| (entry.key.clone(), entry.tag.clone());
        let few = listed.len() < LISTED_MAX;
        *self.listed.lock().unwrap_or_else(PoisonError::into_inner) =
            few.then(|| (at, listed.iter().map(tags).collect()));
        let changed: Vec<String> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let mut bad = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
            let there: std::collections::HashSet<&str> =
                listed.iter().map(|entry| entry.key.as_str()).collect();
            bad.retain(|key, _| there.contains(key.as_str()));
            let is_known = |key: &str, tag: &Tag| {
                known.get(key).is_some_and(|held| held.tag.is(tag))
                    || bad.get(key).is_some_and(|(seen, _)| seen.is(tag))
            };
            let new = listed.iter().filter(|entry| !is_known(&entry.key, &entry.tag));
            new.map(|entry| entry.key.clone()).collect()
        };
        let found = bucket.get_all(changed.clone()).await?;
        for (key, found) in changed.iter().zip(found) {
            self.see(key, self.read(key, found));
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let records: Vec<T> =
            listed.iter().filter_map(|entry| known.get(&entry.key)).map(|held| held.record.clone()).collect();
        if known.len() > listed.len().saturating_mul(2) + 1_000 {
            let there: std::collections::HashSet<&str> =
                listed.iter().map(|entry| entry.key.as_str()).collect();
            known.retain(|key, _| there.contains(key.as_str()));
        }
        Ok(records)
    }
}
