//! The workflow of the demo: an order from reservation to shipment, with failures on purpose.

use std::sync::Arc;
use std::time::Duration;

use goldseam::prelude::*;
use serde::{Deserialize, Serialize};

use super::witness::WitnessWriter;

pub(crate) const WORKFLOW: &str = "order";
/// The question that every order asks.
pub(crate) const QUESTION: &str = "release";
pub(crate) const ANSWERS: [&str; 2] = ["ship", "decline"];
/// The failure code of a declined order.
pub(crate) const DECLINED: &str = "declined";
/// Steps in their order; steps with the same entry run in parallel.
pub(crate) const STAGES: &[&str] = &["reserve", "pick:", "charge", "ship"];

/// Input of the workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DemoOrder {
    pub(crate) customer: String,
    pub(crate) lines: Vec<String>,
    pub(crate) cents: u64,
    /// The duration of a step.
    pub(crate) step_ms: u64,
}

/// Output of the workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Receipt {
    parcel: String,
    charge: String,
    picked: Vec<String>,
}

/// The workflow: reserve, pick in parallel, charge (fails once), settle, ask, ship.
pub(crate) async fn order(
    ctx: Context,
    order: DemoOrder,
    witness: Arc<WitnessWriter>,
) -> goldseam::Result<Receipt> {
    let work = WitnessedWork { run: ctx.run_id().as_str().to_owned(), step_ms: order.step_ms, witness };
    let undo = work.clone();
    let reservation = ctx
        .step_with("reserve", |attempt| work.effect("reserve", attempt, format!("stock-{}", order.customer)))
        .compensate(move |_: String| undo.clone().undo("reserve"))
        .await?;
    let pick = |line: &String| {
        let path = format!("pick:{line}");
        let work = work.clone();
        let line = line.clone();
        ctx.step_with(("pick", line.clone()), move |attempt| work.effect(&path, attempt, line.clone()))
    };
    let picked = ctx.join(order.lines.iter().map(pick)).await?;
    let undo = work.clone();
    let charge = ctx
        .step_with("charge", |attempt| work.charge(attempt, order.cents))
        .retry(Retry::fixed(Duration::from_millis(order.step_ms)).attempts_max(3))
        .compensate(move |_: String| undo.clone().undo("charge"))
        .await?;
    ctx.sleep("settle", Duration::from_millis(order.step_ms * 4)).await?;
    let prompt = format!("Ship {} to {} for {} cents?", reservation, order.customer, order.cents);
    let answer: String = ctx.ask(QUESTION, prompt).choice(ANSWERS).await?;
    if answer != ANSWERS[0] {
        return Err(goldseam::Failure::terminal("the customer declined the order")
            .with_code(DECLINED)
            .into());
    }
    let parcel = ctx
        .step_with("ship", |attempt| work.effect("ship", attempt, format!("parcel-{}", order.customer)))
        .await?;
    Ok(Receipt { parcel, charge, picked })
}

/// Effects that write to the witness file.
#[derive(Debug, Clone)]
struct WitnessedWork {
    run: String,
    step_ms: u64,
    witness: Arc<WitnessWriter>,
}

impl WitnessedWork {
    fn effect(
        &self,
        path: &str,
        attempt: Attempt,
        result: String,
    ) -> impl Future<Output = goldseam::Result<String>> + Send + use<> {
        let work = self.clone();
        let path = path.to_owned();
        async move {
            let number = attempt.number();
            let key = attempt.idempotency_key();
            work.witness.begin(&work.run, &path, number, key)?;
            tokio::time::sleep(Duration::from_millis(work.step_ms)).await;
            work.witness.end(&work.run, &path, number, key)?;
            Ok(result)
        }
    }

    fn charge(
        &self,
        attempt: Attempt,
        cents: u64,
    ) -> impl Future<Output = goldseam::Result<String>> + Send + use<> {
        let number = attempt.number();
        let effect = self.effect("charge", attempt, format!("{cents} cents"));
        async move {
            let charged = effect.await?;
            match number {
                1 => Err(Error::retryable("the payment service answered 503")),
                _ => Ok(charged),
            }
        }
    }

    async fn undo(self, step: &'static str) -> goldseam::Result<()> {
        let path = format!("undo/{step}");
        self.witness.begin(&self.run, &path, 1, &self.run)?;
        tokio::time::sleep(Duration::from_millis(self.step_ms)).await;
        self.witness.end(&self.run, &path, 1, &self.run)?;
        Ok(())
    }
}
