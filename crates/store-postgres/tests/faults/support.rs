//! A server for faults, and writers that record every acknowledged text.

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::make::{ALL, append, run};
use goldseam_core::{RunId, Seq};
use goldseam_store::{Store, StoreError};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::{Cluster, ClusterOptions};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Timeout of every wait.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Concurrent writers; several share a run.
const WRITERS: usize = 8;
const RUNS: usize = 3;

/// A server that loses unwritten data when it is killed.
pub(crate) fn cluster() -> Cluster {
    Cluster::start(&ClusterOptions::default()).unwrap()
}

/// A server that keeps all acknowledged data.
pub(crate) fn durable() -> Cluster {
    Cluster::start(&ClusterOptions { durable: true, ..ClusterOptions::default() }).unwrap()
}

pub(crate) async fn open(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open_url(url).await.unwrap())
}

/// The code of a refusal, which must have a hint.
pub(crate) fn code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Refused { code, hint, .. } if !hint.is_empty() => code,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// The message of a busy error.
pub(crate) fn busy(error: StoreError) -> String {
    match error {
        StoreError::Busy { source, .. } => source.to_string(),
        other => panic!("expected busy, got {other:?}"),
    }
}

/// Running writers, each of which appends one text after another to a log.
pub(crate) struct Writers {
    tasks: JoinSet<Vec<Written>>,
    /// The number of acknowledged texts.
    count: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

/// An acknowledged text and its position.
#[derive(Debug)]
struct Written {
    run: RunId,
    text: String,
    at: Seq,
}

impl Writers {
    /// Writers through these stores, in turn.
    pub(crate) fn start(stores: &[Arc<PostgresStore>]) -> Self {
        let count = watch::Sender::new(0);
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for (number, store) in (0..WRITERS).zip(stores.iter().cycle()) {
            let store = Arc::clone(store);
            let count = count.clone();
            let stop = stop.subscribe();
            tasks.spawn(async move {
                let log = format!("run-{}", number % RUNS);
                let mut written = Vec::new();
                let mut end = Seq(0);
                while !*stop.borrow() {
                    let text = format!("{{\"writer\":{number},\"text\":{}}}", written.len());
                    let at = put(store.as_ref(), &log, &mut end, &text).await;
                    written.push(Written { run: run(&log), text, at });
                    count.send_modify(|count| *count += 1);
                }
                written
            });
        }
        Self { tasks, count, stop }
    }

    /// Waits until `more` further texts are acknowledged.
    pub(crate) async fn wait_for_more(&self, more: usize) {
        let mut count = self.count.subscribe();
        let until = *count.borrow() + more;
        let waiting = count.wait_for(|count| *count >= until);
        tokio::time::timeout(TIMEOUT, waiting).await.expect("the writers continue").unwrap();
    }

    /// Stops the writers, and checks that each log holds exactly the acknowledged texts at their positions.
    pub(crate) async fn check(self, store: &PostgresStore) {
        self.stop.send_replace(true);
        let written = tokio::time::timeout(TIMEOUT, self.tasks.join_all()).await.unwrap();
        let written: Vec<Written> = written.into_iter().flatten().collect();
        let mut found = 0;
        for number in 0..RUNS {
            let log = run(&format!("run-{number}"));
            let records = store.read(&log, Seq(0), ALL).await.unwrap();
            assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == Seq(seq)), "{log} has a gap");
            found += records.len();
            for one in written.iter().filter(|one| one.run == log) {
                let places = records.iter().filter(|record| record.body == one.text);
                assert_eq!(places.map(|record| record.seq).collect::<Vec<_>>(), [one.at], "{one:?}");
            }
        }
        assert_eq!(found, written.len(), "a log holds a text that was not acknowledged");
    }
}

/// Appends a text to a log, with as many attempts as needed. After a lost response it searches the log for the text;
/// until then every conflict may be its own write.
async fn put(store: &PostgresStore, log: &str, end: &mut Seq, text: &str) -> Seq {
    let mut doubt = None;
    loop {
        match store.append(append(log, end.0, &[text])).await {
            Ok(at) => {
                *end = at;
                return at;
            }
            Err(StoreError::Busy { .. }) => {}
            Err(StoreError::Unknown { .. }) => {
                let from = *doubt.get_or_insert(*end);
                if let Some(at) = find(store, log, from, text).await {
                    return at;
                }
            }
            Err(StoreError::Conflict { end: other }) => {
                if let Some(from) = doubt
                    && let Some(at) = find(store, log, from, text).await
                {
                    return at;
                }
                *end = other;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn find(store: &PostgresStore, log: &str, from: Seq, text: &str) -> Option<Seq> {
    loop {
        match store.read(&run(log), from, ALL).await {
            Ok(records) => {
                return records.into_iter().find(|record| record.body == text).map(|record| record.seq);
            }
            Err(error) => drop(busy(error)),
        }
    }
}
