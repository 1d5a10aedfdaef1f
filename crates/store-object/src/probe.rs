//! Does the server keep conditions? Whoever writes under one must be told if somebody else was faster; a server that
//! does not do so would lose events, and is found out before the first one.
//!
//! Invariant: it writes below `probe/` only, and removes what it made, whatever it found.

use std::time::Duration;

use bytes::Bytes;
use goldseam_core::Millis;
use goldseam_store::StoreError;

use crate::bucket::{Bucket, Put, Tag, When};
use crate::fault;
use crate::write_ids::Writes;

/// Everything that a probe makes.
pub(crate) const FOLDER: &str = "probe/";
/// A probe is over after this long, and what it left behind is nobody's.
const OVER: Duration = Duration::from_secs(600);
/// Times that it is tried at a server that loses answers.
const TRIES: u32 = 3;
/// Most leftovers that are removed at once.
const LEFT_MAX: usize = 100;

/// What a probe showed of a server that can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The bucket keeps all contents that an object had.
    pub(crate) versioned: bool,
}

/// Proves with nine requests that conditions are kept.
pub(crate) async fn probe(bucket: &Bucket) -> Result<Shown, StoreError> {
    let mut shown = once(bucket).await;
    for _ in 1..TRIES {
        // A race of which nobody knows who won proves nothing.
        if !matches!(shown, Err(StoreError::Unknown { .. })) {
            break;
        }
        shown = once(bucket).await;
    }
    shown
}

async fn once(bucket: &Bucket) -> Result<Shown, StoreError> {
    let trial = Trial::new(bucket);
    let (raced, missing) = (trial.key("raced"), trial.key("missing"));
    let shown = async {
        // One of two creates, then one of two updates of what that made.
        let created = trial.race(&raced, When::Never).await?;
        let updated = trial.race(&raced, When::Is(created)).await?;
        trial.update_missing(&missing, updated.clone()).await?;
        Ok(Shown { versioned: updated.version().is_some() })
    };
    let shown = shown.await;
    trial.remove(&raced, &shown).await;
    // It is there only if it should not be.
    if shown.is_err() {
        trial.remove(&missing, &shown).await;
    }
    shown
}

/// Removes what probes left behind that were cut short.
pub(crate) async fn tidy(bucket: &Bucket, now: Millis) -> Result<(), StoreError> {
    for left in bucket.list(FOLDER, None, LEFT_MAX).await? {
        if now.since(left.modified) > OVER {
            bucket.delete(&left.key).await?;
        }
    }
    Ok(())
}

/// Writes that only try the server out.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) bucket: &'a Bucket,
    writes: Writes,
    folder: String,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(bucket: &'a Bucket) -> Self {
        let writes = Writes::new();
        Self { bucket, folder: format!("{FOLDER}{}/", writes.next()), writes }
    }

    /// Where all its objects are.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// A content that no other object has.
    pub(crate) fn content(&self) -> Bytes {
        self.writes.next().into()
    }

    /// Two write the same object under the same condition. Exactly one may, and what is there must be its content.
    pub(crate) async fn race(&self, key: &str, when: When) -> Result<Tag, StoreError> {
        let (left, right) = (self.content(), self.content());
        let writers = (
            self.bucket.put_if(key, left.clone(), when.clone()),
            self.bucket.put_if(key, right.clone(), when.clone()),
        );
        let doing = if matches!(when, When::Is(_)) { "changed" } else { "created" };
        let (first, second) = futures_util::future::join(writers.0, writers.1).await;
        match (first?, second?) {
            (Put::Done(tag), Put::Lost(Some(found))) if found.body == left => Ok(tag),
            (Put::Lost(Some(found)), Put::Done(tag)) if found.body == right => Ok(tag),
            (Put::Done(_), Put::Done(_)) => Err(broken(&format!(
                "two writers {doing} the same object, and both writes were acknowledged"
            ))),
            (Put::Lost(_), Put::Lost(_)) => Err(broken(&format!(
                "two writers {doing} the same object, and neither write was acknowledged"
            ))),
            _ => Err(broken(&format!("a read did not return the object that a writer had just {doing}"))),
        }
    }

    /// What is not there does not have the content that an update asks for.
    async fn update_missing(&self, key: &str, tag: Tag) -> Result<(), StoreError> {
        match self.bucket.put_if(key, self.content(), When::Is(tag)).await? {
            Put::Lost(None) => Ok(()),
            _ => Err(broken("an update of a missing object succeeded")),
        }
    }

    /// Removes an object of the trial. If that fails, it is tidied up later, and what came before is what matters.
    pub(crate) async fn remove<T>(&self, key: &str, so_far: &Result<T, StoreError>) {
        let made = match so_far {
            Ok(_) | Err(StoreError::Unknown { .. }) => true,
            Err(StoreError::Refused { code, .. }) => matches!(*code, BROKEN | "GS0219"),
            Err(_) => false,
        };
        if made && let Err(error) = self.bucket.delete(key).await {
            tracing::debug!(key, %error, "failed to remove an object of a probe");
        }
    }
}

const BROKEN: &str = "GS0220";

/// A server that cannot be used.
pub(crate) fn broken(found: &str) -> StoreError {
    StoreError::Refused {
        code: BROKEN,
        what: format!("the server does not enforce conditional writes: {found}"),
        hint: fault::CONDITIONS_HINT.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::request_counter::Tallies;

    #[tokio::test]
    async fn a_server_that_keeps_conditions_is_shown_to_with_few_requests() {
        let tallies = Arc::new(Tallies::default());
        let bucket = Bucket::new(Arc::new(InMemory::new()), "p", Arc::clone(&tallies));
        probe(&bucket).await.unwrap();
        let tally = tallies.tally();
        assert_eq!((tally.puts, tally.gets, tally.lists, tally.deletes), (5, 3, 0, 1));
        assert!(bucket.list("", None, 10).await.unwrap().is_empty());
    }
}
