//! The binary in a temporary folder, and a store with runs in known states.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use goldseam::prelude::*;
use goldseam::{Client, RunId, Status};
use serde_json::Value;

/// How often a condition is checked, and the maximum number of checks.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const POLLS_MAX: u32 = 8_000;

/// A folder that the binary runs in.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) store: Option<String>,
}

/// The exit code and output of a command.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Asserts success and returns stdout.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self.out
    }

    /// Asserts success and returns the JSON document.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Asserts failure with this exit code and error code, and returns stderr.
    #[track_caller]
    pub(crate) fn fails(self, exit: i32, code: &str) -> String {
        assert_eq!(self.code, exit, "stdout: {}\nstderr: {}", self.out, self.err);
        assert!(self.err.starts_with(&format!("error[{code}]: ")), "{}", self.err);
        assert!(self.err.contains("\nhelp: "), "{}", self.err);
        assert!(self.err.ends_with(&format!("docs: goldseam explain {code}\n")), "{}", self.err);
        assert_eq!(self.out, "");
        self.err
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), store: None }
    }

    /// A place whose environment names this store.
    pub(crate) fn with_store(url: String) -> Self {
        Self { store: Some(url), ..Self::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The store from the environment, or a file in the folder.
    pub(crate) fn url(&self) -> String {
        let file = || format!("sqlite:{}?durability=process", self.path("goldseam.db").display());
        self.store.clone().unwrap_or_else(file)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_goldseam"));
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null());
        for name in ["GOLDSEAM_STORE", "GOLDSEAM_SERVER", "GOLDSEAM_KEY", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("USER", "tester");
        command.envs(self.store.iter().map(|url| ("GOLDSEAM_STORE", url)));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&self.command(args).output().unwrap())
    }

    /// The files in the folder.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// Runs `work` on a runtime.
pub(crate) fn block<F: Future>(work: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(work)
}

/// A place whose store holds `done`, `failed`, `asks` and `waits`, without a running engine.
pub(crate) fn prepared() -> Place {
    let place = Place::new();
    prepare(&place);
    place
}

/// Creates the runs of [`prepared`] in the store of this place.
pub(crate) fn prepare(place: &Place) {
    block(async {
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("order", order).start().await.unwrap();
        for (run, input) in [("done", "ship"), ("failed", "break"), ("asks", "ask"), ("waits", "wait")] {
            let tagged = StartOptions::default().tag("region", "eu");
            engine.start_with("order", run, &input, tagged).await.unwrap();
            tick(engine.client(), run).await;
        }
        reaches(engine.client(), "done", Status::Completed).await;
        reaches(engine.client(), "failed", Status::Failed).await;
        reaches(engine.client(), "asks", Status::Waiting).await;
        reaches(engine.client(), "waits", Status::Waiting).await;
        engine.shutdown().await;
    });
}

/// Waits for the next millisecond, so that lists have a definite order.
async fn tick(client: &Client, run: &str) {
    let run = RunId::new(run).unwrap();
    let created = client.get(&run).await.unwrap().created_at;
    while client.store().now().await.unwrap() <= created {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Reserves, charges at the second attempt, then acts on its input.
pub(crate) async fn order(ctx: Context, what: String) -> goldseam::Result<String> {
    let stock = ctx.step("reserve", || async { Ok("stock".to_owned()) }).compensate(|_| async { Ok(()) });
    stock.await?;
    let paid = ctx.step_with("charge", |attempt: Attempt| async move {
        match attempt.number() {
            1 => Err(Error::retryable("the bank answered 503")),
            _ => Ok(42),
        }
    });
    paid.retry(Retry::fixed(Duration::from_millis(1)).attempts_max(2)).await?;
    match what.as_str() {
        "break" => {
            ctx.step("ship", || async { Err::<(), _>(Error::terminal("no truck for order 17")) }).await?;
        }
        "ask" => {
            let schema = serde_json::json!({"type": "object", "required": ["ok"],
                "properties": {"ok": {"type": "boolean"}}});
            let _: serde_json::Value = ctx.ask("review", "Is it fine?").schema(schema).await?;
        }
        "hang" => ctx.step("ship", std::future::pending::<goldseam::Result<()>>).await?,
        "wait" => ctx.signal::<serde_json::Value>("paid").await.map(|_| ())?,
        _ => {}
    }
    Ok(format!("shipped {what}"))
}

/// Waits until the run has this status.
pub(crate) async fn reaches(client: &Client, run: &str, status: Status) {
    let run = RunId::new(run).unwrap();
    for _ in 0..POLLS_MAX {
        if client.get(&run).await.unwrap().status == status {
            return;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("{run} never became {status}");
}

/// Polls until `probe` returns something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    for _ in 0..POLLS_MAX {
        if let Some(found) = probe() {
            return found;
        }
        std::thread::park_timeout(POLL_INTERVAL);
    }
    panic!("never happened: {what}");
}

/// A process that is killed at the end of the test.
pub(crate) struct Guarded(pub(crate) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
