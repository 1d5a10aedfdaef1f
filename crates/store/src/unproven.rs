//! What columns prove about a run, and unproven runs by listing, for stores without such columns.

use goldseam_core::task::Task;
use goldseam_core::{Millis, Status, Summary};

use crate::api::Store;
use crate::error::StoreError;
use crate::types::{RunFilter, RunOrder, Unproven, UnprovenFilter};

/// Statuses of runs that are expected to progress.
pub const ACTIVE: [Status; 5] =
    [Status::Queued, Status::Running, Status::Waiting, Status::Sleeping, Status::Compensating];

/// What the columns of a row repeat of an active run, so that a store can prove that it is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// The kind of advance task that the run needs.
    pub needs: String,
    /// Twice the number of remote tasks that it waits for, plus 1 if it waits for children.
    pub on: i64,
    /// When its rest ends if nothing else happens; none if it does not rest.
    pub until: Option<Millis>,
}

impl Rest {
    /// Returns the columns of a row; none if the run is not active or the row contradicts itself.
    pub fn of(summary: &Summary) -> Option<Self> {
        if !ACTIVE.contains(&summary.status) || !summary.is_coherent() {
            return None;
        }
        let tasks: usize = summary.waits.iter().map(|wait| wait.tasks.len()).sum();
        let children = summary.waits.iter().any(|wait| !wait.children.is_empty());
        let is_delayed = summary.status == Status::Queued && summary.begins_at().is_some();
        let rests = (matches!(summary.status, Status::Waiting | Status::Sleeping) || is_delayed)
            && summary.owner.is_none()
            && summary.mail_unread == 0
            && summary.cancel.is_none()
            && summary.jump.is_none();
        Some(Self {
            needs: Task::advance_kind(summary.workflow.as_str(), summary.version),
            on: i64::try_from(2 * tasks).unwrap_or(i64::MAX - 1) + i64::from(children),
            until: rests.then(|| summary.due().unwrap_or(Millis::NEVER)),
        })
    }
}

/// Returns the next active runs, all of them unproven.
pub(crate) async fn listed<S: Store + ?Sized>(
    store: &S,
    filter: UnprovenFilter,
) -> Result<Unproven, StoreError> {
    let UnprovenFilter { after, limit, .. } = filter;
    let list = RunFilter {
        statuses: ACTIVE.to_vec(),
        order: RunOrder::Oldest,
        after,
        limit,
        ..RunFilter::default()
    };
    let page = store.runs(list).await?;
    Ok(Unproven { rows: page.items, unreadable: page.unreadable, skipped: 0, next: page.next })
}
