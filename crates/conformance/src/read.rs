//! Reading a log: complete, in order, in pages.

use goldseam_core::Seq;

use super::Fixture;
use super::make::{ALL, append, run};

async fn a_log_of(fixture: &Fixture, count: u64) {
    let bodies: Vec<String> = (1..=count).map(|n| n.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    for (n, chunk) in bodies.chunks(7).enumerate() {
        fixture.append(append("r", n as u64 * 7, chunk)).await;
    }
}

/// Pages of any size give every event once and in order.
pub async fn pages_are_complete(fixture: &Fixture) {
    a_log_of(fixture, 50).await;
    for size in [1, 3, 7, 10, 49, 50, 51, ALL] {
        let mut after = Seq::ZERO;
        let mut count = 0;
        loop {
            let page = fixture.store.read(&run("r"), after, size).await.unwrap();
            assert!(page.len() <= size as usize);
            let Some(last) = page.last() else { break };
            after = last.seq;
            for record in &page {
                count += 1;
                assert_eq!((record.seq, record.body.as_str()), (Seq(count), count.to_string().as_str()));
            }
        }
        assert_eq!(count, 50, "pages of {size}");
    }
}

/// A page is full unless the log ends with it, so a reader may stop at a short one.
pub async fn a_short_page_is_the_last_one(fixture: &Fixture) {
    a_log_of(fixture, 20).await;
    for (after, limit, expected) in
        [(0, 20, 20), (0, 19, 19), (5, 10, 10), (15, 10, 5), (19, 1, 1), (0, 0, 0)]
    {
        let page = fixture.store.read(&run("r"), Seq(after), limit).await.unwrap();
        assert_eq!(page.len(), expected, "after {after}, at most {limit}");
    }
}

/// An unknown run has no events and no head; this is not an error.
pub async fn an_unknown_run_is_empty(fixture: &Fixture) {
    assert_eq!(fixture.store.read(&run("unknown"), Seq::ZERO, ALL).await.unwrap(), []);
    assert_eq!(fixture.store.head(&run("unknown")).await.unwrap(), None);
}

/// There is nothing past the end, however far.
pub async fn past_the_end_is_empty(fixture: &Fixture) {
    a_log_of(fixture, 3).await;
    for after in [3, 4, i64::MAX as u64] {
        assert_eq!(fixture.store.read(&run("r"), Seq(after), ALL).await.unwrap(), [], "after {after}");
    }
}
