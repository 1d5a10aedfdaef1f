//! The feed of all appends; a store without a feed passes every case.

use std::collections::BTreeMap;
use std::sync::Arc;

use goldseam_core::Seq;
use goldseam_store::feed::{Feed, FeedEvent};

use super::Fixture;
use super::make::{append, run};

/// Most polls for events that have not reached the feed yet.
const LOOKS_MAX: u32 = 500_000;

/// Reads the feed until it has returned `count` events.
async fn all(feed: &dyn Feed, mut place: Option<String>, limit: u32, count: usize) -> Vec<FeedEvent> {
    let mut all: Vec<FeedEvent> = vec![];
    for _ in 0..LOOKS_MAX {
        let page = feed.events_after(place.as_deref(), limit).await.unwrap();
        assert!(page.len() <= limit as usize);
        place = page.last().map(|last| last.place.clone()).or(place);
        all.extend(page);
        if all.len() >= count {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(all.len(), count, "{all:?}");
    all
}

fn texts(event: &[FeedEvent]) -> Vec<(String, u64, String)> {
    event.iter().map(|event| (event.run.to_string(), event.record.seq.0, event.record.body.clone())).collect()
}

/// Every event appears once, with its text, and the events of a run in order; pages of any size give the same.
pub async fn the_feed_has_every_event_once(fixture: &Fixture) {
    let Some(feed) = fixture.store.feed() else { return };
    assert_eq!(feed.events_after(None, 10).await.unwrap(), vec![]);
    fixture.append(append("a", 0, &["a1", "a2"])).await;
    fixture.append(append("b", 0, &["b1"])).await;
    fixture.append(append("a", 2, &["a3"])).await;
    let whole = texts(&all(feed, None, 100, 4).await);
    for (name, bodies) in [("a", vec!["a1", "a2", "a3"]), ("b", vec!["b1"])] {
        let of: Vec<&str> =
            whole.iter().filter(|(run, ..)| run == name).map(|(.., body)| body.as_str()).collect();
        assert_eq!(of, bodies);
    }
    for limit in [1, 2, 3] {
        assert_eq!(texts(&all(feed, None, limit, 4).await), whole, "pages of {limit}");
    }
}

/// A reader that continues from a place misses nothing and gets nothing twice.
pub async fn the_feed_continues_from_any_place(fixture: &Fixture) {
    let Some(feed) = fixture.store.feed() else { return };
    fixture.append(append("a", 0, &["a1", "a2"])).await;
    fixture.append(append("b", 0, &["b1", "b2"])).await;
    let before = all(feed, None, 100, 4).await;
    fixture.append(append("a", 2, &["a3"])).await;
    let whole = all(feed, None, 100, 5).await;
    assert_eq!(whole[..before.len()], before[..], "an event appeared before a returned place");
    for (at, event) in whole.iter().enumerate() {
        let behind = all(feed, Some(event.place.clone()), 2, whole.len() - at - 1).await;
        assert_eq!(behind, whole[at + 1..], "after {at}");
    }
    let latest = feed.latest().await.unwrap();
    assert_eq!(feed.events_after(latest.as_deref(), 10).await.unwrap(), vec![]);
}

/// With many concurrent writers, a concurrent reader gets every event once and each run in order.
pub async fn a_reader_of_the_feed_misses_no_racing_append(fixture: &Fixture) {
    let Some(feed) = fixture.store.feed() else { return };
    let mut writers = tokio::task::JoinSet::new();
    for name in (0..8).map(|n| format!("r{n}")) {
        let store = Arc::clone(&fixture.store);
        writers.spawn(async move {
            for after in 0..10 {
                store.append(append(&name, after, &["x"])).await.unwrap();
            }
        });
    }
    let reader = async {
        let mut seen: BTreeMap<String, u64> = BTreeMap::new();
        let mut place: Option<String> = None;
        while seen.values().sum::<u64>() < 80 {
            for event in feed.events_after(place.as_deref(), 7).await.unwrap() {
                let end = seen.entry(event.run.to_string()).or_default();
                assert_eq!(event.record.seq, Seq(*end + 1), "of {}", event.run);
                *end += 1;
                place = Some(event.place);
            }
            tokio::task::yield_now().await;
        }
        seen
    };
    let (_, seen) = tokio::join!(writers.join_all(), reader);
    assert!(seen.len() == 8 && seen.values().all(|end| *end == 10), "{seen:?}");
}

/// Runs that grew since a mark are returned; others may be omitted.
pub async fn runs_that_grew_are_reported(fixture: &Fixture) {
    let Some(feed) = fixture.store.feed() else { return };
    fixture.append(append("old", 0, &["x"])).await;
    let first = feed.changed_runs(None).await.unwrap();
    assert_eq!(first.runs, vec![]);
    fixture.append(append("new", 0, &["x"])).await;
    fixture.append(append("old", 1, &["x"])).await;
    let second = feed.changed_runs(Some(&first.mark)).await.unwrap();
    assert!(second.runs.contains(&run("new")) && second.runs.contains(&run("old")), "{second:?}");
}

/// A place that the store did not return is refused.
pub async fn a_foreign_place_is_refused(fixture: &Fixture) {
    let Some(feed) = fixture.store.feed() else { return };
    for place in ["x", "-1", "1.x", "9999999999999999999999"] {
        assert!(feed.events_after(Some(place), 1).await.is_err(), "{place}");
    }
}

/// A place after the end is refused, so that a follower notices a restore; the end itself is accepted.
pub async fn a_place_after_the_end_is_refused(fixture: &Fixture) {
    let Some(feed) = fixture.store.feed() else { return };
    fixture.append(append("a", 0, &["a1"])).await;
    let end = all(feed, None, 10, 1).await.remove(0).place;
    assert_eq!(feed.events_after(Some(&end), 10).await.unwrap(), vec![]);
    let first = end.split('.').next().unwrap_or_default();
    let far = end.replacen(first, &i64::MAX.to_string(), 1);
    let error = feed.events_after(Some(&far), 10).await.unwrap_err();
    assert!(matches!(error, goldseam_store::StoreError::Refused { code: "GS0612", .. }), "{error:?}");
}
