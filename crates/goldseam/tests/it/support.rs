//! A scratch store, a counter of side effects, and short forms for workflows in tests.

use std::collections::BTreeMap;
use std::future::{Future, Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam::unstable::core::task::NewTask;
use goldseam::unstable::core::{QueueName, TaskId};
use goldseam::unstable::engine::queue::Want;
use goldseam::{Client, Context, Engine, Millis, OpenEngine as _, Payload, RunId, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A SQLite store in a temporary directory.
pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Returns the directory of the store's files.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}?durability=process", self.dir.path().join("test.db").display())
    }

    pub(crate) async fn builder(&self) -> goldseam::Builder {
        Engine::open(&self.url()).await.unwrap()
    }

    /// Starts an engine with one workflow.
    pub(crate) async fn engine<F, Fut, I, O>(&self, name: &str, workflow: F) -> Engine
    where
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = goldseam::Result<O>> + Send + 'static,
        I: DeserializeOwned + Send + 'static,
        O: Serialize + 'static,
    {
        self.builder().await.workflow(name, workflow).start().await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        goldseam::connect(&self.url()).await.unwrap()
    }
}

pub(crate) fn run_id(id: &str) -> RunId {
    RunId::new(id).unwrap()
}

/// A task that is ready, with one attempt.
pub(crate) fn new_task(id: &str, queue: &str) -> NewTask {
    NewTask {
        id: TaskId::new(id).unwrap(),
        kind: "test".to_owned(),
        queue: QueueName::new(queue).unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: None,
    }
}

/// A claim of up to `limit` tasks of any kind.
pub(crate) fn want(owner: &str, queue: &str, limit: u32) -> Want {
    Want { owner: owner.to_owned(), queue: QueueName::new(queue).unwrap(), kind: None, limit }
}

/// A step body that returns `value`.
pub(crate) async fn ok<T>(value: T) -> goldseam::Result<T> {
    Ok(value)
}

/// Gives a workflow shared state: each call receives a clone of it.
pub(crate) fn with_state<S, I, O, Fut, F>(
    state: &S,
    workflow: F,
) -> impl Fn(Context, I) -> Fut + Send + Sync + use<S, I, O, Fut, F>
where
    S: Clone + Send + Sync + 'static,
    F: Fn(Context, I, S) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = goldseam::Result<O>> + Send + 'static,
{
    let state = state.clone();
    move |ctx, input| workflow(ctx, input, state.clone())
}

/// Counts side effects by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter(Arc<Mutex<BTreeMap<String, u32>>>);

impl Counter {
    /// Counts an effect and returns its new count.
    pub(crate) fn add(&self, effect: impl Into<String>) -> u32 {
        let mut all = self.0.lock().unwrap();
        let count = all.entry(effect.into()).or_default();
        *count += 1;
        *count
    }

    /// A step body that counts an effect.
    pub(crate) fn step(&self, effect: impl Into<String>) -> Ready<goldseam::Result<()>> {
        self.add(effect);
        ready(Ok(()))
    }

    /// A step body that counts an effect, and never ends if `hangs`.
    pub(crate) async fn step_or_hang(&self, effect: &str, hangs: bool) -> goldseam::Result<()> {
        self.add(effect);
        if hangs {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    pub(crate) fn count(&self, effect: &str) -> u32 {
        self.0.lock().unwrap().get(effect).copied().unwrap_or(0)
    }
}

/// Polls `probe` until it returns true, for at most 20 seconds.
pub(crate) async fn eventually<F, Fut>(what: &str, mut probe: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let deadline = Duration::from_secs(20);
    let wait = async {
        while !probe().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(deadline, wait).await.is_ok(), "timed out: {what}");
}

/// Waits until the run has this status.
pub(crate) async fn reaches(client: &Client, run: &str, status: Status) {
    let run = run_id(run);
    let what = format!("{run} is {status}");
    eventually(&what, || async { client.get(&run).await.is_ok_and(|summary| summary.status == status) })
        .await;
}
