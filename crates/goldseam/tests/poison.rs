//! One run that takes its process down, among a thousand that do not: real processes, real aborts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::store::RunFilter;
use goldseam::{Config, Limits, Payload, Recovery, RunId, Status};

const FOLDER: &str = "GOLDSEAM_POISON_FOLDER";
const LONG: usize = 1_000;

fn url(folder: &Path) -> String {
    format!("sqlite:{}?durability=process", folder.join("poison.db").display())
}

/// Works until `open` is there; takes the process down as soon as `strike` is.
async fn work(folder: PathBuf, poisonous: bool) -> Result<u32, Error> {
    while !folder.join("open").exists() || poisonous {
        if poisonous && folder.join("strike").exists() {
            std::process::abort();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(1)
}

/// Not a test: the process that the test starts, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test beside it"]
async fn worker() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let config = Config {
        slots: 2_000,
        beat: Duration::from_millis(50),
        recovery: Recovery { delay: Duration::from_millis(10), ..Recovery::default() },
        ..Config::default()
    };
    let inside = folder.clone();
    let flow = move |ctx: Context, poisonous: bool| {
        let folder = inside.clone();
        async move { ctx.step("work", || work(folder.clone(), poisonous)).await }
    };
    let engine = Engine::open(&url(&folder)).await.unwrap().config(config).workflow("flow", flow);
    let _engine = engine.start().await.unwrap();
    std::future::pending::<()>().await;
}

/// Ends with the test, whatever becomes of it.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path) -> Self {
        let exe = std::env::current_exe().unwrap();
        let mut command = Command::new(exe);
        command.args(["--exact", "worker", "--ignored", "--nocapture"]).env(FOLDER, folder);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn is_gone(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn statuses(client: &Client) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut after = None;
    loop {
        let page = client.list(RunFilter { after, limit: 500, ..RunFilter::default() }).await.unwrap();
        for row in &page.items {
            *counts.entry(row.summary.status.as_str()).or_default() += 1;
        }
        after = page.next;
        if after.is_none() {
            return counts;
        }
    }
}

fn count(counts: &BTreeMap<&'static str, usize>, status: Status) -> usize {
    counts.get(status.as_str()).copied().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_aborting_run_among_a_thousand_is_the_only_one_that_is_ended() {
    assert!(tokio::time::timeout(Duration::from_secs(300), story()).await.is_ok(), "it did not end in time");
}

async fn story() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    for number in 0..=LONG {
        let poisonous = number == LONG / 2;
        let input = Payload::parse(if poisonous { "true" } else { "false" }, &Limits::default()).unwrap();
        let run = RunId::new(format!("r{number}")).unwrap();
        client.start("flow", &run, input, StartOptions::default()).await.unwrap();
    }
    let poison = RunId::new(format!("r{}", LONG / 2)).unwrap();
    let mut worker = Worker::start(folder);
    let mut crashes = 0;
    while count(&statuses(&client).await, Status::Running) <= LONG {
        assert!(!worker.is_gone(), "nothing has struck yet");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::write(folder.join("strike"), "").unwrap();
    while client.get(&poison).await.unwrap().status != Status::Failed {
        if worker.is_gone() {
            crashes += 1;
            worker = Worker::start(folder);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let trouble = client.get(&poison).await.unwrap().trouble.unwrap();
    assert_eq!(
        (trouble.code.as_deref(), trouble.message.as_str()),
        (Some("P1"), "recovery failed after 3 attempts")
    );
    assert_eq!(crashes, 4, "the first, the crowd's, the cohort's, and the one alone");
    std::fs::write(folder.join("open"), "").unwrap();
    while count(&statuses(&client).await, Status::Completed) < LONG {
        assert!(!worker.is_gone(), "nobody else takes the process down");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(&statuses(&client).await, Status::Failed), 1);
}
