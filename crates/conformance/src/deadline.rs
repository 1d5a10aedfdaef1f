//! Every call ends in bounded time, whatever the server does.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::lock::{Ask, Lock};
use goldseam_core::{LockName, NodeId, Seq};
use goldseam_store::AuditFilter;
use goldseam_store::api::{Expect, LockFilter, Row, RunFilter, Store};
use goldseam_store::feed::Feed;
use goldseam_store::foreign::ForeignStates;
use tokio::task::JoinSet;

use super::make::{ALL, any_task, append_with_row, at, claim_at, run, summary, task};
use super::nodes::node;

/// Makes every call at once to a server that does not answer, and returns the names of those that have neither
/// returned nor failed within `limit`, including those of its feed and its foreign states. Omits `changed`, which is
/// meant to wait.
pub async fn calls_that_hang(store: Arc<dyn Store>, limit: Duration) -> Vec<&'static str> {
    let mut calls = Calls { store, limit, all: JoinSet::new() };
    let name = LockName::new("l").unwrap();
    let ask = Ask { name: &name, holder: "ana", node: None, ttl: limit };
    let lock = Lock::acquired(None, ask, at(0)).unwrap();
    let row = Row { summary: summary("r", 1), task: None, updated_at: at(0) };
    calls.make("append", |store| async move { store.append(append_with_row("new", 0)).await.is_ok() });
    calls.make("read", |store| async move { store.read(&run("r"), Seq::ZERO, ALL).await.is_ok() });
    calls.make("head", |store| async move { store.head(&run("r")).await.is_ok() });
    calls.make("trim", |store| async move { store.trim(&run("r"), Seq(1)).await.is_ok() });
    calls.make("put_task", |store| async move { store.put_task(task("t"), Expect::Absent).await.is_ok() });
    calls.make("claim", |store| async move { store.claim(claim_at(at(0))).await.is_ok() });
    calls.make("tasks", |store| async move { store.tasks(any_task()).await.is_ok() });
    calls.make("put_lock", |store| async move { store.put_lock(lock, Expect::Absent).await.is_ok() });
    calls.make("locks", |store| async move { store.locks(LockFilter::default()).await.is_ok() });
    calls.make("put_row", |store| async move { store.put_row(row, Expect::Absent).await.is_ok() });
    calls.make("runs", |store| async move { store.runs(RunFilter::default()).await.is_ok() });
    calls.make("rowless", |store| async move { store.rowless(None, 1).await.is_ok() });
    calls.make("beat", |store| async move { store.beat(&node("n")).await.is_ok() });
    calls.make("nodes", |store| async move { store.nodes().await.is_ok() });
    calls.make("forget", |store| async move { store.forget(&NodeId::new("gone").unwrap()).await.is_ok() });
    calls.make("now", |store| async move { store.now().await.is_ok() });
    calls.make_beside();
    calls.all.join_all().await.into_iter().flatten().collect()
}

fn feed(store: &dyn Store) -> &dyn Feed {
    store.feed().unwrap()
}

fn foreign(store: &dyn Store) -> &dyn ForeignStates {
    store.foreign().unwrap()
}

/// Calls in flight.
struct Calls {
    store: Arc<dyn Store>,
    limit: Duration,
    all: JoinSet<Option<&'static str>>,
}

impl Calls {
    /// Makes the calls that not every store has.
    fn make_beside(&mut self) {
        if self.store.feed().is_some() {
            self.make(
                "events_after",
                |store| async move { feed(&*store).events_after(None, ALL).await.is_ok() },
            );
            self.make("latest", |store| async move { feed(&*store).latest().await.is_ok() });
            self.make("changed_runs", |store| async move { feed(&*store).changed_runs(None).await.is_ok() });
        }
        if self.store.audit().is_some() {
            self.make("audit_entries", |store| async move {
                store.audit().unwrap().audit_entries(AuditFilter::default()).await.is_ok()
            });
            self.make("trim_audit", |store| async move {
                store.audit().unwrap().trim_audit(at(0), 1).await.is_ok()
            });
        }
        if self.store.foreign().is_some() {
            self.make(
                "foreign_states",
                |store| async move { foreign(&*store).states(None, 1).await.is_ok() },
            );
            self.make("swap_foreign", |store| async move {
                foreign(&*store).swap(&run("theirs"), "1", "{}").await.is_ok()
            });
        }
    }

    fn make<F>(&mut self, name: &'static str, call: impl FnOnce(Arc<dyn Store>) -> F)
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let call = call(Arc::clone(&self.store));
        let limit = self.limit;
        self.all.spawn(async move { tokio::time::timeout(limit, call).await.is_err().then_some(name) });
    }
}
