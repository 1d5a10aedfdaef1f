//! States of others: `workflow/{id}/state.json` objects that no log of ours stands beside.

use async_trait::async_trait;
use goldseam_core::RunId;
use goldseam_store::{ForeignState, ForeignStates, Page, RecordKind, StoreError, Unreadable, Written};

use crate::bucket::{Found, Put, Tag, When};
use crate::keys;
use crate::rows::Known;
use crate::store::Inner;

#[async_trait]
impl ForeignStates for Inner {
    async fn states(&self, after: Option<&str>, limit: u32) -> Result<Page<ForeignState>, StoreError> {
        let ids = self.foreign_ids().await?;
        let mut behind = ids.into_iter().filter(|id| after.is_none_or(|after| id.as_str() > after));
        let page: Vec<RunId> = behind.by_ref().take(limit as usize).collect();
        let next = behind.next().and(page.last()).map(|last| last.as_str().to_owned());
        let objects = self.bucket.get_all(page.iter().map(keys::state).collect()).await?;
        let mut states = Page { next, ..Page::default() };
        for (id, object) in page.into_iter().zip(objects) {
            let Some(found) = object else { continue };
            match theirs(id, found) {
                Ok(state) => states.items.extend(state),
                Err(unreadable) => states.unreadable.push(unreadable),
            }
        }
        Ok(states)
    }

    fn settled(&self, id: &RunId, version: &str) {
        self.walks.settle(id, version);
    }

    async fn unnamed(&self) -> Result<Vec<String>, StoreError> {
        self.unnamed_states().await
    }

    async fn swap(&self, id: &RunId, version: &str, body: &str) -> Result<Written<ForeignState>, StoreError> {
        let key = keys::state(id);
        match self.bucket.put_if(&key, body.to_owned().into(), When::Theirs(Tag::named(version))).await? {
            Put::Done(_) => Ok(Written::Done),
            Put::Lost(found) => {
                let there = found.and_then(|found| theirs(id.clone(), found).ok());
                Ok(Written::Lost(there.flatten()))
            }
        }
    }
}

/// A state that is not ours; none if it is. What is no text is nobody's that could be healed.
fn theirs(id: RunId, found: Found) -> Result<Option<ForeignState>, Unreadable> {
    let key = keys::state(&id);
    let text = std::str::from_utf8(&found.body).map(str::to_owned);
    let body = text.map_err(|error| Unreadable::new(RecordKind::Row, id.as_str(), error))?;
    let version = found.tag.name();
    // What cannot be read at all is not ours either: ours is written whole.
    match Known::read(&key, found) {
        Ok(Some(_)) => Ok(None),
        Ok(None) | Err(_) => Ok(Some(ForeignState { id, version, body })),
    }
}
