//! Secrets: steps read them by name, and no text that the engine writes shows them.

use std::io::Write;
use std::sync::{Arc, Mutex};

use goldseam::prelude::*;
use goldseam::unstable::core::TaskId;
use goldseam::{EngineError, Failure, Status};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{Scratch, new_task, ok, reaches, run_id, want};

const VALUE: &str = "sk_live_51/Open+Sesame=42";
/// The secret, percent-encoded.
const IN_A_URL: &str = "sk_live_51%2FOpen%2BSesame%3D42";
/// The part that both forms share.
const TRACE: &str = "sk_live_51";

/// A writer that captures all log output.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl LogCapture {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Captures the log output of this thread until the guard is dropped.
    fn start(&self) -> tracing::subscriber::DefaultGuard {
        let all = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        tracing::subscriber::set_default(all.with_writer(self.clone()).finish())
    }
}

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogCapture {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Leaks the secret in every text that user code can write.
async fn careless(ctx: Context, name: String) -> goldseam::Result<()> {
    let key = ctx.secret(&name)?;
    assert_eq!(key.expose(), VALUE);
    ctx.progress(format!("paying with {VALUE}")).await?;
    let refused =
        || async { Err::<(), _>(Error::retryable(format!("GET https://bank/?key={IN_A_URL}: 503"))) };
    let error = ctx
        .step("pay", refused)
        .retry(Retry::fixed(Duration::from_millis(1)).attempts_max(2))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "step pay failed: GET https://bank/?key=[secret]: 503", "as in a replay");
    let panics =
        || async { if VALUE.is_empty() { Ok::<(), Error>(()) } else { panic!("no luck with {VALUE}") } };
    let error: Error = ctx.step("panic", panics).await.unwrap_err();
    assert!(!error.to_string().contains(TRACE), "{error}");
    let cut = format!("{}{VALUE}", "x".repeat(4_085));
    ctx.step("cut", || async { Err::<(), _>(Error::terminal(cut.clone())) }).await.unwrap_err();
    ctx.step("reserve", || ok(1))
        .compensate(|_| async { Err::<(), _>(Error::terminal(format!("not undone by {VALUE}"))) })
        .await?;
    Err(Error::terminal(format!("given up on {VALUE}")))
}

#[tokio::test]
async fn secret_is_redacted_in_events_logs_and_errors() {
    let scratch = Scratch::new();
    let log_output = LogCapture::default();
    let capturing = log_output.start();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let engine = engine.workflow("careless", careless).start().await.unwrap();
    engine.start("careless", "c-1", &"bank").await.unwrap();
    reaches(engine.client(), "c-1", Status::Parked).await;
    let by = goldseam::client::By { reason: format!("because of {VALUE}"), ..Default::default() };
    engine.client().cancel(&run_id("c-1"), by).await.unwrap();

    let run = run_id("c-1");
    let log: String = engine
        .client()
        .store()
        .read(&run, goldseam::Seq::ZERO, 1_000)
        .await
        .unwrap()
        .iter()
        .map(|r| r.body.as_str())
        .collect();
    for text in [
        "paying with [secret]",
        "key=[secret]: 503",
        "no luck with [secret]",
        "x[secret]…",
        "because of [secret]",
    ] {
        assert!(log.contains(text), "{text}: {log}");
    }
    assert!(!log.contains(TRACE), "{log}");
    let summary = engine.client().get(&run).await.unwrap();
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
    drop(capturing);
    assert!(!log_output.text().contains(TRACE), "{}", log_output.text());
}

#[tokio::test]
async fn secret_is_redacted_in_the_result_error() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let fails =
        |_: Context, (): ()| async { Err::<(), _>(Error::terminal(format!("no entry with {VALUE}"))) };
    let engine = engine.workflow("fails", fails).start().await.unwrap();
    let error = engine.start("fails", "f-1", &()).await.unwrap().result::<()>().await.unwrap_err();
    assert_eq!(error.to_string(), "run f-1 ended failed: no entry with [secret]");
    assert_eq!(engine.client().redactor().text(&format!("mine: {VALUE}")), "mine: [secret]");
    engine.shutdown().await;
}

#[tokio::test]
async fn payload_with_a_secret_is_kept_and_logged() {
    let scratch = Scratch::new();
    let log_output = LogCapture::default();
    let _capturing = log_output.start();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let returns =
        |ctx: Context, (): ()| async move { ctx.step("fetch", || ok(VALUE.to_owned())).await.map(|_| ()) };
    let engine = engine.workflow("returns", returns).start().await.unwrap();
    engine.start("returns", "r-1", &()).await.unwrap().result::<()>().await.unwrap();
    let run = run_id("r-1");
    let log = format!("{:?}", engine.client().history(&run).await.unwrap());
    assert!(log.contains(VALUE), "data is never changed");
    engine.shutdown().await;
    let output = log_output.text();
    let warning = output.lines().find(|line| line.contains("contains a registered secret")).unwrap();
    assert!(warning.contains("run=r-1") && warning.contains("place=\"fetch\""), "{warning}");
    assert!(!output.contains(TRACE), "{output}");
}

#[tokio::test]
async fn unknown_secret_fails_the_step_and_lists_known_names() {
    let scratch = Scratch::new();
    let engine = scratch.builder().await.secret("bank", Secret::from(VALUE));
    let wants = |ctx: Context, (): ()| async move {
        let login = ctx.step("login", || async { ctx.secret("bnak").map(|_| ()) });
        login.await
    };
    let engine = engine.workflow("wants", wants).start().await.unwrap();
    let error = engine.start("wants", "w-1", &()).await.unwrap().result::<()>().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no secret \"bnak\"") && text.contains("registered: bank"), "{text}");
    let EngineError::Ended { failure, .. } = error else { panic!("{error}") };
    assert_eq!(failure.code.as_deref(), Some("no-such-secret"));
    engine.shutdown().await;
}

#[tokio::test]
async fn engine_refuses_a_secret_that_is_too_short_to_redact() {
    let scratch = Scratch::new();
    let error = scratch.builder().await.secret("pin", Secret::from("1234")).start().await.unwrap_err();
    assert_eq!(error.code(), "GS0121");
    assert!(error.hint().is_some());
    assert!(error.to_string().contains("pin") && !error.to_string().contains("1234"), "{error}");
}

#[tokio::test]
async fn secret_is_redacted_in_the_failure_of_a_task() {
    let scratch = Scratch::new();
    let mut redactor = goldseam::Redactor::default();
    redactor.hide(VALUE).unwrap();
    let client = scratch.client().await.hiding(redactor);
    let queue = client.queue();
    let id = TaskId::new("t-1").unwrap();
    queue.submit(new_task("t-1", "jobs")).await.unwrap();
    let claimed = queue.claim(want("w", "jobs", 1)).await.unwrap().remove(0);
    let failure = Failure::terminal(format!("no entry with {VALUE}"));
    queue.fail(&id, claimed.fence, failure).await.unwrap();
    let task = format!("{:?}", queue.get(&id).await.unwrap());
    assert!(task.contains("no entry with [secret]") && !task.contains(TRACE), "{task}");
}
