//! Counting and grouping runs by reading all that match.

use goldseam_core::search::{GroupBy, Grouping};

use crate::api::{GroupQuery, Groups, RunFilter, RunOrder, Store};
use crate::error::StoreError;

/// Rows read at a time.
const PAGE: u32 = 1_000;

/// Reads all runs that match, page by page, the latest first.
pub(crate) async fn by_pages<S: Store + ?Sized>(store: &S, query: GroupQuery) -> Result<Groups, StoreError> {
    let GroupQuery { filter, by, limit } = query;
    let order = match filter.order {
        RunOrder::Recovered => RunOrder::Recovered,
        RunOrder::Newest | RunOrder::Oldest => RunOrder::Newest,
    };
    let mut filter = RunFilter { order, limit: PAGE, after: None, ..filter };
    let mut grouping = by.map(|by| Grouping::new(by, limit as usize));
    let mut found = Groups::default();
    loop {
        let page = store.runs(filter.clone()).await?;
        found.total += page.items.len() as u64;
        if let Some(grouping) = &mut grouping {
            page.items.iter().for_each(|row| grouping.add(&row.summary));
        }
        found.unreadable.extend(page.unreadable);
        match page.next {
            Some(next) => filter.after = Some(next),
            None => break,
        }
    }
    if let Some(grouping) = grouping {
        (found.groups, found.left_out) = grouping.finish();
    }
    Ok(found)
}

impl GroupQuery {
    /// Counts the runs of a filter.
    pub fn count(filter: RunFilter) -> Self {
        Self { filter, by: None, limit: 0 }
    }

    /// Groups the runs of a filter.
    pub fn by(filter: RunFilter, by: GroupBy, limit: u32) -> Self {
        Self { filter, by: Some(by), limit }
    }
}
