//! Probes whether a server enforces conditional writes: of two writers with the same condition exactly one may succeed.
//! A server that does not enforce this would lose events, so it is refused before the first one.
//!
//! Invariant: a probe writes only below `probe/`, and removes its objects whatever it finds.

use std::time::Duration;

use bytes::Bytes;
use goldseam_core::Millis;
use goldseam_store::StoreError;

use crate::bucket::{BucketPrefix, ObjectTag, Put, PutCondition};
use crate::fault;
use crate::write_ids::WriteIds;

/// The folder of all probes.
pub(crate) const FOLDER: &str = "probe/";
/// After this time a probe is over, and its leftovers may be removed.
const PROBE_MAX: Duration = Duration::from_secs(600);
/// Most attempts at a server that loses responses.
const ATTEMPTS_MAX: u32 = 3;
/// Most leftovers that are removed at once.
const LEFTOVERS_MAX: usize = 100;

/// What a probe found out about a usable server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeResult {
    /// Whether the bucket keeps versions.
    pub(crate) versioned: bool,
}

/// Proves with nine requests that the server enforces conditional writes.
pub(crate) async fn probe(bucket: &BucketPrefix) -> Result<ProbeResult, StoreError> {
    let mut result = probe_once(bucket).await;
    for _ in 1..ATTEMPTS_MAX {
        // A race with an unknown outcome proves nothing.
        if !matches!(result, Err(StoreError::Unknown { .. })) {
            break;
        }
        result = probe_once(bucket).await;
    }
    result
}

async fn probe_once(bucket: &BucketPrefix) -> Result<ProbeResult, StoreError> {
    let probe = ProbeObjects::new(bucket);
    let raced = probe.key("raced");
    let missing = probe.key("missing");
    let result = async {
        // One of two creates succeeds, then one of two updates.
        let created = probe.race(&raced, PutCondition::CreateOnce).await?;
        let updated = probe.race(&raced, PutCondition::Unchanged(created)).await?;
        probe.update_missing(&missing, updated.clone()).await?;
        Ok(ProbeResult { versioned: updated.version().is_some() })
    };
    let result = result.await;
    probe.remove(&raced, &result).await;
    // The object exists only if the server is broken.
    if result.is_err() {
        probe.remove(&missing, &result).await;
    }
    result
}

/// Removes objects of probes that were interrupted.
pub(crate) async fn remove_leftovers(bucket: &BucketPrefix, now: Millis) -> Result<(), StoreError> {
    for leftover in bucket.list(FOLDER, None, LEFTOVERS_MAX).await? {
        if now.since(leftover.modified) > PROBE_MAX {
            bucket.delete(&leftover.key).await?;
        }
    }
    Ok(())
}

/// The objects of one probe.
#[derive(Debug)]
pub(crate) struct ProbeObjects<'a> {
    pub(crate) bucket: &'a BucketPrefix,
    write_ids: WriteIds,
    folder: String,
}

impl<'a> ProbeObjects<'a> {
    pub(crate) fn new(bucket: &'a BucketPrefix) -> Self {
        let write_ids = WriteIds::new();
        Self { bucket, folder: format!("{FOLDER}{}/", write_ids.next()), write_ids }
    }

    /// The folder of its objects.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// Returns content that no other object has.
    pub(crate) fn content(&self) -> Bytes {
        self.write_ids.next().into()
    }

    /// Lets two writers write the same object under the same condition. Exactly one may succeed, and its content must
    /// be stored.
    pub(crate) async fn race(&self, key: &str, condition: PutCondition) -> Result<ObjectTag, StoreError> {
        let left = self.content();
        let right = self.content();
        let writes = (
            self.bucket.put_if(key, left.clone(), condition.clone()),
            self.bucket.put_if(key, right.clone(), condition.clone()),
        );
        let doing = if matches!(condition, PutCondition::Unchanged(_)) { "changed" } else { "created" };
        let (first, second) = futures_util::future::join(writes.0, writes.1).await;
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

    /// Updates a missing object, which must fail.
    async fn update_missing(&self, key: &str, tag: ObjectTag) -> Result<(), StoreError> {
        match self.bucket.put_if(key, self.content(), PutCondition::Unchanged(tag)).await? {
            Put::Lost(None) => Ok(()),
            _ => Err(broken("an update of a missing object succeeded")),
        }
    }

    /// Removes an object of the probe. After a failure, a later probe removes it.
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

/// The refusal of a server that does not enforce conditional writes.
pub(crate) fn broken(found: &str) -> StoreError {
    StoreError::Refused {
        code: BROKEN,
        what: format!("the server does not enforce conditional writes: {found}"),
        hint: fault::CONDITIONS_HINT.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;

    use super::*;
    use crate::request_counter::RequestCounter;

    #[tokio::test]
    async fn a_probe_takes_nine_requests_and_leaves_nothing() {
        let counter = Arc::new(RequestCounter::default());
        let bucket = BucketPrefix::new(Arc::new(InMemory::new()), "p", Arc::clone(&counter));
        probe(&bucket).await.unwrap();
        let counts = counter.counts();
        assert_eq!((counts.puts, counts.gets, counts.lists, counts.deletes), (5, 3, 0, 1));
        assert!(bucket.list("", None, 10).await.unwrap().is_empty());
    }
}
