//! A store with a different fault in each run, and masking of variable output.

use goldseam::prelude::*;
use goldseam::unstable::core::task::Task;
use goldseam::unstable::store::{Expect, NodeSeen, NodeState, TaskFilter, Written};
use goldseam::{Client, RunId, Status};

use crate::support::{Place, block, order, reaches};

/// A place whose store holds, besides `done`:
///
/// - `hidden`, whose cached status hides an open question (A2);
/// - `lost`, which waits for a signal and has no task (O1);
/// - `odd`, parked because its code changed (V1);
/// - `orphan`, whose process died during a step (O2).
pub(crate) fn faulty_store() -> Place {
    faulty_store_as(NAMES)
}

/// The names of the runs of [`faulty_store`].
pub(crate) const NAMES: [&str; 4] = ["hidden", "lost", "odd", "orphan"];

/// Like [`faulty_store`], with other names.
pub(crate) fn faulty_store_as(names: [&str; 4]) -> Place {
    let place = Place::new();
    add_faulty_runs(&place, names);
    place
}

/// Creates the runs of [`faulty_store`] in the store of this place.
pub(crate) fn add_faulty_runs(place: &Place, [hidden, lost, odd, orphaned]: [&str; 4]) {
    block(async {
        let engine = Engine::open(&place.url()).await.unwrap();
        let engine = engine.plan("order", ["reserve", "charge", "ship"]).workflow("order", order);
        let engine = engine.workflow("parcel", order).start().await.unwrap();
        for (run, input) in [("done", "ship"), (hidden, "ask"), (lost, "wait")] {
            engine.start("order", run, &input).await.unwrap();
        }
        engine.start("parcel", odd, &"wait").await.unwrap();
        reaches(engine.client(), "done", Status::Completed).await;
        for run in [hidden, lost, odd] {
            reaches(engine.client(), run, Status::Waiting).await;
        }
        engine.shutdown().await;
        diverge(place, odd).await;
        orphan(place, orphaned).await;
        let client = goldseam::connect_existing(&place.url()).await.unwrap();
        hide_question(&client, hidden).await;
        lose_task(&client, lost).await;
    });
}

async fn diverge(place: &Place, run: &str) {
    async fn changed(ctx: Context, _: String) -> goldseam::Result<()> {
        ctx.step("weigh", || async { Ok(()) }).await
    }
    let engine = Engine::open(&place.url()).await.unwrap().workflow("parcel", changed).start().await.unwrap();
    let odd = engine.handle(RunId::new(run).unwrap());
    odd.signal("paid", &()).await.unwrap();
    reaches(engine.client(), run, Status::Parked).await;
    engine.shutdown().await;
}

/// Starts a run whose process dies during the third step.
async fn orphan(place: &Place, run: &str) {
    let engine = Engine::open(&place.url()).await.unwrap().workflow("voyage", order).start().await.unwrap();
    let run = RunId::new(run).unwrap();
    let node = engine.node_id().clone();
    engine.start("voyage", run.as_str(), &"hang").await.unwrap();
    let mut mark = 0;
    while engine.client().get(&run).await.unwrap().steps < 2 {
        mark = engine.client().wait_for_change(mark).await.unwrap();
    }
    engine.crash();
    let client = goldseam::connect_existing(&place.url()).await.unwrap();
    // Wait until the node's record says that it is gone.
    let is_gone = |seen: &NodeSeen| seen.record.id == node && seen.record.state == NodeState::Gone;
    let mut mark = 0;
    while !client.store().nodes().await.unwrap().iter().any(is_gone) {
        mark = client.wait_for_change(mark).await.unwrap();
    }
}

/// Sets the cached status of a run that waits for an answer to `running`.
pub(crate) async fn hide_question(client: &Client, run: &str) {
    let run = RunId::new(run).unwrap();
    let mut row = client.store().head(&run).await.unwrap().unwrap().row.unwrap();
    row.summary.status = Status::Running;
    let expect = Expect::Version(row.version());
    assert_eq!(client.store().put_row(row, expect).await.unwrap(), Written::Done);
}

/// Cancels the advance task of a run.
pub(crate) async fn lose_task(client: &Client, run: &str) {
    let filter = TaskFilter { run: Some(RunId::new(run).unwrap()), limit: 1, ..TaskFilter::default() };
    let task = client.store().tasks(filter).await.unwrap().remove(0);
    let expect = Expect::Version(task.version);
    let now = client.store().now().await.unwrap();
    let cancelled: Task = task.cancelled(now).unwrap();
    assert_eq!(client.store().put_task(cancelled, expect).await.unwrap(), Written::Done);
}

/// Masks the variable parts of `text`: times, durations, nodes and digests.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() || ".:-_".contains(c) {
            word.push(c);
            continue;
        }
        out.push_str(&masked(&std::mem::take(&mut word)));
        out.push(c);
    }
    out.pop();
    out
}

fn masked(word: &str) -> String {
    let is_span = |word: &str| {
        let units: String = word.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        word.starts_with(|c: char| c.is_ascii_digit())
            && ["ms", "s", "ms", "m", "h", "hm", "d", "dh"].contains(&units.as_str())
    };
    let bare = word.trim_end_matches(['.', ':']);
    let name = match () {
        () if bare.len() == 24 && bare.starts_with("20") && bare.ends_with('Z') => "TIME",
        () if bare.len() == 12 && bare.matches(':').count() == 2 => "CLOCK",
        () if bare.len() == 18 && bare.starts_with("n-") => "NODE",
        () if is_span(bare) => "SPAN",
        () if bare.len() == 32 && bare.chars().all(|c| c.is_ascii_hexdigit()) => "DIGEST",
        () if bare.contains(':') && bare.ends_with(&std::process::id().to_string()) => "HOST",
        () if bare.len() == 13 && bare.chars().all(|c| c.is_ascii_digit()) => "MILLIS",
        () => return word.to_owned(),
    };
    format!("{name}{}", &word[bare.len()..])
}
