//! Metrics of an embedded engine for Prometheus: install a recorder, then start the engine.
//!
//! `cargo run -p goldseam --example metrics`

#![expect(clippy::print_stdout, reason = "an example shows its result")]

use goldseam::prelude::*;
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};

async fn checkout(ctx: Context, item: String) -> goldseam::Result<String> {
    ctx.step("charge", || async { Ok(format!("receipt for {item}")) }).await
}

/// Installs the recorder of this process. Without buckets, the exporter would make summaries of the histograms, and
/// the alert rules and the board would not work.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    PrometheusBuilder::new().set_buckets(goldseam::metrics::buckets())?.install_recorder()
}

/// Runs the example on the store at `url`. Returns the metrics before and after a run. A program serves this text at
/// `/metrics`, and calls `run_upkeep` before it renders.
pub(crate) async fn run(url: &str, exporter: &PrometheusHandle) -> goldseam::Result<(String, String)> {
    let engine = Engine::open(url).await?.workflow("checkout", checkout).start().await?;
    let before = exporter.render();
    engine.start(checkout, "order-7", &"tea".to_owned()).await?.result().await?;
    // The depths of the queues are counted on request, because that reads their tasks.
    engine.client().queue().stats().await?;
    engine.shutdown().await;
    exporter.run_upkeep();
    Ok((before, exporter.render()))
}

#[tokio::main]
async fn main() -> goldseam::Result<()> {
    let exporter = install()?;
    let (_, after) = run("sqlite:metrics.db", &exporter).await?;
    println!("{after}");
    Ok(())
}
