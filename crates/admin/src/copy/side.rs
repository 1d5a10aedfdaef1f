//! One of the two stores of a copy: requests with retries, and paged lists.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{LockName, RunId, Seq, TaskId};
use goldseam_store::{
    Head, LockFilter, Record, Row, RunFilter, RunOrder, Store, StoreError, TaskFilter, Unreadable,
};

use goldseam_engine::ledger::commit::Ledger;
use goldseam_engine::ledger::copy_mark as mark;
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::retry::RetryWindow;

/// Records per read of the store.
const PAGE: u32 = 200;

/// A store and its display name.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub(super) ledger: Ledger,
    pub(super) name: Arc<str>,
}

/// A listed run.
#[derive(Debug, Clone)]
pub(super) struct ListedRun {
    pub(super) run: RunId,
    /// Its cached row; none if it is lost.
    pub(super) row: Option<Box<Row>>,
}

impl Side {
    pub(super) fn new(ledger: Ledger, name: &str) -> Self {
        Self { ledger, name: Arc::from(name) }
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        &self.ledger.store
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.ledger.clock.elapsed()
    }

    /// Repeats a request until the store answers or the retries end. Only for idempotent requests.
    pub(super) async fn ask<T, F, Fut>(&self, doing: &'static str, mut ask: F) -> Result<T, EngineError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let asked = || {
            let asked = ask();
            async { Ok(asked.await?) }
        };
        self.insist(doing, asked).await
    }

    /// Like `ask`, for several requests.
    pub(super) async fn insist<T, F, Fut>(&self, doing: &'static str, ask: F) -> Result<T, EngineError>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<T, EngineError>>,
    {
        RetryWindow::new(&self.ledger, doing).retry(&self.ledger, ask).await
    }

    pub(super) async fn head(&self, run: &RunId) -> Result<Option<Head>, EngineError> {
        self.ask("reading a run", || self.store().head(run)).await
    }

    pub(super) async fn read(&self, run: &RunId, after: Seq, limit: u32) -> Result<Vec<Record>, EngineError> {
        self.ask("reading a log", || self.store().read(run, after, limit)).await
    }

    pub(super) async fn tasks(&self, filter: TaskFilter) -> Result<Vec<Task>, EngineError> {
        self.ask("listing tasks", || self.store().tasks(filter.clone())).await
    }

    pub(super) async fn task(&self, id: &TaskId) -> Result<Option<Task>, EngineError> {
        let filter = TaskFilter { id: Some(id.clone()), limit: 1, ..TaskFilter::default() };
        Ok(self.tasks(filter).await?.into_iter().next())
    }

    async fn locks(&self, filter: LockFilter) -> Result<Vec<Lock>, EngineError> {
        self.ask("listing locks", || self.store().locks(filter.clone())).await
    }

    pub(super) async fn lock(&self, name: &LockName) -> Result<Option<Lock>, EngineError> {
        let filter = LockFilter { name: Some(name.clone()), limit: 1, ..LockFilter::default() };
        Ok(self.locks(filter).await?.into_iter().next())
    }
}

/// A list in pages, none of which is empty.
pub(super) trait Pages: Send {
    /// The listed records.
    type Item: Send;

    /// Returns the next page; none after the last one.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Self::Item>>, EngineError>> + Send;
}

/// All runs: first those without a row, so that a run whose row is rewritten meanwhile is not missed.
#[derive(Debug)]
pub(super) struct Runs<'a> {
    side: &'a Side,
    at: At,
}

#[derive(Debug)]
enum At {
    Rowless(Option<RunId>),
    Rows(Option<String>),
    End,
}

impl<'a> Runs<'a> {
    pub(super) fn of(side: &'a Side) -> Self {
        Self { side, at: At::Rowless(None) }
    }
}

impl Pages for Runs<'_> {
    type Item = ListedRun;

    async fn next(&mut self) -> Result<Option<Vec<ListedRun>>, EngineError> {
        let store = self.side.store();
        loop {
            let page: Vec<ListedRun> = match &self.at {
                At::Rowless(after) => {
                    let ask = || store.rowless(after.as_ref(), PAGE);
                    let lost = self.side.ask("listing runs without a row", ask).await?;
                    self.at = lost.last().map_or(At::Rows(None), |last| At::Rowless(Some(last.clone())));
                    lost.into_iter().map(|run| ListedRun { run, row: None }).collect()
                }
                At::Rows(after) => {
                    let order = RunOrder::Oldest;
                    let after = after.clone();
                    let limit = PAGE;
                    let filter = RunFilter { order, after, limit, ..RunFilter::default() };
                    let page = self.side.ask("listing runs", || store.runs(filter.clone())).await?;
                    self.at = page.next.map_or(At::End, |next| At::Rows(Some(next)));
                    let listed =
                        |row: Row| ListedRun { run: row.summary.run.clone(), row: Some(Box::new(row)) };
                    let unreadable = page.unreadable.iter().filter_map(Unreadable::run);
                    let unreadable: Vec<RunId> = unreadable.collect();
                    let lost = unreadable.into_iter().map(|run| ListedRun { run, row: None });
                    page.items.into_iter().map(listed).chain(lost).collect()
                }
                At::End => return Ok(None),
            };
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
    }
}

/// All tasks, ordered by id.
#[derive(Debug)]
pub(super) struct TaskPages<'a> {
    side: &'a Side,
    after: Option<TaskId>,
}

impl<'a> TaskPages<'a> {
    pub(super) fn of(side: &'a Side) -> Self {
        Self { side, after: None }
    }
}

impl Pages for TaskPages<'_> {
    type Item = Task;

    async fn next(&mut self) -> Result<Option<Vec<Task>>, EngineError> {
        let filter = TaskFilter { after: self.after.clone(), limit: PAGE, ..TaskFilter::default() };
        let page = self.side.tasks(filter).await?;
        self.after = page.last().map(|task| task.id.clone());
        Ok(Some(page).filter(|page| !page.is_empty()))
    }
}

/// All locks except the copy mark, ordered by name.
#[derive(Debug)]
pub(super) struct LockPages<'a> {
    side: &'a Side,
    after: Option<LockName>,
}

impl<'a> LockPages<'a> {
    pub(super) fn of(side: &'a Side) -> Self {
        Self { side, after: None }
    }
}

impl Pages for LockPages<'_> {
    type Item = Lock;

    async fn next(&mut self) -> Result<Option<Vec<Lock>>, EngineError> {
        loop {
            let filter = LockFilter { after: self.after.clone(), limit: PAGE, ..LockFilter::default() };
            let mut page = self.side.locks(filter).await?;
            let Some(last) = page.last() else { return Ok(None) };
            self.after = Some(last.name.clone());
            page.retain(|lock| lock.name != mark::name());
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
    }
}

/// Counts the listed records.
pub(super) async fn count(mut pages: impl Pages) -> Result<u64, EngineError> {
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        count += page.len() as u64;
    }
    Ok(count)
}
