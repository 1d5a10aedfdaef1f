//! Reading the values that runs publish.

use std::collections::BTreeMap;

use goldseam_core::decide::Refusal;
use goldseam_core::summary::PublishedAt;
use goldseam_core::{Corrupt, Event, Millis, Payload, Recorded, RunId, Seq, ValueName};
use serde::de::DeserializeOwned;

use super::{Client, RunHandle};
use crate::ledger::dialogue::PublishError;
use crate::ledger::error::{EngineError, refused};
use crate::ledger::page::Most;

/// A value that a run published.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its name.
    pub name: ValueName,
    /// The value.
    pub value: Payload,
    /// Position of the event with the value.
    pub seq: Seq,
    /// When it was published.
    pub at: Millis,
}

impl Client {
    /// Reads the latest value that a run published under a name. Does not wake the run, and reads one event of its
    /// log; only a name that the run has not published costs a read of the log.
    ///
    /// ```
    /// use goldseam::prelude::*;
    ///
    /// async fn cook(ctx: Context, _: ()) -> goldseam::Result<()> { ctx.publish("dish", "soup").await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// # let engine = Engine::open(&url).await?.workflow("cook", cook).start().await?;
    /// let run = engine.start(cook, "c-1", &()).await?;
    /// run.result().await?;
    /// let dish = engine.client().published(run.id(), "dish").await?;
    /// assert_eq!(dish.value.as_str(), r#""soup""#);
    /// assert_eq!(engine.client().published_all(run.id()).await?, [dish]);
    /// # Ok(()) }
    /// ```
    pub async fn published(&self, run: &RunId, name: &str) -> Result<Published, EngineError> {
        let name = ValueName::new(name)?;
        let published = self.published_index(run, Some(&name)).await?;
        match published.get(&name) {
            Some(at) => self.published_at(run, &name, at.seq).await,
            None => {
                let published = published.into_keys().collect();
                Err(PublishError::NoSuchName { run: run.clone(), name, published }.into())
            }
        }
    }

    /// Reads the latest value of every name under which a run published one, by name.
    pub async fn published_all(&self, run: &RunId) -> Result<Vec<Published>, EngineError> {
        let mut all = Vec::new();
        for (name, at) in self.published_index(run, None).await? {
            all.push(self.published_at(run, &name, at.seq).await?);
        }
        Ok(all)
    }

    /// Where the values are: from the row, or from the log if the row lacks the name. An older release that wrote the
    /// row has dropped the names.
    async fn published_index(
        &self,
        run: &RunId,
        wanted: Option<&ValueName>,
    ) -> Result<BTreeMap<ValueName, PublishedAt>, EngineError> {
        let summary = self.get(run).await?;
        if let Some(pruned) = &summary.pruned {
            return Err(refused(run, Refusal::Archived { archive: pruned.archive.clone() }));
        }
        let is_known = match wanted {
            Some(name) => summary.published.contains_key(name),
            None => !summary.published.is_empty(),
        };
        match is_known {
            true => Ok(summary.published),
            false => Ok(self.ledger.load(run).await?.state.summary.published),
        }
    }

    async fn published_at(&self, run: &RunId, name: &ValueName, seq: Seq) -> Result<Published, EngineError> {
        let (events, _) = self.events_after(run, seq.before(), Most::events(1)).await?;
        match events.into_iter().next() {
            Some(Recorded { event: Event::ValuePublished(published), at, .. }) if published.name == *name => {
                Ok(Published { name: published.name, value: published.value, seq, at })
            }
            _ => {
                let what = format!("the value {name} should be here");
                Err(EngineError::Corrupt { run: run.clone(), corrupt: Corrupt::new(seq, what) })
            }
        }
    }
}

impl<O> RunHandle<O> {
    /// Reads the latest value that the run published under a name; see
    /// [`Context::publish`](crate::Context::publish). Works while the run executes, waits, and after its end.
    pub async fn published<T: DeserializeOwned>(&self, name: &str) -> Result<T, EngineError> {
        let published = self.client.published(&self.run, name).await?;
        published
            .value
            .read()
            .map_err(|source| EngineError::NotThatType { what: "the published value", source })
    }
}
