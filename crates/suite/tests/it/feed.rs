//! The feed of recoveries: newest first, in pages, without unneeded reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use goldseam_conformance::Fixture;
use goldseam_core::event::RunRecovered;
use goldseam_core::{Event, Limits, Millis, Path, Payload, Seq};
use goldseam_engine::client::By;
use goldseam_engine::client::feed::{HealedSubject, Healing, Place};
use goldseam_engine::{Client, OsEntropy, SystemClock};
use goldseam_store::FaultyStore;
use goldseam_store::faulty::{FaultPlan, StoreMethod};
use goldseam_suite::harness::{Harness, id};

/// A store with a manual clock.
struct Manual {
    fixture: Fixture,
    now: Arc<AtomicI64>,
}

impl Manual {
    fn new() -> Self {
        let now = Arc::new(AtomicI64::new(0));
        let shown = Arc::clone(&now);
        let fixture = Fixture::memory_on(Arc::new(move || Millis(shown.load(Ordering::Relaxed))));
        Self { fixture, now }
    }

    /// Recovers the run at this time.
    async fn recovered(&self, run: &str, at: i64) {
        self.now.store(at, Ordering::Relaxed);
        let recovered = RunRecovered {
            rule: "O1".to_owned(),
            reason: "manual".to_owned(),
            attempt: 1,
            evidence: format!("{run} at {at}"),
            node: None,
            stale_ms: 0,
            lived_ms: None,
            previous_branch: None,
            new_branch: None,
            cutoff: None,
        };
        Harness::on(&self.fixture).forge(run, vec![Event::RunRecovered(recovered)]).await;
    }
}

fn runs_of(feed: &[Healing]) -> Vec<&str> {
    feed.iter().map(|healing| healing.recovered.evidence.as_str()).collect()
}

/// Four runs, recovered five times; two of them in the same moment.
async fn five() -> Manual {
    let place = Manual::new();
    let harness = Harness::on(&place.fixture);
    for run in ["a", "b", "c", "d"] {
        harness.start("two", run, "true").await;
    }
    for (run, at) in [("b", 10), ("d", 20), ("c", 20), ("b", 30), ("a", 40)] {
        place.recovered(run, at).await;
    }
    place
}

#[tokio::test]
async fn newest_first_and_older_than_since_omitted() {
    let place = five().await;
    let client = Harness::on(&place.fixture).client;
    let all = ["a at 40", "b at 30", "d at 20", "c at 20", "b at 10"];
    for limit in 0..=6 {
        let feed = client.recoveries(None, limit).await.unwrap();
        assert_eq!(runs_of(&feed), all[..limit.min(5)], "{limit}");
    }
    for (since, count) in [(0, 5), (10, 5), (11, 4), (20, 4), (21, 2), (30, 2), (40, 1), (41, 0)] {
        let feed = client.recoveries(Some(Millis(since)), 10).await.unwrap();
        assert_eq!(runs_of(&feed), all[..count], "{since}");
        let first = client.recoveries(Some(Millis(since)), 1).await.unwrap();
        assert_eq!(runs_of(&first), all[..count.min(1)], "{since}");
    }
    let newest = client.recoveries(None, 1).await.unwrap().remove(0);
    let workflow = goldseam_core::WorkflowName::new("two").unwrap();
    assert_eq!(newest.subject, HealedSubject::Run { run: id("a"), workflow, seq: Seq(2) });
    assert_eq!(newest.place(), Place::Run(Millis(40), id("a"), Seq(2)));
}

#[tokio::test]
async fn page_continues_after_the_previous_one() {
    let place = five().await;
    let client = Harness::on(&place.fixture).client;
    let all = ["a at 40", "b at 30", "d at 20", "c at 20", "b at 10"];
    for limit in 1..=5 {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = client.recoveries_after(None, after.as_ref(), limit).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= limit);
            after = Some(last.place());
            seen.extend(runs_of(&page).into_iter().map(str::to_owned));
        }
        assert_eq!(seen, all, "{limit}");
    }
}

#[tokio::test]
async fn reads_only_as_many_logs_as_requested() {
    let place = five().await;
    let reads = async |since: Option<Millis>, limit| {
        let store = Arc::new(FaultyStore::new(Arc::clone(&place.fixture.store), FaultPlan::pass()));
        let client =
            Client::with(store.clone(), Arc::new(SystemClock), Arc::new(OsEntropy), Limits::default());
        client.recoveries(since, limit).await.unwrap();
        store.calls().iter().filter(|call| call.op == StoreMethod::Read).count()
    };
    let all = reads(None, 10).await;
    let each = all / 4;
    assert_eq!((all % 4, reads(None, 1).await, reads(None, 2).await), (0, each, 2 * each));
    assert_eq!(reads(Some(Millis(30)), 10).await, 2 * each);
}

#[tokio::test]
async fn finds_more_runs_than_fit_a_page_of_the_store() {
    let place = Manual::new();
    let harness = Harness::on(&place.fixture);
    for number in 0..201 {
        let run = format!("r{number}");
        harness.start("two", &run, "true").await;
        place.recovered(&run, number).await;
    }
    let feed = harness.client.recoveries(None, 1_000).await.unwrap();
    let at: Vec<i64> = feed.iter().map(|healing| healing.at.0).collect();
    assert_eq!(at, (0..201).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn moved_at_is_the_first_own_event_of_the_run() {
    let place = Manual::new();
    let harness = Harness::on(&place.fixture);
    let moved = async |run: &str| {
        let feed = harness.client.recoveries(None, 10).await.unwrap();
        feed.into_iter()
            .filter(|healing| healing.run() == Some(&id(run)))
            .map(|healing| healing.moved_at)
            .collect::<Vec<_>>()
    };
    let progress = |message: &str| {
        let path = Path::new("half").unwrap();
        Event::ProgressEmitted { path, ord: 0, message: message.to_owned() }
    };
    let moves = [("steps", progress("half")), ("ends", Event::RunCompleted { output: Payload::null() })];
    for (run, event) in moves {
        harness.start("two", run, "true").await;
        place.recovered(run, 10).await;
        place.recovered(run, 15).await;
        harness.client.annotate(&id(run), By::default()).await.unwrap();
        assert_eq!(moved(run).await, [None, None], "a note moves nothing");
        place.now.store(20, Ordering::Relaxed);
        harness.forge(run, vec![event]).await;
        assert_eq!(moved(run).await, [Some(Millis(20)), Some(Millis(20))]);
    }
    place.recovered("steps", 30).await;
    assert_eq!(moved("steps").await, [None, Some(Millis(20)), Some(Millis(20))]);
}
