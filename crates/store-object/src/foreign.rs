//! Foreign states: `workflow/{id}/state.json` objects of other systems, without a log of ours.

use async_trait::async_trait;
use goldseam_core::RunId;
use goldseam_store::{ForeignState, ForeignStates, Page, RecordKind, StoreError, Unreadable, Written};

use crate::bucket::{ObjectTag, Put, PutCondition, StoredObject};
use crate::inner::BucketState;
use crate::keys;
use crate::row_cache::StoredRow;

#[async_trait]
impl ForeignStates for BucketState {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        let ids = self.scans.foreign_ids(&self.bucket).await?;
        let mut rest = ids.into_iter().filter(|id| after.is_none_or(|after| id.as_str() > after));
        let page: Vec<RunId> = rest.by_ref().take(limit as usize).collect();
        let next = rest.next().and(page.last()).map(|last| last.as_str().to_owned());
        let objects = self.bucket.get_all(page.iter().map(keys::state).collect()).await?;
        let mut states = Page { next, ..Page::default() };
        for (id, object) in page.into_iter().zip(objects) {
            let Some(found) = object else { continue };
            match foreign_state(id, found) {
                Ok(state) => states.items.extend(state),
                Err(unreadable) => states.unreadable.push(unreadable),
            }
        }
        Ok(states)
    }

    fn settled(&self, id: &RunId, version: &str) {
        self.scans.settle(id, version);
    }

    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.scans.scan(&self.bucket).await?.invalid_names.clone())
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        let key = keys::state(id);
        match self
            .bucket
            .put_if(&key, body.to_owned().into(), PutCondition::ForeignUnchanged(ObjectTag::named(version)))
            .await?
        {
            Put::Done(_) => Ok(Written::Done),
            Put::Lost(found) => {
                let rival = found.and_then(|found| foreign_state(id.clone(), found).ok());
                Ok(Written::Lost(rival.flatten()))
            }
        }
    }
}

/// The state of another system; none if the object is ours. A state that is not text cannot be healed.
fn foreign_state(id: RunId, found: StoredObject) -> Result<Option<ForeignState>, Unreadable> {
    let key = keys::state(&id);
    let text = std::str::from_utf8(&found.body).map(str::to_owned);
    let body = text.map_err(|error| Unreadable::new(RecordKind::Row, id.as_str(), error))?;
    let version = found.tag.name();
    // An undecodable object is foreign: ours are written whole.
    match StoredRow::read(&key, found) {
        Ok(Some(_)) => Ok(None),
        Ok(None) | Err(_) => Ok(Some(ForeignState { id, version, body })),
    }
}
