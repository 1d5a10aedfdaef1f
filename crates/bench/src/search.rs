//! The first page of a search among many runs: typical conditions, and some that no index answers.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};
use goldseam::search::Condition;
use goldseam::unstable::core::event::{RunQueued, Tags};
use goldseam::unstable::core::summary::Trouble;
use goldseam::unstable::core::{
    BranchId, Event, Hash, NodeId, QueueName, Recorded, TagKey, WorkflowName, WriteId, codec,
};
use goldseam::unstable::store::{Append, RunFilter, Store};
use goldseam::{Attributes, Millis, Payload, RunId, Seq, Status, Summary};

use crate::Fallible;
use crate::report::{Measurement, median};
use crate::target::{Target, with};

/// Time of the latest run.
const NOW: i64 = 1_800_000_000_000;
/// Appends in flight while the store is filled.
const IN_FLIGHT: usize = 512;
const ROUNDS: usize = 9;
const PAGE: u32 = 50;

/// Names of the measures and their conditions; the last ones select nothing, or are in no index.
const SEARCHES: [(&str, &str); 20] = [
    ("status", "status = failed"),
    ("statuses", "status in (failed, parked) and created > -2h"),
    ("workflow", "workflow = rare"),
    ("workflow_status", "workflow = order and status = parked"),
    ("attribute", "region = \"eu\""),
    ("attribute_range", "region = \"eu\" and amount > 900"),
    ("rare_attribute", "customer = \"c-4711\""),
    ("issue", "status in (failed, parked) and region = \"eu\" and amount > 100 and started > -2h"),
    ("tag_attribute", "tag.team = \"t-3\" and paid = true"),
    ("error", "status = failed and error contains \"boom\""),
    ("empty_intersection", "region = \"eu\" and stage = \"only-us\""),
    ("rare_range", "amount > 999998"),
    ("negation", "not (status in (completed, failed, parked, running, queued)) and region != \"eu\""),
    ("in_list", "customer in (\"c-1\", \"c-2\", \"c-3\") and region in (\"eu\", \"us\")"),
    ("alternatives", "stage = \"none\" or (region = \"eu\" and stage = \"only-us\")"),
    ("prefix", "customer starts_with \"c-4711\""),
    ("empty_prefix", "customer starts_with \"zz\""),
    ("empty_negation", "region not in (\"eu\", \"us\")"),
    ("empty_workflow", "workflow = mail and stage = \"only-us\""),
    ("no_index", "priority = 7"),
];

/// How many runs to search among.
#[derive(Debug, Clone, Args)]
pub(crate) struct SearchSize {
    /// Number of runs in the store
    #[arg(long, default_value_t = 1_000_000)]
    runs: u64,
    /// Fill the store of `--store` and keep it
    #[arg(long, hide = true)]
    fill: bool,
    /// Measure the store of `--store`, which `--fill` filled
    #[arg(long, hide = true, conflicts_with = "fill")]
    filled: bool,
}

pub(crate) async fn measure(target: &Target, size: &SearchSize) -> Fallible<Vec<Measurement>> {
    if size.filled {
        return pages(target.given(), target).await;
    }
    let url = if size.fill { target.given().to_owned() } else { target.scratch("search") };
    eprintln!("filling a store with {} runs …", size.runs);
    let began = Instant::now();
    let fast = if target.is_sqlite() { with(&url, "durability", "process") } else { url.clone() };
    fill(&goldseam::open_store(&fast).await?, size.runs).await?;
    eprintln!("filled in {:.0} s", began.elapsed().as_secs_f64());
    if size.fill {
        return Ok(Vec::new());
    }
    pages(&url, target).await
}

/// Measures the first page of each search, on a connection without the cache of the fill.
async fn pages(url: &str, target: &Target) -> Fallible<Vec<Measurement>> {
    let store = goldseam::open_store(url).await?;
    let mut reports = Vec::new();
    for (measure, text) in SEARCHES {
        reports.push(first_page(&store, target, measure, text).await?);
    }
    Ok(reports)
}

async fn first_page(
    store: &Arc<dyn Store>,
    target: &Target,
    measure: &'static str,
    text: &str,
) -> Fallible<Measurement> {
    let condition = Some(Arc::new(Condition::parse(text, Millis(NOW))?));
    let filter = RunFilter { condition, limit: PAGE, ..RunFilter::default() };
    let mut times = Vec::new();
    let mut found = (0, false);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let page = store.runs(filter.clone()).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        found = (page.items.len(), page.next.is_some());
    }
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let more = vec![
        ("slowest_ms", slowest),
        ("found", f64::from(u32::try_from(found.0).unwrap_or(u32::MAX))),
        ("has_next", f64::from(u8::from(found.1))),
    ];
    let value = median(times);
    Ok(Measurement { measure, store: target.label(), value, unit: "ms", baseline: None, ratio: None, more })
}

async fn fill(store: &Arc<dyn Store>, runs: u64) -> Fallible<()> {
    let appends = stream::iter(0..runs).map(|number| {
        let store = Arc::clone(store);
        async move {
            let append = run(number, runs).map_err(|error| error.to_string())?;
            store.append(append).await.map_err(|error| error.to_string())
        }
    });
    let mut appends = appends.buffer_unordered(IN_FLIGHT);
    while let Some(appended) = appends.next().await {
        appended?;
    }
    Ok(())
}

/// Returns the append of one run. Every 20th of the older half is in `"us"` with a stage of its own.
fn run(number: u64, runs: u64) -> Fallible<Append> {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    let key = |name: &str| TagKey::new(name);
    let is_eu = number.is_multiple_of(3);
    let stage = if !is_eu && number.is_multiple_of(2) { "only-us" } else { "other" };
    let attributes = Attributes::from([
        (key("region")?, if is_eu { "eu" } else { "us" }.into()),
        (key("amount")?, i64::try_from(mixed % 1_000_000)?.into()),
        (key("customer")?, format!("c-{}", mixed % 100_000).into()),
        (key("stage")?, stage.into()),
        (key("paid")?, number.is_multiple_of(7).into()),
    ]);
    let workflow =
        if number.is_multiple_of(5_000) { "rare" } else { ["order", "mail"][usize::try_from(number % 2)?] };
    let queued = RunQueued {
        workflow: WorkflowName::new(workflow)?,
        version: 1,
        input: Payload::null(),
        queue: QueueName::new("default")?,
        priority: 0,
        tags: Tags::from([(key("team")?, format!("t-{}", number % 10))]),
        attributes,
        parent: None,
        plan: Vec::new(),
        trace: None,
        start_at: None,
        deadline: None,
        lane: None,
    };
    let at = Millis(NOW - i64::try_from((runs - number) * 100)?);
    let run = RunId::new(format!("run-{number:08}"))?;
    let recorded = Recorded {
        seq: Seq(1),
        at,
        branch: BranchId::ROOT,
        epoch: None,
        write: WriteId(number),
        prev: Hash::ZERO,
        bytes: 0,
        event: Event::RunQueued(queued),
    };
    let body = codec::encode(&recorded);
    let mut row = Summary::first(&run, &recorded, codec::chain(&body))?;
    shape(&mut row, mixed % 1_000)?;
    Ok(Append { run, after: Seq::ZERO, bodies: vec![body], row: Some(Box::new(row)), tasks: Vec::new() })
}

/// Gives the row a status: mostly completed.
fn shape(row: &mut Summary, draw: u64) -> Fallible<()> {
    let at = row.created_at;
    let trouble = |message: &str| {
        Some(Trouble {
            cause: format!("cause-{}", draw % 4),
            message: message.to_owned(),
            code: None,
            step: None,
        })
    };
    row.status = match draw {
        0..=9 => Status::Failed,
        10..=11 => Status::Parked,
        12..=13 => Status::Running,
        14 => Status::Waiting,
        15..=20 => Status::Queued,
        _ => Status::Completed,
    };
    match row.status {
        Status::Failed => row.trouble = trouble(if draw == 0 { "boom" } else { "timed out" }),
        Status::Parked => row.trouble = trouble("diverged"),
        Status::Running => row.owner = Some(NodeId::new("n-1")?),
        _ => {}
    }
    row.finished_at = row.status.is_terminal().then_some(at);
    row.parked = row.status == Status::Parked;
    Ok(())
}
