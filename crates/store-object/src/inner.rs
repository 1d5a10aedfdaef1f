//! [`BucketState`]: everything that the operations of a store share.

use std::sync::Arc;

use goldseam_core::lock::Lock;
use goldseam_core::task::Task;

use crate::audited_entries::AuditedEntries;
use crate::beats::NodeBeat;
use crate::bucket::BucketPrefix;
use crate::clock::BucketClock;
use crate::feed_state::FeedState;
use crate::full_scan::FullScans;
use crate::keys;
use crate::lane_table::UnclaimedLanes;
use crate::log::LogTable;
use crate::ready_index::ReadyIndex;
use crate::records::Records;
use crate::row_cache::RowCache;
use crate::url::RequestCost;
use crate::watch::BucketWatch;
use crate::write_ids::WriteIds;

/// A bucket with everything that this process remembers of it.
#[derive(Debug)]
pub(crate) struct BucketState {
    pub(crate) bucket: BucketPrefix,
    pub(crate) clock: Arc<BucketClock>,
    pub(crate) requests: RequestCost,
    pub(crate) write_ids: Arc<WriteIds>,
    pub(crate) watch: BucketWatch,
    pub(crate) logs: LogTable,
    pub(crate) rows: RowCache,
    pub(crate) tasks: Records<Task>,
    pub(crate) locks: Records<Lock>,
    pub(crate) unclaimed_lanes: UnclaimedLanes,
    pub(crate) nodes: Records<NodeBeat>,
    pub(crate) ready_index: ReadyIndex,
    pub(crate) scans: FullScans,
    pub(crate) audited: AuditedEntries,
    pub(crate) feed: FeedState,
}

impl BucketState {
    pub(crate) fn new(bucket: BucketPrefix, clock: Arc<BucketClock>, requests: RequestCost) -> Self {
        let write_ids = Arc::new(WriteIds::new());
        Self {
            tasks: Records::new(keys::TASKS, &bucket, &write_ids),
            locks: Records::new(keys::LOCKS, &bucket, &write_ids),
            nodes: Records::new(keys::NODES, &bucket, &write_ids),
            bucket,
            clock,
            requests,
            write_ids,
            watch: BucketWatch::new(),
            logs: LogTable::default(),
            rows: RowCache::default(),
            unclaimed_lanes: UnclaimedLanes::default(),
            ready_index: ReadyIndex::default(),
            scans: FullScans::default(),
            audited: AuditedEntries::default(),
            feed: FeedState::default(),
        }
    }

    /// Forgets all cached objects, like a process that has just started.
    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.logs.forget_all();
        self.rows.forget_all();
        self.tasks.forget_all();
        self.locks.forget_all();
        self.feed.forget_all();
    }
}
