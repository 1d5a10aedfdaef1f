//! `Context::changed`: the answer is the same in every replay, arm by arm.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use goldseam_core::{RunId, Status};
use goldseam_engine::preflight::{Preflight, Verdict};
use goldseam_engine::{Clock, Config, Context, Engine, Error, Result, SystemClock};
use goldseam_store::{MemoryStore, Store};

/// Which build of the code runs.
#[derive(Debug, Clone, Default)]
struct Build {
    number: Arc<AtomicU32>,
}

struct Place {
    store: Arc<dyn Store>,
    build: Build,
}

impl Place {
    fn new() -> Self {
        Self { store: Arc::new(MemoryStore::new(Arc::new(|| SystemClock.now()))), build: Build::default() }
    }

    fn builder(&self) -> goldseam_engine::Builder {
        let config = Config { linger: Duration::from_millis(5), ..Config::default() };
        let build = || self.build.clone();
        let loops = build();
        let arms = build();
        let again = build();
        Engine::builder(Arc::clone(&self.store))
            .config(config)
            .workflow("loops", move |ctx, (): ()| in_a_loop(ctx, loops.clone()))
            .workflow("arms", move |ctx, (): ()| in_arms(ctx, arms.clone()))
            .workflow("again", move |ctx, round: u32| begins_again(ctx, round, again.clone()))
    }

    /// Runs this build until the run waits, or ends.
    async fn goes_on(&self, build: u32, workflow: &str, input: &impl serde::Serialize) -> Vec<String> {
        self.build.number.store(build, Ordering::Relaxed);
        let engine = self.builder().start().await.unwrap();
        let run = engine.start(workflow, "r", input).await.unwrap();
        run.signal("go", &()).await.unwrap();
        let id = RunId::new("r").unwrap();
        loop {
            let summary = engine.client().get(&id).await.unwrap();
            let rests = summary.status == Status::Waiting && summary.mail_unread == 0;
            if rests && summary.owner.is_none() || summary.status.is_terminal() {
                break;
            }
            assert_ne!(summary.status, Status::Parked, "{summary:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let history = engine.client().history(&id).await.unwrap();
        engine.shutdown().await;
        let path =
            |r: &goldseam_core::Recorded| r.event.path().map(|path| format!("{} {path}", r.event.name()));
        history.iter().filter_map(path).collect()
    }

    async fn verdict(&self, build: u32) -> Option<Verdict> {
        self.build.number.store(build, Ordering::Relaxed);
        let report = self.builder().preflight(Preflight::all()).await.unwrap();
        report.findings.into_iter().next().map(|finding| finding.verdict)
    }
}

async fn ok() -> Result<u32> {
    Ok(1)
}

/// Build 1 asks for the change in each round; build 0 does not know the change.
async fn in_a_loop(ctx: Context, build: Build) -> Result<Vec<bool>> {
    let mut answers = Vec::new();
    for round in 0..3u32 {
        let new = match build.number.load(Ordering::Relaxed) {
            0 => false,
            _ => ctx.changed("faster").await?,
        };
        answers.push(new);
        let name = if new { "new" } else { "old" };
        ctx.step((name, round), ok).await?;
        ctx.signal::<()>("go").await?;
    }
    Ok(answers)
}

#[tokio::test]
async fn the_first_answer_holds_for_the_whole_arm() {
    let place = Place::new();
    place.goes_on(0, "loops", &()).await;
    assert_eq!(place.verdict(1).await, None);
    place.goes_on(1, "loops", &()).await;
    let paths = place.goes_on(1, "loops", &()).await;
    let steps: Vec<&str> = paths.iter().filter_map(|path| path.strip_prefix("step.completed ")).collect();
    assert_eq!(steps, ["old:0", "old:1", "old:2"]);
    assert!(!paths.iter().any(|path| path.starts_with("change.marked")));

    let place = Place::new();
    place.goes_on(1, "loops", &()).await;
    let paths = place.goes_on(1, "loops", &()).await;
    assert_eq!(paths.iter().filter(|path| *path == "change.marked faster").count(), 1);
    assert!(matches!(place.verdict(0).await, Some(Verdict::Parks { .. })));
}

/// Two arms; build 0 gets only through the left one, as the right one waits first.
async fn in_arms(ctx: Context, build: Build) -> Result<u32> {
    let part = |name: &'static str| {
        let ctx = ctx.clone();
        let build = build.clone();
        async move {
            let arm = ctx.arm(name)?;
            if name == "right" {
                arm.signal::<()>("go").await?;
            }
            let new = build.number.load(Ordering::Relaxed) == 1 && arm.changed("check").await?;
            if new {
                arm.step("check", ok).await?;
            }
            arm.step("work", ok).await
        }
    };
    ctx.join([part("left"), part("right")]).await?;
    ctx.signal::<()>("never").await?;
    Ok(0)
}

#[tokio::test]
async fn each_arm_decides_for_itself() {
    let place = Place::new();
    place.build.number.store(0, Ordering::Relaxed);
    let engine = place.builder().start().await.unwrap();
    engine.start("arms", "r", &()).await.unwrap();
    let id = RunId::new("r").unwrap();
    loop {
        let history = engine.client().history(&id).await.unwrap();
        let rests = engine.client().get(&id).await.unwrap().owner.is_none();
        if rests && history.iter().any(|r| r.event.name() == "step.completed") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    engine.shutdown().await;
    assert_eq!(place.verdict(1).await, None);
    let paths = place.goes_on(1, "arms", &()).await;
    assert!(paths.contains(&"change.marked right~/check".to_owned()), "{paths:?}");
    assert!(paths.contains(&"step.completed right~/check".to_owned()), "{paths:?}");
    assert!(!paths.iter().any(|path| path.contains("left~/check")), "{paths:?}");
}

/// Continues as new after the first signal: the change reaches the second round.
async fn begins_again(ctx: Context, round: u32, build: Build) -> Result<u32> {
    let new = build.number.load(Ordering::Relaxed) == 1 && ctx.changed("check").await?;
    if new {
        ctx.step("check", ok).await?;
    }
    ctx.step("work", ok).await?;
    ctx.signal::<()>("go").await?;
    if round == 0 { ctx.continue_as_new(&1u32) } else { Err(Error::terminal("enough")) }
}

#[tokio::test]
async fn continued_as_new_history_has_the_change() {
    let place = Place::new();
    place.build.number.store(0, Ordering::Relaxed);
    let engine = place.builder().start().await.unwrap();
    engine.start("again", "r", &0u32).await.unwrap();
    let id = RunId::new("r").unwrap();
    while engine.client().get(&id).await.unwrap().status != Status::Waiting {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    engine.shutdown().await;
    let paths = place.goes_on(1, "again", &0u32).await;
    let steps: Vec<&str> = paths.iter().filter_map(|path| path.strip_prefix("step.completed ")).collect();
    assert_eq!(steps, ["work", "check", "work"]);
    assert_eq!(place.verdict(1).await, None);
}
