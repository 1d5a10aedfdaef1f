//! The bucket as the rest of the store sees it: gets, conditional puts and lists under one prefix.
//!
//! Invariant: a conditional write that may have been done is never reported as lost. After a lost response the bucket
//! reads the object: every object is unique because of its write-id, so equal bytes are our own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use goldseam_core::Millis;
use goldseam_store::StoreError;
use goldseam_store::backoff::Backoff;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};
use tokio::sync::Semaphore;

use crate::clock::MonotonicTime;
use crate::fault::{self, RequestFailure, RequestVerdict};
use crate::http::ResponseObserver;
use crate::request_counter::RequestCounter;

/// Most requests at once.
const REQUESTS_MAX: usize = 64;
/// Most gets at once for one call.
pub(crate) const CONCURRENT_GETS: usize = 32;
/// Most attempts of one request.
const ATTEMPTS_MAX: u32 = 5;
/// The first pause between two attempts.
const PAUSE: Duration = Duration::from_millis(40);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(320);
/// No attempt begins later than this after the first: the caller decides what to do. A request that was never answered
/// gets a second attempt.
const ATTEMPTS_TIMEOUT: Duration = Duration::from_secs(15);

/// The ETag and version of an object.
#[derive(Debug, Clone)]
pub(crate) struct ObjectTag {
    e_tag: Option<String>,
    version: Option<String>,
}

impl ObjectTag {
    /// Whether both certainly name the same content. Lists and responses may quote ETags differently.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let bare = |tag: &Self| tag.e_tag.as_deref().map(|tag| tag.trim_matches('"').to_owned());
        self.e_tag.is_some() && bare(self) == bare(other)
    }

    /// The version id, if the bucket keeps versions.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| *version != "null")
    }

    /// The tag with this [`name`](Self::name).
    pub(crate) fn named(name: &str) -> Self {
        Self { e_tag: Some(name.to_owned()), version: None }
    }

    /// A name for this content that other crates may keep.
    pub(crate) fn name(&self) -> String {
        self.e_tag.clone().unwrap_or_default()
    }

    fn of(meta: &ObjectMeta) -> Self {
        Self { e_tag: meta.e_tag.clone(), version: meta.version.clone() }
    }
}

/// A stored object.
#[derive(Debug, Clone)]
pub(crate) struct StoredObject {
    pub(crate) body: Bytes,
    pub(crate) tag: ObjectTag,
}

/// An entry of a list.
#[derive(Debug, Clone)]
pub(crate) struct ListedObject {
    /// Without the prefix of the store.
    pub(crate) key: String,
    pub(crate) tag: ObjectTag,
    /// When the object was written, by the server's clock.
    pub(crate) modified: Millis,
}

/// The outcome of a conditional put.
#[derive(Debug)]
pub(crate) enum Put {
    Done(ObjectTag),
    /// The condition did not hold; this is stored instead.
    Lost(Option<StoredObject>),
}

/// The condition of a put.
#[derive(Debug, Clone)]
pub(crate) enum PutCondition {
    /// The object does not exist, and never changes once it does.
    CreateOnce,
    /// The object does not exist.
    Absent,
    /// The object has this tag.
    Unchanged(ObjectTag),
    /// The same for an object of another system: its content is not unique, so another writer may write equal bytes.
    ForeignUnchanged(ObjectTag),
}

/// A prefix of a bucket.
#[derive(Clone)]
pub(crate) struct BucketPrefix {
    inner: Arc<dyn ObjectStore>,
    /// Empty, or ending in `/`.
    prefix: Arc<str>,
    requests: Arc<Semaphore>,
    counter: Arc<RequestCounter>,
    /// Observes responses, if there is a server.
    observer: Option<Arc<ResponseObserver>>,
}

impl BucketPrefix {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, prefix: &str, counter: Arc<RequestCounter>) -> Self {
        let prefix = match prefix.trim_matches('/') {
            "" => Arc::from(""),
            prefix => Arc::from(format!("{prefix}/")),
        };
        Self { inner, prefix, requests: Arc::new(Semaphore::new(REQUESTS_MAX)), counter, observer: None }
    }

    pub(crate) fn with_observer(self, observer: Arc<ResponseObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// How long a request takes: the longest recent round trip.
    pub(crate) fn round_trip(&self) -> Duration {
        self.observer.as_ref().map_or(Duration::ZERO, |observer| observer.round_trip())
    }

    /// The `Server` header of responses.
    pub(crate) fn server(&self) -> Option<&str> {
        self.observer.as_ref().and_then(|observer| observer.server())
    }

    pub(crate) fn counter(&self) -> &RequestCounter {
        &self.counter
    }

    fn path(&self, key: &str) -> Path {
        Path::from([&self.prefix, key].concat())
    }

    async fn request_permit(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.requests.acquire().await.ok()
    }

    /// Reads an object, if it exists.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<StoredObject>, StoreError> {
        self.with_retries("reading an object", || self.get_once(key)).await
    }

    async fn get_once(&self, key: &str) -> Result<Option<StoredObject>, Error> {
        let _permit = self.request_permit().await;
        self.counter.get(key);
        let got = match self.inner.get_opts(&self.path(key), GetOptions::default()).await {
            Ok(got) => got,
            Err(error) if RequestFailure::of(&error).verdict() == RequestVerdict::Absent => return Ok(None),
            Err(error) => return Err(error),
        };
        let tag = ObjectTag::of(&got.meta);
        Ok(Some(StoredObject { body: got.bytes().await?, tag }))
    }

    /// Reads several objects concurrently. Returns them in order.
    pub(crate) async fn get_all(&self, keys: Vec<String>) -> Result<Vec<Option<StoredObject>>, StoreError> {
        let gets = keys.into_iter().map(|key| async move { self.get(&key).await });
        futures_util::stream::iter(gets).buffered(CONCURRENT_GETS).try_collect().await
    }

    /// Lists keys under `folder`, which ends in `/`, after the key `after`; at most `limit`.
    pub(crate) async fn list(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ListedObject>, StoreError> {
        self.with_retries("listing objects", || self.list_once(folder, after, limit)).await
    }

    async fn list_once(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<ListedObject>, Error> {
        let _permit = self.request_permit().await;
        self.counter.list(folder);
        let prefix = self.path(folder);
        let stream = match after {
            None => self.inner.list(Some(&prefix)),
            Some(after) => self.inner.list_with_offset(Some(&prefix), &self.path(after)),
        };
        let mut stream = stream.take(limit);
        let mut listed = Vec::new();
        while let Some(meta) = stream.try_next().await? {
            let tag = ObjectTag::of(&meta);
            let modified = Millis(meta.last_modified.timestamp_millis());
            let path: String = meta.location.into();
            let Some(key) = path.strip_prefix(&*self.prefix) else { continue };
            listed.push(ListedObject { key: key.to_owned(), tag, modified });
        }
        // Some servers list in no order.
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }

    /// Writes an object without a condition. Only for markers and beats, which decide nothing.
    pub(crate) async fn put(&self, key: &str, body: Bytes) -> Result<ObjectTag, StoreError> {
        self.with_retries("writing an object", || self.put_once(key, body.clone(), PutMode::Overwrite)).await
    }

    async fn put_once(&self, key: &str, body: Bytes, mode: PutMode) -> Result<ObjectTag, Error> {
        let _permit = self.request_permit().await;
        self.counter.put(key);
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.inner.put_opts(&self.path(key), body.into(), options).await?;
        Ok(ObjectTag { e_tag: put.e_tag, version: put.version })
    }

    /// Writes an object if `condition` holds. The content must be unique.
    pub(crate) async fn put_if(
        &self,
        key: &str,
        body: Bytes,
        condition: PutCondition,
    ) -> Result<Put, StoreError> {
        let doing = "writing an object";
        let mode = match &condition {
            PutCondition::CreateOnce | PutCondition::Absent => PutMode::Create,
            PutCondition::Unchanged(ObjectTag { e_tag, version })
            | PutCondition::ForeignUnchanged(ObjectTag { e_tag, version }) => {
                PutMode::Update(UpdateVersion { e_tag: e_tag.clone(), version: version.clone() })
            }
        };
        // Whether an earlier attempt may have been done without a response that says so.
        let mut doubt = false;
        let mut last = None;
        let mut attempts = Attempts::new();
        while attempts.next().await {
            let failure = match self.put_once(key, body.clone(), mode.clone()).await {
                Ok(tag) => return Ok(Put::Done(tag)),
                Err(error) => RequestFailure::of(&error),
            };
            match failure.verdict() {
                // This attempt was not done, which says nothing about earlier ones.
                RequestVerdict::Refused if doubt => {
                    last = Some(failure);
                    break;
                }
                RequestVerdict::Refused => return Err(failure.refused(doing)),
                RequestVerdict::Failed { done } => doubt |= done != Some(false),
                RequestVerdict::Condition | RequestVerdict::Absent => {
                    let found = self.get(key).await.map_err(|error| match doubt {
                        true => fault::unknown(doing, Box::new(error)),
                        false => error,
                    })?;
                    let is_ours = |found: &&StoredObject| {
                        found.body == body
                            && (doubt || !matches!(condition, PutCondition::ForeignUnchanged(_)))
                    };
                    if let Some(found) = found.as_ref().filter(is_ours) {
                        return Ok(Put::Done(found.tag.clone()));
                    }
                    match (&condition, &found) {
                        // The server was busy with another request for this key, and did not do this one.
                        (PutCondition::CreateOnce | PutCondition::Absent, None) => {}
                        (PutCondition::Unchanged(tag) | PutCondition::ForeignUnchanged(tag), Some(found))
                            if found.tag.is(tag) => {}
                        // An earlier attempt may have been done, and another writer has written since.
                        (
                            PutCondition::Absent
                            | PutCondition::Unchanged(_)
                            | PutCondition::ForeignUnchanged(_),
                            _,
                        ) if doubt => {
                            return Err(fault::unknown(doing, failure.into()));
                        }
                        _ => return Ok(Put::Lost(found)),
                    }
                }
            }
            last = Some(failure);
        }
        let source = last.map_or_else(|| "no answer".into(), Into::into);
        // Read once more: a write whose response was lost is settled here, not by the caller.
        if doubt
            && let Ok(Some(found)) = self.get(key).await
            && found.body == body
        {
            return Ok(Put::Done(found.tag));
        }
        Err(if doubt { fault::unknown(doing, source) } else { fault::busy(doing, source) })
    }

    /// Removes an object, if it exists.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.with_retries("removing an object", || self.delete_once(key)).await
    }

    async fn delete_once(&self, key: &str) -> Result<(), Error> {
        let _permit = self.request_permit().await;
        self.counter.delete(key);
        match self.inner.delete(&self.path(key)).await {
            Err(error) if RequestFailure::of(&error).verdict() != RequestVerdict::Absent => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends an idempotent request until it is answered or no attempt is left.
    async fn with_retries<T, F, Fut>(&self, doing: &'static str, mut send: F) -> Result<T, StoreError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let mut last = None;
        let mut attempts = Attempts::new();
        while attempts.next().await {
            let failure = match send().await {
                Ok(answer) => return Ok(answer),
                Err(error) => RequestFailure::of(&error),
            };
            match failure.verdict() {
                // Another request for the same key is under way.
                RequestVerdict::Failed { .. } | RequestVerdict::Condition => last = Some(failure),
                RequestVerdict::Refused | RequestVerdict::Absent => return Err(failure.refused(doing)),
            }
        }
        Err(fault::busy(doing, last.map_or_else(|| "no answer".into(), Into::into)))
    }
}

/// The attempts of one request.
struct Attempts {
    begun: MonotonicTime,
    count: u32,
    backoff: Backoff,
}

impl Attempts {
    fn new() -> Self {
        Self { begun: MonotonicTime::now(), count: 0, backoff: Backoff::new(PAUSE, PAUSE_MAX) }
    }

    /// Pauses before every attempt but the first. Returns whether there is another attempt.
    async fn next(&mut self) -> bool {
        if self.count > 0 {
            if self.count >= ATTEMPTS_MAX || self.begun.elapsed() > ATTEMPTS_TIMEOUT {
                return false;
            }
            tokio::time::sleep(self.backoff.next_pause()).await;
        }
        self.count += 1;
        true
    }
}

impl fmt::Debug for BucketPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BucketPrefix({}/{})", self.inner, self.prefix)
    }
}

#[cfg(test)]
mod tests;
