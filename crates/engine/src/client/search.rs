//! Searching runs by a condition.

use std::sync::Arc;

use goldseam_core::Status;
use goldseam_core::operation::is_operation;
use goldseam_core::search::{Condition, Group, GroupBy};
use goldseam_store::{BoundList, GroupQuery, Groups, Page, Row, RunFilter, RunOrder};

use crate::client::Client;
use crate::ledger::error::EngineError;
use crate::operation;

/// Most groups that a search returns.
const GROUPS_MAX: u32 = 1_000;
/// Runs read at a time.
const PAGE: u32 = 500;

/// A search for runs. [`Client::search`] begins one.
#[derive(Debug, Clone)]
#[must_use = "a search does nothing until it is executed"]
pub struct Search {
    client: Client,
    filter: RunFilter,
    /// The condition as the caller wrote it.
    text: String,
    limit: usize,
}

impl Client {
    /// Begins a search for the runs that a condition selects. Relative times, as in `-2h`, are relative to the store's
    /// clock as this process knows it.
    ///
    /// ```
    /// use goldseam::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
    /// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
    /// let client = Client::new(goldseam::open_store(&url).await?);
    /// let options = StartOptions::default().attribute("amount", 120);
    /// client.start_with("order", "ord-1", &(), options).await?;
    ///
    /// let search = client.search("status = queued and amount > 100 and created > -2h")?;
    /// assert_eq!(search.clone().count().await?, 1);
    /// let runs = search.limit(10).list().await?;
    /// assert_eq!(runs[0].summary.run.as_str(), "ord-1");
    ///
    /// let error = client.search("amount >").unwrap_err();
    /// assert_eq!(error.code(), "GS0139");
    /// # Ok(()) }
    /// ```
    pub fn search(&self, condition: &str) -> Result<Search, EngineError> {
        let parsed = Condition::parse(condition, self.now())?;
        Ok(Search { text: condition.to_owned(), ..self.search_for(parsed) })
    }

    /// Begins a search for the runs that a parsed condition selects.
    pub fn search_for(&self, condition: Condition) -> Search {
        let text = format!("{condition:?}");
        let filter = RunFilter { condition: Some(Arc::new(condition)), ..RunFilter::default() };
        Search { client: self.clone(), filter, text, limit: 100 }
    }

    /// Counts and groups the runs of a query. Operations are not counted unless the filter names their workflow.
    pub async fn groups(&self, mut query: GroupQuery) -> Result<Groups, EngineError> {
        if query.filter.workflow.is_none() && self.has_operations().await? {
            let others = operation::no_operation();
            query.filter.condition = Some(Arc::new(match query.filter.condition {
                Some(condition) => (*condition).clone().and(others),
                None => others,
            }));
        }
        Ok(self.store().groups(query).await?)
    }

    /// Counts runs by status, without operations. SQLite and Postgres count by their indexes.
    pub async fn status_counts(&self) -> Result<Vec<(Status, u64)>, EngineError> {
        let store = self.store();
        let mut counts = store.status_counts(None).await?;
        if self.has_operations().await? {
            for (status, operations) in store.status_counts(Some(&operation::workflow())).await? {
                let of_status = counts.iter_mut().filter(|(found, _)| *found == status);
                of_status.for_each(|(_, count)| *count = count.saturating_sub(operations));
            }
            counts.retain(|(_, count)| *count > 0);
        }
        Ok(counts)
    }

    /// Lists runs. Operations have lists of their own, and are hidden unless the filter names their workflow.
    pub(super) async fn without_operations(&self, mut filter: RunFilter) -> Result<Page<Row>, EngineError> {
        let hides = filter.workflow.is_none();
        loop {
            let mut page = self.store().runs(filter.clone()).await?;
            page.items.retain(|row| !hides || !is_operation(&row.summary.workflow));
            if !page.items.is_empty() || page.next.is_none() || !page.unreadable.is_empty() {
                return Ok(page);
            }
            filter.after = page.next;
        }
    }

    /// Whether the store may have operations. A store that reads every row for an answer is not asked.
    async fn has_operations(&self) -> Result<bool, EngineError> {
        if !self.store().pace().sweep.is_zero() {
            return Ok(true);
        }
        let filter = RunFilter { workflow: Some(operation::workflow()), limit: 1, ..RunFilter::default() };
        let page = self.store().runs(filter).await?;
        Ok(!page.items.is_empty() || !page.unreadable.is_empty() || page.next.is_some())
    }
}

impl Search {
    /// Lists the earliest queued runs first. Default: the latest.
    pub fn oldest_first(mut self) -> Self {
        self.filter.order = RunOrder::Oldest;
        self
    }

    /// Sets the most runs that [`list`](Self::list) returns. Default: 100.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the runs, as their cached rows describe them. Unreadable rows are left out.
    pub async fn list(self) -> Result<Vec<Row>, EngineError> {
        let mut found: Vec<Row> = Vec::new();
        let mut filter = self.filter;
        while found.len() < self.limit {
            let left = u32::try_from(self.limit - found.len()).unwrap_or(u32::MAX);
            filter.limit = left.min(PAGE);
            let Page { items, next, .. } = self.client.list(filter.clone()).await?;
            found.extend(items);
            match next {
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
        Ok(found)
    }

    /// Returns one page, and the cursor of the next. A page may be short or empty and still have a next one. A cursor
    /// belongs to the condition and the order of its search; another search refuses it (GS0154).
    pub async fn page(&self, after: Option<String>, limit: u32) -> Result<Page<Row>, EngineError> {
        let list = BoundList::new(&[&self.text, &format!("{:?}", self.filter.order)]);
        let after = list.open(after)?;
        let mut page = self.client.list(RunFilter { after, limit, ..self.filter.clone() }).await?;
        page.next = list.bind(page.next);
        Ok(page)
    }

    /// Counts the runs.
    pub async fn count(self) -> Result<u64, EngineError> {
        Ok(self.client.groups(GroupQuery::count(self.filter)).await?.total)
    }

    /// Groups the runs, the largest group first.
    pub async fn group_by(self, by: GroupBy) -> Result<Vec<Group>, EngineError> {
        Ok(self.client.groups(GroupQuery::by(self.filter, by, GROUPS_MAX)).await?.groups)
    }
}
