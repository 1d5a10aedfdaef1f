//! Secrets: steps get them by name, and nothing that is written has them.

use std::io::Write;
use std::sync::{Arc, Mutex};

use goldseam::core::task::NewTask;
use goldseam::core::{QueueName, TaskId};
use goldseam::engine::queue::Want;
use goldseam::prelude::*;
use goldseam::{EngineError, Failure, Millis, Payload, RunId, Status};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Scratch, reaches};

const VALUE: &str = "sk_live_51/Open+Sesame=42";
/// The same in a URL.
const IN_A_URL: &str = "sk_live_51%2FOpen%2BSesame%3D42";
/// What both have in common.
const TRACE: &str = "sk_live_51";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl Heard {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Listens to this thread, which a test's runtime has all to itself.
    fn begin(&self) -> tracing::subscriber::DefaultGuard {
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        tracing::subscriber::set_default(all.with_writer(self.clone()).finish())
    }
}

impl Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Heard {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Says the secret in every way that user code has.
async fn careless(ctx: Context, name: String) -> goldseam::Result<()> {
    let key = ctx.secret(&name)?;
    assert_eq!(key.expose(), VALUE);
    ctx.progress(format!("paying with {VALUE}")).await?;
    let refused =
        || async { Err::<(), _>(Error::retryable(format!("GET https://bank/?key={IN_A_URL}: 503"))) };
    let error = ctx
        .step("pay", refused)
        .retry(Retry::fixed(Duration::from_millis(1)).max_attempts(2))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "step pay failed: GET https://bank/?key=[secret]: 503", "as in a replay");
    let panics =
        || async { if VALUE.is_empty() { Ok::<(), Error>(()) } else { panic!("no luck with {VALUE}") } };
    let error: Error = ctx.step("panic", panics).await.unwrap_err();
    assert!(!error.to_string().contains(TRACE), "{error}");
    let cut = format!("{}{VALUE}", "x".repeat(4_085));
    ctx.step("cut", || async { Err::<(), _>(Error::terminal(cut.clone())) }).await.unwrap_err();
    ctx.step("reserve", || async { Ok::<_, Error>(1) })
        .compensate(|_| async { Err::<(), _>(Error::terminal(format!("not undone by {VALUE}"))) })
        .await?;
    Err(Error::terminal(format!("given up on {VALUE}")))
}

#[tokio::test]
async fn a_secret_that_user_code_says_is_in_no_event_no_log_and_no_error() {
    let (scratch, heard) = (Scratch::new(), Heard::default());
    let listening = heard.begin();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let engine = engine.workflow("careless", careless).start().await.unwrap();
    engine.run("careless", "c-1", &"bank").await.unwrap();
    reaches(&engine, "c-1", Status::Parked).await;
    let by = goldseam::client::By { reason: format!("because of {VALUE}"), ..Default::default() };
    engine.cancel(&RunId::new("c-1").unwrap(), by).await.unwrap();

    let run = RunId::new("c-1").unwrap();
    let log: String = engine
        .store()
        .read(&run, goldseam::Seq::ZERO, 1_000)
        .await
        .unwrap()
        .iter()
        .map(|r| r.body.as_str())
        .collect();
    for said in [
        "paying with [secret]",
        "key=[secret]: 503",
        "no luck with [secret]",
        "x[secret]…",
        "because of [secret]",
    ] {
        assert!(log.contains(said), "{said}: {log}");
    }
    assert!(!log.contains(TRACE), "{log}");
    let summary = engine.get(&run).await.unwrap();
    assert!(!format!("{summary:?}").contains(TRACE));
    engine.shutdown().await;
    let files = std::fs::read_dir(scratch.folder()).unwrap().map(|entry| entry.unwrap().path());
    for file in files.filter(|path| path.is_file()) {
        let bytes = std::fs::read(file).unwrap();
        assert!(
            !bytes.windows(TRACE.len()).any(|part| part == TRACE.as_bytes()),
            "in the files of the store"
        );
    }
    drop(listening);
    assert!(!heard.text().contains(TRACE), "{}", heard.text());
}

#[tokio::test]
async fn whoever_waits_for_a_run_that_failed_over_a_secret_does_not_get_it() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let fails =
        |_: Context, (): ()| async { Err::<(), _>(Error::terminal(format!("no entry with {VALUE}"))) };
    let engine = engine.workflow("fails", fails).start().await.unwrap();
    let error = engine.run("fails", "f-1", &()).await.unwrap().result::<()>().await.unwrap_err();
    assert_eq!(error.to_string(), "run f-1 ended failed: no entry with [secret]");
    assert_eq!(engine.redactor().text(&format!("mine: {VALUE}")), "mine: [secret]");
    engine.shutdown().await;
}

#[tokio::test]
async fn a_payload_that_holds_a_secret_is_kept_and_told_of() {
    let (scratch, heard) = (Scratch::new(), Heard::default());
    let _listening = heard.begin();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let returns = |ctx: Context, (): ()| async move {
        ctx.step("fetch", || async { Ok::<_, Error>(VALUE.to_owned()) }).await.map(|_| ())
    };
    let engine = engine.workflow("returns", returns).start().await.unwrap();
    engine.run("returns", "r-1", &()).await.unwrap().result::<()>().await.unwrap();
    let run = RunId::new("r-1").unwrap();
    let log = format!("{:?}", engine.history(&run).await.unwrap());
    assert!(log.contains(VALUE), "data is never changed");
    engine.shutdown().await;
    let heard = heard.text();
    let told = heard.lines().find(|line| line.contains("holds a registered secret")).unwrap();
    assert!(told.contains("run=r-1") && told.contains("place=\"fetch\""), "{told}");
    assert!(!heard.contains(TRACE), "{heard}");
}

#[tokio::test]
async fn a_step_that_wants_an_unknown_secret_fails_with_the_names_that_are_known() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let wants = |ctx: Context, (): ()| async move {
        let login = ctx.step("login", || async { ctx.secret("bnak").map(|_| ()) });
        login.await
    };
    let engine = engine.workflow("wants", wants).start().await.unwrap();
    let error = engine.run("wants", "w-1", &()).await.unwrap().result::<()>().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no secret \"bnak\"") && text.contains("it has: bank"), "{text}");
    let EngineError::Ended { failure, .. } = error else { panic!("{error}") };
    assert_eq!(failure.code.as_deref(), Some("no-such-secret"));
    engine.shutdown().await;
}

#[tokio::test]
async fn an_engine_with_a_secret_that_cannot_be_hidden_does_not_start() {
    let scratch = Scratch::new();
    let error = scratch.builder().await.secret("pin", Secret::from("1234")).start().await.unwrap_err();
    assert_eq!(error.code(), "GS0121");
    assert!(error.hint().is_some());
    assert!(error.to_string().contains("pin") && !error.to_string().contains("1234"), "{error}");
}

#[tokio::test]
async fn what_a_worker_says_of_its_failure_loses_the_secrets_of_whoever_writes_it() {
    let scratch = Scratch::new();
    let mut redactor = goldseam::Redactor::default();
    redactor.hide(VALUE).unwrap();
    let client = scratch.client().await.hiding(redactor);
    let queue = client.queue();
    let (id, jobs) = (TaskId::new("t-1").unwrap(), QueueName::new("jobs").unwrap());
    let (kind, payload) = ("charge".to_owned(), Payload::null());
    let task = NewTask {
        id: id.clone(),
        kind,
        queue: jobs.clone(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload,
        attempts_max: 1,
        silence_max: None,
    };
    queue.submit(task).await.unwrap();
    let want = Want { owner: "w".into(), queue: jobs, kind: None, limit: 1 };
    let claimed = queue.claim(want).await.unwrap().remove(0);
    let failure = Failure::terminal(format!("no entry with {VALUE}"));
    queue.fail(&id, claimed.fence, failure).await.unwrap();
    let task = format!("{:?}", queue.get(&id).await.unwrap());
    assert!(task.contains("no entry with [secret]") && !task.contains(TRACE), "{task}");
}
