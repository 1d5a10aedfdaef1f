//! A scratch store, counters for side effects, and waiting for a condition.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use goldseam::{Client, Engine, RunId, Status};

pub(crate) struct Scratch {
    dir: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.dir.path()
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}?durability=process", self.dir.path().join("test.db").display())
    }

    pub(crate) async fn builder(&self) -> goldseam::Builder {
        Engine::open(&self.url()).await.unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        goldseam::connect(&self.url()).await.unwrap()
    }
}

/// Counts side effects by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<BTreeMap<String, u32>>>);

impl Witness {
    pub(crate) fn saw(&self, what: impl Into<String>) -> u32 {
        let mut all = self.0.lock().unwrap();
        let count = all.entry(what.into()).or_default();
        *count += 1;
        *count
    }

    pub(crate) fn count(&self, what: &str) -> u32 {
        self.0.lock().unwrap().get(what).copied().unwrap_or(0)
    }
}

/// Polls `probe` until it holds, for at most 20 seconds.
pub(crate) async fn eventually<F, Fut>(what: &str, mut probe: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = bool>,
{
    let deadline = std::time::Duration::from_secs(20);
    let wait = async {
        while !probe().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(deadline, wait).await.is_ok(), "never happened: {what}");
}

pub(crate) async fn reaches(client: &Client, run: &str, status: Status) {
    let run = RunId::new(run).unwrap();
    let what = format!("{run} is {status}");
    eventually(&what, || async { client.get(&run).await.is_ok_and(|summary| summary.status == status) })
        .await;
}
