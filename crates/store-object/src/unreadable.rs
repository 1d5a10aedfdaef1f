//! Objects that cannot be read, by kind. One list of each folder, and one read of each object that this process does not
//! know yet.

use goldseam_core::RunId;
use goldseam_store::{Page, RecordKind, StoreError, Unreadable};

use crate::bucket::SIDE_BY_SIDE;
use crate::keys::{self, Part};
use crate::records::decode_any;
use crate::rows::Seen;
use crate::store::Inner;

/// Folders of objects that say which task has a key or a lane.
const INDEXES: [&str; 2] = ["key/", "lane/"];

impl Inner {
    pub(crate) async fn unreadable(&self, kind: RecordKind) -> Result<Page<Unreadable>, StoreError> {
        let named = |found: Vec<(String, String)>| {
            found.into_iter().map(|(name, reason)| Unreadable::new(kind, name, reason)).collect()
        };
        let items = match kind {
            RecordKind::Row => self.unreadable_rows().await?,
            RecordKind::Task => named(self.tasks.unreadable(&self.bucket).await?),
            RecordKind::Lock => named(self.locks.unreadable(&self.bucket).await?),
            RecordKind::Node => named(self.nodes.unreadable(&self.bucket).await?),
            RecordKind::Index => self.unreadable_indexes().await?,
        };
        Ok(Page { items, ..Page::default() })
    }

    /// States beside a log that cannot be read. Others are those of other systems.
    async fn unreadable_rows(&self) -> Result<Vec<Unreadable>, StoreError> {
        let listed = self.bucket.list(keys::WORKFLOWS, None, usize::MAX).await?;
        let (mut logs, mut states) = (std::collections::BTreeSet::new(), Vec::new());
        for (run, part) in listed.iter().filter_map(|entry| keys::part(&entry.key)) {
            match part {
                Part::Batch(_) => drop(logs.insert(run)),
                Part::State => states.push(run),
            }
        }
        states.retain(|run| logs.contains(run));
        let mut found = Vec::new();
        for runs in states.chunks(SIDE_BY_SIDE) {
            let seen =
                futures_util::future::try_join_all(runs.iter().map(|run| self.look_at_row(run))).await?;
            let bad = |(run, seen): (&RunId, Seen)| match seen {
                Seen::Unreadable(reason) => Some(Unreadable::new(RecordKind::Row, run.as_str(), reason)),
                Seen::None | Seen::Row(_) => None,
            };
            found.extend(runs.iter().zip(seen).filter_map(bad));
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
                    && let Err(error) = decode_any(folder, &key, &object.body)
                {
                    found.push(Unreadable::new(RecordKind::Index, key, error));
                }
            }
        }
        Ok(found)
    }
}
