//! [`Inner`]: everything that the operations of a store share.

use std::sync::Arc;

use goldseam_core::lock::Lock;
use goldseam_core::task::Task;

use crate::beats::Beat;
use crate::bucket::Bucket;
use crate::clock::StoreClock;
use crate::full_scan::FullScans;
use crate::keys;
use crate::lane_table::UnclaimedLanes;
use crate::log::Logs;
use crate::ready_index::ReadyIndex;
use crate::records::Records;
use crate::row_cache::RowCache;
use crate::url::Requests;
use crate::watch::Watch;
use crate::write_ids::WriteIds;

/// A bucket with everything that this process remembers of it.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) bucket: Bucket,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) requests: Requests,
    pub(crate) write_ids: Arc<WriteIds>,
    pub(crate) watch: Watch,
    pub(crate) logs: Logs,
    pub(crate) rows: RowCache,
    pub(crate) tasks: Records<Task>,
    pub(crate) locks: Records<Lock>,
    pub(crate) unclaimed_lanes: UnclaimedLanes,
    pub(crate) nodes: Records<Beat>,
    pub(crate) ready_index: ReadyIndex,
    pub(crate) scans: FullScans,
}

impl Inner {
    pub(crate) fn new(bucket: Bucket, clock: Arc<StoreClock>, requests: Requests) -> Self {
        let write_ids = Arc::new(WriteIds::new());
        Self {
            tasks: Records::new(keys::TASKS, &bucket, &write_ids),
            locks: Records::new(keys::LOCKS, &bucket, &write_ids),
            nodes: Records::new(keys::NODES, &bucket, &write_ids),
            bucket,
            clock,
            requests,
            write_ids,
            watch: Watch::new(),
            logs: Logs::default(),
            rows: RowCache::default(),
            unclaimed_lanes: UnclaimedLanes::default(),
            ready_index: ReadyIndex::default(),
            scans: FullScans::default(),
        }
    }

    /// Forgets all cached objects, like a process that has just started.
    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.logs.forget_all();
        self.rows.forget_all();
        self.tasks.forget_all();
        self.locks.forget_all();
    }
}
