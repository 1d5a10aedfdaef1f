//! A store with runs in known states and no running engine.

use std::time::Duration;

use goldseam::prelude::*;
use goldseam::unstable::store::{Expect, Written};
use goldseam::{RunId, Status};
use goldseam_api::LocalApi;

/// A store in a temporary folder.
pub(crate) struct Place {
    _dir: tempfile::TempDir,
    pub(crate) url: String,
    pub(crate) api: LocalApi,
}

impl Place {
    /// An empty store.
    pub(crate) async fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?durability=process", dir.path().join("goldseam.db").display());
        let api = LocalApi::new(goldseam::connect(&url).await.unwrap());
        Self { _dir: dir, url, api }
    }

    /// A store with these runs of `order`, each with its input, once every run has ended or waits.
    pub(crate) async fn with(runs: &[(&str, &str)]) -> Self {
        let place = Self::empty().await;
        let engine = Engine::open(&place.url).await.unwrap().workflow("order", order).start().await.unwrap();
        for (run, input) in runs {
            engine.start("order", run, input).await.unwrap();
        }
        for (run, _) in runs {
            let run = RunId::new(*run).unwrap();
            let mut mark = 0;
            while !rests(engine.client().get(&run).await.unwrap().status) {
                mark = engine.client().wait_for_change(mark).await.unwrap();
            }
        }
        engine.shutdown().await;
        place
    }

    /// Sets the cached status of a run that waits for an answer to `running` (rule A2).
    pub(crate) async fn hide_question(&self, run: &str) {
        let store = self.api.client().store();
        let mut row = store.head(&RunId::new(run).unwrap()).await.unwrap().unwrap().row.unwrap();
        row.summary.status = Status::Running;
        let expect = Expect::Version(row.version());
        assert_eq!(store.put_row(row, expect).await.unwrap(), Written::Done);
    }
}

fn rests(status: Status) -> bool {
    status.is_terminal() || status == Status::Waiting
}

/// Reserves, charges at the second attempt, then acts on its input.
async fn order(ctx: Context, what: String) -> goldseam::Result<Option<String>> {
    let stock = ctx.step("reserve", || async { Ok("stock".to_owned()) });
    stock.compensate(|_| async { Ok(()) }).await?;
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
            let _: serde_json::Value = ctx.ask("review", "Is it fine?").await?;
        }
        // A stranger has the id of the child. The run goes on, and waits for something else.
        "child" => {
            let refused = ctx.child::<()>("pack", "order", &"nothing").id("done").await.unwrap_err();
            assert_eq!(refused.code(), Some("GS0172"));
            ctx.signal::<serde_json::Value>("paid").await.map(|_| ())?;
        }
        "wait" => ctx.signal::<serde_json::Value>("paid").await.map(|_| ())?,
        "nothing" => return Ok(None),
        _ => {}
    }
    Ok(Some(format!("shipped {what}")))
}
