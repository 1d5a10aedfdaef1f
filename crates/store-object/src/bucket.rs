//! The bucket as the rest of the store sees it: gets, conditional puts and lists under one prefix.
//!
//! Invariant: no conditional write is ever told to have been lost if it may have been done. A reply that was lost
//! is settled by looking: every object's content is unique (it carries a write-id), so equal bytes are our own.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use goldseam_core::Millis;
use goldseam_store::StoreError;
use object_store::path::Path;
use object_store::{
    Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};
use tokio::sync::Semaphore;

use crate::clock::Moment;
use crate::fault::{self, Failure, Verdict};
use crate::http::Heard;
use crate::request_counter::Tallies;

/// Requests under way at once.
const AT_ONCE: usize = 64;
/// Gets under way at once for one question.
pub(crate) const SIDE_BY_SIDE: usize = 32;
/// Times that a request is sent before its failure is told.
const TRIES: u32 = 5;
/// The first pause between two of them; it doubles.
const PAUSE: Duration = Duration::from_millis(40);
/// After this long a request is not sent again: whoever asked may know better what to do. One that was never answered
/// is sent a second time.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the server calls this content of an object.
#[derive(Debug, Clone)]
pub(crate) struct Tag {
    e_tag: Option<String>,
    version: Option<String>,
}

impl Tag {
    /// Whether both certainly name the same content. Lists and answers may differ in quotes.
    pub(crate) fn is(&self, other: &Self) -> bool {
        let bare = |tag: &Self| tag.e_tag.as_deref().map(|tag| tag.trim_matches('"').to_owned());
        self.e_tag.is_some() && bare(self) == bare(other)
    }

    /// What the server calls this one of all contents that the object had, where it keeps them.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.as_deref().filter(|version| *version != "null")
    }

    /// The tag that [`name`](Self::name) told.
    pub(crate) fn named(name: &str) -> Self {
        Self { e_tag: Some(name.to_owned()), version: None }
    }

    /// What to call it outside of this crate.
    pub(crate) fn name(&self) -> String {
        self.e_tag.clone().unwrap_or_default()
    }

    fn of(meta: &ObjectMeta) -> Self {
        Self { e_tag: meta.e_tag.clone(), version: meta.version.clone() }
    }
}

/// An object that is there.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) body: Bytes,
    pub(crate) tag: Tag,
}

/// An entry of a list.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// Without the store's own prefix.
    pub(crate) key: String,
    pub(crate) tag: Tag,
    /// When it was written, by the server's clock.
    pub(crate) modified: Millis,
}

/// What became of a conditional put.
#[derive(Debug)]
pub(crate) enum Put {
    /// It was done.
    Done(Tag),
    /// It was not done: this is there instead.
    Lost(Option<Found>),
}

/// When an object may be written.
#[derive(Debug, Clone)]
pub(crate) enum When {
    /// It is not there, and once it is there nobody changes it.
    Never,
    /// It is not there.
    Absent,
    /// It has this content.
    Is(Tag),
    /// The same, for an object whose form is not ours: its content is not unlike any other's, so somebody else may
    /// have written the very same.
    Theirs(Tag),
}

/// A prefix of a bucket.
#[derive(Clone)]
pub(crate) struct Bucket {
    inner: Arc<dyn ObjectStore>,
    /// Empty, or ending in `/`.
    prefix: Arc<str>,
    at_once: Arc<Semaphore>,
    tallies: Arc<Tallies>,
    /// What is learnt from a server's answers, if there is a server.
    heard: Option<Arc<Heard>>,
}

impl Bucket {
    pub(crate) fn new(inner: Arc<dyn ObjectStore>, prefix: &str, tallies: Arc<Tallies>) -> Self {
        let prefix = match prefix.trim_matches('/') {
            "" => Arc::from(""),
            prefix => Arc::from(format!("{prefix}/")),
        };
        Self { inner, prefix, at_once: Arc::new(Semaphore::new(AT_ONCE)), tallies, heard: None }
    }

    /// The same with what is learnt from answers.
    pub(crate) fn listening(self, heard: Arc<Heard>) -> Self {
        Self { heard: Some(heard), ..self }
    }

    /// How long a request takes, going by the slowest of late.
    pub(crate) fn round_trip(&self) -> Duration {
        self.heard.as_ref().map_or(Duration::ZERO, |heard| heard.round_trip())
    }

    /// What the server calls itself.
    pub(crate) fn server(&self) -> Option<&str> {
        self.heard.as_ref().and_then(|heard| heard.server())
    }

    pub(crate) fn tallies(&self) -> &Tallies {
        &self.tallies
    }

    fn path(&self, key: &str) -> Path {
        Path::from([&self.prefix, key].concat())
    }

    async fn turn(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.at_once.acquire().await.ok()
    }

    /// The object, if it is there.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Found>, StoreError> {
        self.again("reading an object", || self.get_once(key)).await
    }

    async fn get_once(&self, key: &str) -> Result<Option<Found>, Error> {
        let _turn = self.turn().await;
        self.tallies.get(key);
        let got = match self.inner.get_opts(&self.path(key), GetOptions::default()).await {
            Ok(got) => got,
            Err(error) if Failure::of(&error).verdict() == Verdict::Absent => return Ok(None),
            Err(error) => return Err(error),
        };
        let tag = Tag::of(&got.meta);
        Ok(Some(Found { body: got.bytes().await?, tag }))
    }

    /// Several objects side by side, in order.
    pub(crate) async fn get_all(&self, keys: Vec<String>) -> Result<Vec<Option<Found>>, StoreError> {
        let gets = keys.into_iter().map(|key| async move { self.get(&key).await });
        futures_util::stream::iter(gets).buffered(SIDE_BY_SIDE).try_collect().await
    }

    /// Everything under `folder`, which ends in `/`, behind `after`; at most about `limit`.
    pub(crate) async fn list(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        self.again("listing objects", || self.list_once(folder, after, limit)).await
    }

    async fn list_once(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<Listed>, Error> {
        let _turn = self.turn().await;
        self.tallies.list(folder);
        let prefix = self.path(folder);
        let stream = match after {
            None => self.inner.list(Some(&prefix)),
            Some(after) => self.inner.list_with_offset(Some(&prefix), &self.path(after)),
        };
        let mut stream = stream.take(limit);
        let mut listed = Vec::new();
        while let Some(meta) = stream.try_next().await? {
            let tag = Tag::of(&meta);
            let modified = Millis(meta.last_modified.timestamp_millis());
            let path: String = meta.location.into();
            let Some(key) = path.strip_prefix(&*self.prefix) else { continue };
            listed.push(Listed { key: key.to_owned(), tag, modified });
        }
        // Some stores list in no order.
        listed.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(listed)
    }

    /// Writes an object whatever is there. Only for markers and beats, whose content decides nothing.
    pub(crate) async fn put(&self, key: &str, body: Bytes) -> Result<Tag, StoreError> {
        self.again("writing an object", || self.put_once(key, body.clone(), PutMode::Overwrite)).await
    }

    async fn put_once(&self, key: &str, body: Bytes, mode: PutMode) -> Result<Tag, Error> {
        let _turn = self.turn().await;
        self.tallies.put(key);
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.inner.put_opts(&self.path(key), body.into(), options).await?;
        Ok(Tag { e_tag: put.e_tag, version: put.version })
    }

    /// Writes an object if it is as `when` says. Its content must be unlike any other's.
    pub(crate) async fn put_if(&self, key: &str, body: Bytes, when: When) -> Result<Put, StoreError> {
        let doing = "writing an object";
        let mode = match &when {
            When::Never | When::Absent => PutMode::Create,
            When::Is(Tag { e_tag, version }) | When::Theirs(Tag { e_tag, version }) => {
                PutMode::Update(UpdateVersion { e_tag: e_tag.clone(), version: version.clone() })
            }
        };
        // Whether an earlier try may have been done, although its answer did not say so.
        let mut doubt = false;
        let mut last = None;
        let begun = Moment::now();
        for turn in 0..TRIES {
            if !pause(turn, begun).await {
                break;
            }
            let failure = match self.put_once(key, body.clone(), mode.clone()).await {
                Ok(tag) => return Ok(Put::Done(tag)),
                Err(error) => Failure::of(&error),
            };
            match failure.verdict() {
                // This one was not done, which says nothing about those before.
                Verdict::Refused if doubt => {
                    last = Some(failure);
                    break;
                }
                Verdict::Refused => return Err(failure.refused(doing)),
                Verdict::Failed { done } => doubt |= done != Some(false),
                Verdict::Condition | Verdict::Absent => {
                    let found = self.get(key).await.map_err(|error| match doubt {
                        true => fault::unknown(doing, Box::new(error)),
                        false => error,
                    })?;
                    let is_ours =
                        |found: &&Found| found.body == body && (doubt || !matches!(when, When::Theirs(_)));
                    if let Some(found) = found.as_ref().filter(is_ours) {
                        return Ok(Put::Done(found.tag.clone()));
                    }
                    match (&when, &found) {
                        // The server was busy with another request for this key, and ours was not done.
                        (When::Never | When::Absent, None) => {}
                        (When::Is(tag) | When::Theirs(tag), Some(found)) if found.tag.is(tag) => {}
                        // An earlier try of ours may have been done, and somebody has written since.
                        (When::Absent | When::Is(_) | When::Theirs(_), _) if doubt => {
                            return Err(fault::unknown(doing, failure.into()));
                        }
                        _ => return Ok(Put::Lost(found)),
                    }
                }
            }
            last = Some(failure);
        }
        let source = last.map_or_else(|| "no answer".into(), Into::into);
        // One more look: a write of which only the answer was lost needs nobody's patience.
        if doubt
            && let Ok(Some(found)) = self.get(key).await
            && found.body == body
        {
            return Ok(Put::Done(found.tag));
        }
        Err(if doubt { fault::unknown(doing, source) } else { fault::busy(doing, source) })
    }

    /// Takes an object away, whatever it is. Nothing happens if it is not there.
    pub(crate) async fn delete(&self, key: &str) -> Result<(), StoreError> {
        self.again("removing an object", || self.delete_once(key)).await
    }

    async fn delete_once(&self, key: &str) -> Result<(), Error> {
        let _turn = self.turn().await;
        self.tallies.delete(key);
        match self.inner.delete(&self.path(key)).await {
            Err(error) if Failure::of(&error).verdict() != Verdict::Absent => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends a request that may be done twice, until it is answered or tries are used up.
    async fn again<T, F, Fut>(&self, doing: &'static str, mut send: F) -> Result<T, StoreError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, Error>>,
    {
        let mut last = None;
        let begun = Moment::now();
        for turn in 0..TRIES {
            if !pause(turn, begun).await {
                break;
            }
            let failure = match send().await {
                Ok(answer) => return Ok(answer),
                Err(error) => Failure::of(&error),
            };
            match failure.verdict() {
                // Another request for the same key was under way.
                Verdict::Failed { .. } | Verdict::Condition => last = Some(failure),
                Verdict::Refused | Verdict::Absent => return Err(failure.refused(doing)),
            }
        }
        Err(fault::busy(doing, last.map_or_else(|| "no answer".into(), Into::into)))
    }
}

/// Nothing before the first try, then longer every time; writers that met once do not meet again. Tells whether
/// there is time for another try.
async fn pause(turn: u32, begun: Moment) -> bool {
    if turn > 0 {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        let span = PAUSE * 2u32.pow(turn - 1);
        tokio::time::sleep(span.mul_f64(0.5 + crate::write_ids::chance())).await;
    }
    true
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bucket({}/{})", self.inner, self.prefix)
    }
}

#[cfg(test)]
mod tests;
