//! Unreadable objects, by kind: one list of each folder, and one read of each object that this process does not
//! remember.

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use goldseam_core::RunId;
use goldseam_core::task::Task;
use goldseam_store::{Page, RecordKind, StoreError, Unreadable};

use crate::bucket::CONCURRENT_GETS;
use crate::inner::BucketState;
use crate::keys::{self, Part};
use crate::lane_table::LaneRecord;
use crate::records::decode;
use crate::row_cache::RowState;

/// Folders of objects that name the task that has a key or holds a lane.
const INDEXES: [&str; 2] = ["key/", "lane/"];

impl BucketState {
    pub(crate) async fn unreadable(&self, kind: RecordKind) -> Result<Page<Unreadable>, StoreError> {
        let named = |found: Vec<(String, String)>| {
            found.into_iter().map(|(name, reason)| Unreadable::new(kind, name, reason)).collect()
        };
        let items = match kind {
            RecordKind::Row => self.unreadable_rows().await?,
            RecordKind::Task => named(self.tasks.unreadable().await?),
            RecordKind::Lock => named(self.locks.unreadable().await?),
            RecordKind::Node => named(self.nodes.unreadable().await?),
            RecordKind::Index => self.unreadable_indexes().await?,
        };
        Ok(Page { items, ..Page::default() })
    }

    /// Unreadable states beside a log. States without a log belong to other systems.
    async fn unreadable_rows(&self) -> Result<Vec<Unreadable>, StoreError> {
        let listed = self.bucket.list(keys::WORKFLOWS, None, usize::MAX).await?;
        let mut logs = BTreeSet::new();
        let mut states = Vec::new();
        for (run, part) in listed.iter().filter_map(|entry| keys::run_part(&entry.key)) {
            match part {
                Part::Batch(_) => drop(logs.insert(run)),
                Part::State => states.push(run),
            }
        }
        states.retain(|run| logs.contains(run));
        let mut found = Vec::new();
        for runs in states.chunks(CONCURRENT_GETS) {
            let rows = try_join_all(runs.iter().map(|run| self.read_row(run))).await?;
            let unreadable = |(run, state): (&RunId, RowState)| match state {
                RowState::Unreadable(reason) => Some(Unreadable::new(RecordKind::Row, run.as_str(), reason)),
                RowState::None | RowState::Row(_) => None,
            };
            found.extend(runs.iter().zip(rows).filter_map(unreadable));
        }
        Ok(found)
    }

    async fn unreadable_indexes(&self) -> Result<Vec<Unreadable>, StoreError> {
        let mut found = Vec::new();
        for folder in INDEXES {
            let listed = self.bucket.list(folder, None, usize::MAX).await?;
            let names: Vec<String> = listed.into_iter().map(|entry| entry.key).collect();
            let objects = self.bucket.get_all(names.clone()).await?;
            for (key, object) in names.into_iter().zip(objects) {
                if let Some(object) = object
                    && let Err(error) = decode_index(folder, &key, &object.body)
                {
                    found.push(Unreadable::new(RecordKind::Index, key, error));
                }
            }
        }
        Ok(found)
    }
}

fn decode_index(folder: &str, key: &str, object: &[u8]) -> Result<(), StoreError> {
    match folder {
        "lane/" => decode::<LaneRecord>(key, object).map(drop),
        _ => decode::<Task>(key, object).map(drop),
    }
}
