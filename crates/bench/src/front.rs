//! An HTTP server under load: followers that stay connected, and reads and writes at a fixed rate, while runs make
//! progress.
//!
//! The server, the engine, the followers and the callers share one process and its cores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use goldseam::prelude::*;
use goldseam_server::config::Settings;
use goldseam_server::serve;
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::Fallible;
use crate::report::{Measurement, median, rank};
use crate::target::Target;

/// Number of followed runs.
const RUNS: usize = 100;
/// Number of concurrent requests.
const CALLERS: usize = 64;

/// The amount of load.
#[derive(Debug, Clone, Args)]
pub(crate) struct FrontLoad {
    /// Number of followers
    #[arg(long, default_value_t = 1_000)]
    followers: usize,
    /// Requests per second
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Duration in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
}

/// Consumes signals until the last one.
async fn ticks(ctx: Context, _: Value) -> goldseam::Result<u64> {
    let mut count: u64 = 0;
    loop {
        let tick: Value = ctx.signal("tick").await?;
        count += 1;
        if tick == json!("last") {
            return Ok(count);
        }
    }
}

#[derive(Debug, Default)]
struct ResponseCounts {
    received: AtomicU64,
    failed: AtomicU64,
}

pub(crate) async fn measure(target: &Target, load: &FrontLoad) -> Fallible<Vec<Measurement>> {
    let url = target.scratch("front");
    let limits = [
        ("listen", "127.0.0.1:0"),
        ("requests_per_second", "100000"),
        ("connections_max", "8192"),
        ("connections_per_address", "8192"),
        ("waits_max", "6000"),
    ];
    let mut flags: BTreeMap<&'static str, String> =
        limits.map(|(name, value)| (name, value.to_owned())).into();
    flags.insert("store", url.clone());
    let running = serve(Settings::gather(&flags, |_| None, None)?.config()?).await?;
    let engine = Engine::open(&url).await?.workflow("ticks", ticks).start().await?;
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(CALLERS).build()?;
    let base = running.url();
    let counts = Arc::new(ResponseCounts::default());
    for run in 0..RUNS {
        let body = json!({ "workflow": "ticks", "id": format!("r-{run}") });
        http.post(format!("{base}/v1/runs")).json(&body).send().await?.error_for_status()?;
    }
    let mut followers = tokio::task::JoinSet::new();
    for follower in 0..load.followers {
        let url = format!("{base}/v1/runs/r-{}/events", follower % RUNS);
        followers.spawn(follow(http.clone(), url, Arc::clone(&counts)));
    }
    while counts.received.load(Ordering::Relaxed) < load.followers as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let began = Instant::now();
    let (mut reads, mut writes) = ask(&http, &base, load, &counts).await?;
    let took = began.elapsed().as_secs_f64();
    for run in 0..RUNS {
        let body = json!({ "name": "tick", "payload": "last" });
        http.post(format!("{base}/v1/runs/r-{run}/signal")).json(&body).send().await?.error_for_status()?;
    }
    let last = Instant::now();
    let ended = followers.join_all().await;
    let caught_up = last.elapsed().as_secs_f64();
    let complete = ended.iter().filter(|complete| **complete).count();
    engine.shutdown().await;
    running.shutdown().await;
    let asked = (reads.len() + writes.len()) as f64;
    Ok(vec![Measurement {
        measure: "front",
        store: target.label(),
        value: asked / took,
        unit: "requests/s",
        baseline: Some(load.rate as f64),
        ratio: Some(asked / took / load.rate as f64),
        more: vec![
            ("failed", counts.failed.load(Ordering::Relaxed) as f64),
            ("reads_p99_ms", rank(&mut reads, 0.99)),
            ("reads_median_ms", median(reads)),
            ("writes", writes.len() as f64),
            ("writes_p99_ms", rank(&mut writes, 0.99)),
            ("writes_median_ms", median(writes)),
            ("followers", load.followers as f64),
            ("followers_complete", complete as f64),
            ("events_received", counts.received.load(Ordering::Relaxed) as f64),
            ("caught_up_s", caught_up),
        ],
    }])
}

/// Follows a run to its end. Returns whether it received every event once and in order.
async fn follow(http: reqwest::Client, url: String, counts: Arc<ResponseCounts>) -> bool {
    let Ok(mut response) = http.get(url).send().await else { return false };
    let mut text = String::new();
    let mut end = 0;
    let mut whole = true;
    while let Ok(Some(chunk)) = response.chunk().await {
        text.push_str(&String::from_utf8_lossy(&chunk));
        while let Some((block, rest)) = text.split_once("\n\n") {
            let id: Option<u64> = block.lines().find_map(|line| line.strip_prefix("id: ")?.parse().ok());
            if let Some(id) = id {
                whole &= id == end + 1;
                end = id;
                counts.received.fetch_add(1, Ordering::Relaxed);
            }
            if block.contains("event: run.completed") {
                return whole;
            }
            text = rest.to_owned();
        }
    }
    false
}

/// Sends requests at a fixed rate; returns the duration of each read and each write in milliseconds.
async fn ask(
    http: &reqwest::Client,
    base: &str,
    load: &FrontLoad,
    counts: &Arc<ResponseCounts>,
) -> Fallible<(Vec<f64>, Vec<f64>)> {
    let all = load.rate * load.seconds;
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let http = http.clone();
        let base = base.to_owned();
        let next = Arc::clone(&next);
        let counts = Arc::clone(counts);
        let rate = load.rate;
        callers.spawn(async move {
            let mut reads = Vec::new();
            let mut writes = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= all {
                    return (reads, writes);
                }
                let due = began + Duration::from_secs_f64(number as f64 / rate as f64);
                tokio::time::sleep_until(due.into()).await;
                let sent = Instant::now();
                let (request, times) = match number % 10 {
                    0 | 1 | 5 => (write(&http, &base, number), &mut writes),
                    _ => (read(&http, &base, number), &mut reads),
                };
                if !is_answered(request).await {
                    counts.failed.fetch_add(1, Ordering::Relaxed);
                }
                times.push(sent.elapsed().as_secs_f64() * 1e3);
            }
        });
    }
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for (read, written) in callers.join_all().await {
        reads.extend(read);
        writes.extend(written);
    }
    Ok((reads, writes))
}

/// Returns a write. Of ten requests, two are signals and one is a start.
fn write(http: &reqwest::Client, base: &str, number: u64) -> RequestBuilder {
    match number % 10 {
        1 => http
            .post(format!("{base}/v1/runs"))
            .json(&json!({ "workflow": "other", "id": format!("n-{number}") })),
        _ => http
            .post(format!("{base}/v1/runs/r-{}/signal", number % RUNS as u64))
            .json(&json!({ "name": "tick" })),
    }
}

/// Returns a read. Of ten requests, one is a list and six read the result of a run.
fn read(http: &reqwest::Client, base: &str, number: u64) -> RequestBuilder {
    match number % 10 {
        2 => http.get(format!("{base}/v1/runs?limit=20")),
        _ => http.get(format!("{base}/v1/runs/r-{}/result", number % RUNS as u64)),
    }
}

async fn is_answered(request: RequestBuilder) -> bool {
    match request.send().await {
        Ok(answer) => answer.status().is_success() && answer.bytes().await.is_ok(),
        Err(_) => false,
    }
}
