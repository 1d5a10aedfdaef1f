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
/// Processes that are killed from outside in a storm.
const KILLS: u64 = 15;

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

/// Takes all the memory that the process may have, for as long as `hungry` is there.
async fn eat(folder: PathBuf) -> Result<u32, Error> {
    let mut eaten = Vec::new();
    while folder.join("hungry").exists() {
        // Asked for and not touched: it counts against the process, and costs the machine nothing.
        eaten.push(vec![0u8; 256 << 20]);
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

/// Reserves, then takes the process down; what was reserved can be undone.
async fn saga(ctx: Context, folder: PathBuf) -> Result<u32, Error> {
    let undo = folder.clone();
    let reserve = ctx.step("reserve", || async { Ok::<u32, Error>(1) });
    let reserved =
        reserve.compensate(move |_: u32| {
            let undo = undo.clone();
            async move {
                std::fs::write(undo.join("undone"), "").map_err(|error| Error::terminal(error.to_string()))
            }
        });
    Ok(reserved.await? + ctx.step("charge", || work(folder.clone(), true)).await?)
}

/// Ends with the test, whatever becomes of it.
struct Worker(Child);

impl Worker {
    fn start(folder: &Path) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), folder)
    }

    /// The same with so many kilobytes of memory.
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
    async fn is_up(&mut self, folder: &Path) {
        let up = folder.join(format!("up-{}", self.0.id()));
        while !up.exists() {
            assert!(!self.is_gone(), "it died before it began");
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
    // The first, the crowd's, and a search among those that were let in together, which halves them each time.
    assert!((4..=16).contains(&crashes), "{crashes}");
    std::fs::write(folder.join("open"), "").unwrap();
    while count(&statuses(&client).await, Status::Completed) < LONG {
        assert!(!worker.is_gone(), "no other run takes the process down");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(&statuses(&client).await, Status::Parked), 1);
}

/// A crash-looping deploy, a killer of large processes, a machine that is taken away: no run is to blame for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_from_outside_blame_no_run() {
    assert!(tokio::time::timeout(Duration::from_secs(300), storm()).await.is_ok(), "it did not end in time");
}

async fn storm() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    for number in 0..30 {
        let input = Payload::parse("false", &Limits::default()).unwrap();
        let run = RunId::new(format!("r{number}")).unwrap();
        client.start("flow", &run, input, StartOptions::default()).await.unwrap();
    }
    let patient = RunId::new("waits").unwrap();
    client.start("waits", &patient, Payload::null(), StartOptions::default()).await.unwrap();
    for kill in 0..KILLS {
        let mut worker = Worker::start(folder);
        worker.is_up(folder).await;
        tokio::time::sleep(Duration::from_millis(100 + kill * 97 % 500)).await;
        assert!(!worker.is_gone(), "nothing but the storm ends it");
        drop(worker);
        let counts = statuses(&client).await;
        assert_eq!((count(&counts, Status::Failed), count(&counts, Status::Parked)), (0, 0), "{counts:?}");
        assert_eq!(client.get(&patient).await.unwrap().attempt, 0, "it only waits");
    }
    std::fs::write(folder.join("open"), "").unwrap();
    client.handle(patient).signal("go", &1).await.unwrap();
    let mut worker = Worker::start(folder);
    while count(&statuses(&client).await, Status::Completed) < 31 {
        assert!(!worker.is_gone(), "the storm is over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A policy of failing keeps the promise of `failed`: what had to be undone is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poisonous_run_is_undone_before_it_fails() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("strike"), "").unwrap();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    let run = RunId::new("order").unwrap();
    client.start("saga", &run, Payload::null(), StartOptions::default()).await.unwrap();
    let mut worker = Worker::start(folder);
    let story = async {
        while client.get(&run).await.unwrap().status != Status::Failed {
            if worker.is_gone() {
                worker = Worker::start(folder);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(120), story).await.is_ok();
    let summary = client.get(&run).await.unwrap();
    assert!(ended, "{summary:?}");
    assert_eq!(summary.trouble.unwrap().message, "recovery failed after 3 attempts");
    assert!(folder.join("undone").exists(), "what it reserved is given back");
    let names: Vec<&str> = client.history(&run).await.unwrap().iter().map(|one| one.event.name()).collect();
    assert!(names.ends_with(&["compensation.completed", "run.failed"]), "{names:?}");
}

/// argoproj/argo-workflows#8456: a step that was killed for its memory left its workflow running for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oom_step_detected() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    std::fs::write(folder.join("hungry"), "").unwrap();
    let client = goldseam::connect(&url(folder)).await.unwrap();
    let run = RunId::new("r").unwrap();
    client.start("hungry", &run, Payload::null(), StartOptions::default()).await.unwrap();
    let mut worker = Worker::start_with_memory(8 << 20, folder);
    let story = async {
        while !worker.is_gone() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(client.get(&run).await.unwrap().status, Status::Running, "nobody could say so");
        std::fs::remove_file(folder.join("hungry")).unwrap();
        let _worker = Worker::start(folder);
        client.handle(run.clone()).result::<u32>().await.unwrap();
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), story).await.is_ok(), "nobody noticed");
    let summary = client.get(&run).await.unwrap();
    assert_eq!((summary.status, summary.recoveries), (Status::Completed, 1));
}
