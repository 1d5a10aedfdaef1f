//! Following a run: what a follower reports, when, and how often it reads.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "the time of a paused runtime is what is stepped here")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::Fixture;
use goldseam_core::recovery::Code;
use goldseam_core::{Limits, Millis, Payload, Recorded, Seq};
use goldseam_engine::client::By;
use goldseam_engine::client::follow::{Followed, Follower};
use goldseam_engine::{Client, Clock, OsEntropy, SystemClock};
use goldseam_store::FaultyStore;
use goldseam_store::faulty::{FaultPlan, StoreMethod};
use goldseam_suite::harness::{Harness, id};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// The time of a paused runtime, which passes while all tasks wait.
#[derive(Debug)]
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Millis {
        SystemClock.now()
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(1_000) + self.0.elapsed()
    }
}

struct Place {
    fixture: Fixture,
    store: Arc<FaultyStore>,
    client: Client,
}

impl Place {
    fn new() -> Self {
        let fixture = Fixture::memory_on(Arc::new(|| SystemClock.now()));
        let store = Arc::new(FaultyStore::new(Arc::clone(&fixture.store), FaultPlan::pass()));
        let clock = Arc::new(Paused(Instant::now()));
        let client = Client::with(store.clone(), clock, Arc::new(OsEntropy), Limits::default());
        Self { fixture, store, client }
    }

    fn harness(&self) -> Harness<'_> {
        Harness::on(&self.fixture)
    }

    fn count(&self, op: StoreMethod) -> usize {
        self.store.calls().iter().filter(|call| call.op == op).count()
    }

    /// A run with `notes` notes, and its events.
    async fn noted(&self, notes: usize) -> Vec<Recorded> {
        let harness = self.harness();
        harness.start("two", "r", "true").await;
        for _ in 0..notes {
            harness.client.annotate(&id("r"), By::default()).await.unwrap();
        }
        harness.client.history(&id("r")).await.unwrap()
    }
}

async fn events(follower: &mut Follower) -> Vec<u64> {
    match follower.next().await.unwrap() {
        Followed::Events(events) => events.iter().map(|recorded| recorded.seq.0).collect(),
        Followed::Stalled(found) => panic!("stalled: {found:?}"),
    }
}

/// How long the follower reports nothing, if that is less than `most`.
async fn silent(follower: &mut Follower, most: Duration) -> Option<(Duration, Code)> {
    let begun = Instant::now();
    match tokio::time::timeout(most, follower.next()).await.ok()?.unwrap() {
        Followed::Stalled(found) => Some((begun.elapsed(), found.diagnosis.rule)),
        Followed::Events(events) => panic!("events: {events:?}"),
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn stall_is_reported_once_and_again_after_progress() {
    let place = Place::new();
    place.noted(2).await;
    let mut follower = place.client.follower(id("r"), Seq(1));
    assert_eq!(events(&mut follower).await, [2, 3]);
    for end in 4..6 {
        let (after, rule) = silent(&mut follower, HOUR).await.unwrap();
        assert_eq!(rule, Code::N1);
        assert!((2_000..2_200).contains(&after.as_millis()), "{after:?}");
        assert!(follower.is_stalled());
        assert_eq!(silent(&mut follower, HOUR).await, None, "it is reported once");
        place.harness().client.annotate(&id("r"), By::default()).await.unwrap();
        assert_eq!(events(&mut follower).await, [end]);
        assert!(!follower.is_stalled());
    }
}

#[tokio::test(start_paused = true)]
async fn healthy_run_is_examined_less_and_less_often() {
    let place = Place::new();
    place.noted(0).await;
    place.harness().client.pause(&id("r"), By::default()).await.unwrap();
    let mut follower = place.client.follower(id("r"), Seq::ZERO);
    assert_eq!(events(&mut follower).await.len(), 2);
    let minutes = Duration::from_secs(600);
    let looks = |before: (usize, usize)| {
        // Each quick check reads the nodes and the head, each examination the head once more.
        let glances = place.count(StoreMethod::Nodes) - before.0;
        (glances, place.count(StoreMethod::Head) - before.1 - glances)
    };
    let before = (place.count(StoreMethod::Nodes), place.count(StoreMethod::Head));
    assert_eq!(silent(&mut follower, minutes).await, None);
    let (glances, examined) = looks(before);
    assert!((270..=300).contains(&glances), "every two seconds: {glances}");
    assert!((12..=16).contains(&examined), "after 2, 4, 8 seconds and so on, then every minute: {examined}");

    let before = (place.count(StoreMethod::Nodes), place.count(StoreMethod::Head));
    place.harness().lie("r", |row| row.owner = Some(goldseam_core::NodeId::new("ghost").unwrap())).await;
    assert_eq!(silent(&mut follower, minutes).await, None);
    let (glances, examined) = looks(before);
    assert_eq!(glances, examined, "a lost owner is always examined");
}

#[tokio::test(start_paused = true)]
async fn events_from_the_channel_are_not_read_again() {
    let place = Place::new();
    let all = place.noted(5).await;
    let page = |from: usize, to: usize| -> Arc<[Recorded]> { all[from..to].into() };
    let (tell, wake) = watch::channel(page(0, 2));
    let mut follower = place.client.follower(id("r"), Seq::ZERO).woken_by(wake);
    assert_eq!(events(&mut follower).await, [1, 2]);
    let handed = async |from: usize, to: usize, follower: &mut Follower| {
        let reads = place.count(StoreMethod::Read);
        let (events, ()) = tokio::join!(events(follower), async {
            tokio::task::yield_now().await;
            tell.send(page(from, to)).unwrap();
        });
        (events, place.count(StoreMethod::Read) - reads)
    };
    assert_eq!(handed(0, 3, &mut follower).await, (vec![3], 0), "only what is new");
    assert_eq!(handed(3, 4, &mut follower).await, (vec![4], 0), "what follows at once");
    assert_eq!(handed(5, 6, &mut follower).await, (vec![5, 6], 1), "what is missing is read");
}

#[tokio::test(start_paused = true)]
async fn follower_without_wakeups_still_reads() {
    let place = Place::new();
    place.noted(0).await;
    let (tell, wake) = watch::channel(Arc::<[Recorded]>::from([]));
    let mut follower = place.client.follower(id("r"), Seq(1)).woken_by(wake);
    let reads = place.count(StoreMethod::Read);
    assert!(silent(&mut follower, HOUR).await.is_some());
    assert!(place.count(StoreMethod::Read) - reads < 10, "it reads rarely");
    drop(tell);
    place.harness().client.annotate(&id("r"), By::default()).await.unwrap();
    assert_eq!(events(&mut follower).await, [2]);
    place.harness().client.annotate(&id("r"), By::default()).await.unwrap();
    assert_eq!(events(&mut follower).await, [3]);
}

#[tokio::test(start_paused = true)]
async fn follower_with_permits_reads_a_long_log_in_pieces() {
    let place = Place::new();
    place.noted(0).await;
    let large = Payload::of(&"x".repeat(10_000), &Limits::default()).unwrap();
    for _ in 0..40 {
        place.harness().client.signal(&id("r"), "large", large.clone(), None).await.unwrap();
    }
    let all = place.harness().client.history(&id("r")).await.unwrap().len() as u64;
    let mut follower = place.client.follower(id("r"), Seq::ZERO).in_turn(Arc::new(Semaphore::new(1)));
    let mut seen = Vec::new();
    let mut most = 0;
    let reads = place.count(StoreMethod::Read);
    while seen.last() != Some(&all) {
        let page = events(&mut follower).await;
        most = most.max(page.len());
        seen.extend(page);
    }
    assert_eq!(seen, (1..=all).collect::<Vec<_>>(), "each once and in order");
    assert!(most <= 3, "two such events are as much as is kept: {most}");
    assert!(place.count(StoreMethod::Read) - reads <= 25, "and little is read twice");
}

#[tokio::test(start_paused = true)]
async fn follower_reads_only_with_a_permit() {
    let place = Place::new();
    place.noted(2).await;
    let turns = Arc::new(Semaphore::new(1));
    let mut follower = place.client.follower(id("r"), Seq::ZERO).in_turn(Arc::clone(&turns));
    let turn = turns.acquire().await.unwrap();
    let reads = place.count(StoreMethod::Read);
    assert!(tokio::time::timeout(HOUR, follower.next()).await.is_err(), "another one reads");
    assert_eq!(place.count(StoreMethod::Read), reads);
    drop(turn);
    assert_eq!(events(&mut follower).await, [1, 2, 3]);
    assert_eq!(turns.available_permits(), 1, "the turn ends with the reading");
}
