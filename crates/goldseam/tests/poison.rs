//! One run that aborts its process, among a thousand that do not: real processes, real aborts.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::unstable::store::RunFilter;
use goldseam::{Config, Limits, Payload, Recovery, RunId, Status};

const FOLDER: &str = "GOLDSEAM_POISON_FOLDER";
const LONG: usize = 1_000;
/// The first crash, one with all runs, one of the search, one more for each halving of the 1,001 suspects, and three
/// that a busy machine may add: a run that takes longer to abort than ever before looks innocent once.
const CRASHES_MAX: u32 = 3 + 10 + 3;
/// Number of processes that are killed from outside.
const KILLS: u64 = 15;

fn url(folder: &Path) -> String {
    format!("sqlite:{}?durability=process", folder.join("poison.db").display())
}

/// Works until the file `open` exists. A poisonous run aborts the process once the file `strike` exists.
async fn work(folder: PathBuf, poisonous: bool) -> Result<u32, Error> {
    while !folder.join("open").exists() || poisonous {
        if poisonous && folder.join("strike").exists() {
            std::process::abort();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(1)
}

/// Allocates memory without end while the file `hungry` exists.
async fn eat(folder: PathBuf) -> Result<u32, Error> {
    let mut eaten = Vec::new();
    while folder.join("hungry").exists() {
        // Untouched pages count against the limit of the process, but use no memory of the machine.
        eaten.push(vec![0u8; 256 << 20]);
    }
    Ok(1)
}

/// Not a test: the process that the tests start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the other tests in this file"]
async fn worker() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let config = Config {
        slots: 2_000,
        beat: Duration::from_millis(50),
        // The last attempt waits for 600 delays.
        recovery: Recovery { delay: Duration::from_millis(5), ..Recovery::default() },
        ..Config::default()
    };
    let inside = folder.clone();
    let flow = move |ctx: Context, poisonous: bool| {
        let folder = inside.clone();
        async move { ctx.step("work", || work(folder.clone(), poisonous)).await }
    };
    let inside = folder.clone();
    let hungry = move |ctx: Context, (): ()| {
        let folder = inside.clone();
        async move { ctx.step("eat", || eat(folder.clone())).await }
    };
    let engine = Engine::open(&url(&folder)).await.unwrap().config(config).workflow("flow", flow);
    let waits = |ctx: Context, (): ()| async move { ctx.signal::<u32>("go").await };
    let inside = folder.clone();
    let saga = move |ctx: Context, (): ()| saga(ctx, inside.clone());
    let failing = Recovery { park: false, delay: Duration::from_millis(10), ..Recovery::default() };
    let engine = engine.workflow("hungry", hungry).workflow("waits", waits);
    let engine = engine.workflow("saga", saga).recovery("saga", failing);
    let _engine = engine.start().await.unwrap();
    std::fs::write(folder.join(format!("up-{}", std::process::id())), "").unwrap();
    std::future::pending::<()>().await;
}

async fn one() -> Result<u32, Error> {
    Ok(1)
}

/// Reserves with a compensation, then aborts the process.
async fn saga(ctx: Context, folder: PathBuf) -> Result<u32, Error> {
    let undo = folder.clone();
    let reserve = ctx.step("reserve", one);
    let reserved =
        reserve.compensate(move |_: u32| {
            let undo = undo.clone();
            async move {
                std::fs::write(undo.join("undone"), "").map_err(|error| Error::terminal(error.to_string()))
            }
        });
    Ok(reserved.await? + ctx.step("charge", || work(folder.clone(), true)).await?)
}

/// A worker process, killed on drop.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), folder)
    }

    /// Starts a worker whose address space is limited.
    fn start_with_memory(kilobytes: u32, folder: &Path) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {kilobytes} && exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        Self::spawn(command, folder)
    }

    fn spawn(mut command: Command, folder: &Path) -> Self {
        command.args(["--exact", "worker", "--ignored", "--nocapture"]).env(FOLDER, folder);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until its engine has started.
    async fn wait_until_up(&mut self, folder: &Path) {
        let up = folder.join(format!("up-{}", self.0.id()));
        while !up.exists() {
            assert!(!self.is_gone(), "the worker died before its engine started");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
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
async fn parks_only_the_aborting_run_among_a_thousand() {
    assert!(tokio::time::timeout(Duration::from_secs(300), one_poisonous_run()).await.is_ok(), "timed out");
}

async fn one_poisonous_run() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    for number in 0..=LONG {
        let poisonous = number == LONG / 2;
        let input = Payload::parse(if poisonous { "true" } else { "false" }, &Limits::default()).unwrap();
        let run = RunId::new(format!("r{number}")).unwrap();
        client.start("flow", &run, &input).await.unwrap();
    }
    let poison = RunId::new(format!("r{}", LONG / 2)).unwrap();
    let mut worker = Worker::start(folder);
    let mut crashes = 0;
    while count(&statuses(&client).await, Status::Running) <= LONG {
        assert!(!worker.is_gone(), "the worker died before the abort");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::write(folder.join("strike"), "").unwrap();
    while client.get(&poison).await.unwrap().status != Status::Parked {
        if worker.is_gone() {
            crashes += 1;
            worker = Worker::start(folder);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let trouble = client.get(&poison).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.code.as_deref(), Some("P1"));
    assert!(trouble.message.starts_with("recovery failed after 3 attempts"), "{}", trouble.message);
    assert!(trouble.message.ends_with("executing only this run, in step work"), "{}", trouble.message);
    assert!((4..=CRASHES_MAX).contains(&crashes), "{crashes}");
    std::fs::write(folder.join("open"), "").unwrap();
    while count(&statuses(&client).await, Status::Completed) < LONG {
        assert!(!worker.is_gone(), "another run aborted the process");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(&statuses(&client).await, Status::Parked), 1);
}

/// No run is to blame for a crash-looping deploy, the OOM killer, or a machine that is switched off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_from_outside_blame_no_run() {
    assert!(tokio::time::timeout(Duration::from_secs(300), repeated_kills()).await.is_ok(), "timed out");
}

async fn repeated_kills() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    for number in 0..30 {
        let input = Payload::parse("false", &Limits::default()).unwrap();
        let run = RunId::new(format!("r{number}")).unwrap();
        client.start("flow", &run, &input).await.unwrap();
    }
    let waiting = RunId::new("waits").unwrap();
    client.start("waits", &waiting, &Payload::null()).await.unwrap();
    for kill in 0..KILLS {
        let mut worker = Worker::start(folder);
        worker.wait_until_up(folder).await;
        tokio::time::sleep(Duration::from_millis(100 + kill * 97 % 500)).await;
        assert!(!worker.is_gone(), "the worker died before it was killed");
        drop(worker);
        let counts = statuses(&client).await;
        assert_eq!((count(&counts, Status::Failed), count(&counts, Status::Parked)), (0, 0), "{counts:?}");
        assert_eq!(client.get(&waiting).await.unwrap().attempt, 0, "a waiting run counts no attempt");
    }
    std::fs::write(folder.join("open"), "").unwrap();
    client.handle(waiting).signal("go", &1).await.unwrap();
    let mut worker = Worker::start(folder);
    while count(&statuses(&client).await, Status::Completed) < 31 {
        assert!(!worker.is_gone(), "the worker died after the kills");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// With `park: false` a poisonous run fails, but only after its compensations.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compensates_a_poisonous_run_before_it_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("strike"), "").unwrap();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    let run = RunId::new("order").unwrap();
    client.start("saga", &run, &Payload::null()).await.unwrap();
    let mut worker = Worker::start(folder);
    let fails = async {
        while client.get(&run).await.unwrap().status != Status::Failed {
            if worker.is_gone() {
                worker = Worker::start(folder);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(120), fails).await.is_ok();
    let summary = client.get(&run).await.unwrap();
    assert!(ended, "{summary:?}");
    assert_eq!(summary.trouble.unwrap().message, "recovery failed after 3 attempts");
    assert!(folder.join("undone").exists(), "the compensation ran");
    let names: Vec<&str> = client.history(&run).await.unwrap().iter().map(|one| one.event.name()).collect();
    assert!(names.ends_with(&["compensation.completed", "run.failed"]), "{names:?}");
}

/// argoproj/argo-workflows#8456: after a step was OOM-killed, its workflow stayed running.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oom_step_detected() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("hungry"), "").unwrap();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    let run = RunId::new("r").unwrap();
    client.start("hungry", &run, &Payload::null()).await.unwrap();
    let mut worker = Worker::start_with_memory(8 << 20, folder);
    let recovers = async {
        while !worker.is_gone() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.get(&run).await.unwrap().status, Status::Running, "the crash is not yet known");
        std::fs::remove_file(folder.join("hungry")).unwrap();
        let _worker = Worker::start(folder);
        client.handle(run.clone()).result::<u32>().await.unwrap();
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), recovers).await.is_ok(), "not recovered in time");
    let summary = client.get(&run).await.unwrap();
    assert_eq!((summary.status, summary.recoveries), (Status::Completed, 1));
}
