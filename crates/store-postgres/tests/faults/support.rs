//! A server to break, and writers who keep account of what they were told.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{RunId, Seq};
use goldseam_store::conformance::make::{ALL, append, run};
use goldseam_store::{Store, StoreError};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::{Cluster, Options};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Longest that a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Writers that work at once; several share a run.
const WRITERS: usize = 8;
const RUNS: usize = 3;

/// A server that forgets what it has not written when it is killed.
pub(crate) fn cluster() -> Cluster {
    Cluster::start(&Options::default()).unwrap()
}

/// A server that keeps what it has acknowledged, whatever happens to it.
pub(crate) fn durable() -> Cluster {
    Cluster::start(&Options { durable: true, ..Options::default() }).unwrap()
}

pub(crate) async fn open(url: &str) -> Arc<PostgresStore> {
    Arc::new(PostgresStore::open_url(url).await.unwrap())
}

/// The code of a refusal, which must come with a hint.
pub(crate) fn code(error: &StoreError) -> &'static str {
    match error {
        StoreError::Refused { code, hint, .. } if !hint.is_empty() => code,
        other => panic!("refused was expected, not {other:?}"),
    }
}

/// The words of an error that says: nothing was done, try again.
pub(crate) fn busy(error: StoreError) -> String {
    match error {
        StoreError::Busy { source, .. } => source.to_string(),
        other => panic!("busy was expected, not {other:?}"),
    }
}

/// Writers at work, each putting one text after another into a log.
pub(crate) struct Writers {
    tasks: JoinSet<Vec<Written>>,
    /// How many texts were acknowledged.
    count: watch::Sender<usize>,
    stop: watch::Sender<bool>,
}

/// What a writer was told: its text is there, at this position.
#[derive(Debug)]
struct Written {
    run: RunId,
    text: String,
    at: Seq,
}

impl Writers {
    /// Writers through these stores, in turn.
    pub(crate) fn start(stores: &[Arc<PostgresStore>]) -> Self {
        let (count, stop) = (watch::Sender::new(0), watch::Sender::new(false));
        let mut tasks = JoinSet::new();
        for (number, store) in (0..WRITERS).zip(stores.iter().cycle()) {
            let (store, count, stop) = (Arc::clone(store), count.clone(), stop.subscribe());
            tasks.spawn(async move {
                let (log, mut told, mut end) = (format!("run-{}", number % RUNS), Vec::new(), Seq(0));
                while !*stop.borrow() {
                    let text = format!("{{\"writer\":{number},\"text\":{}}}", told.len());
                    let at = put(store.as_ref(), &log, &mut end, &text).await;
                    told.push(Written { run: run(&log), text, at });
                    count.send_modify(|count| *count += 1);
                }
                told
            });
        }
        Self { tasks, count, stop }
    }

    /// Waits until so many more texts were acknowledged.
    pub(crate) async fn go_on(&self, more: usize) {
        let mut count = self.count.subscribe();
        let until = *count.borrow() + more;
        let waiting = count.wait_for(|count| *count >= until);
        tokio::time::timeout(PATIENCE, waiting).await.expect("the writers do not go on").unwrap();
    }

    /// Stops, and finds every text in its log exactly once, where its writer was told, and nothing else.
    pub(crate) async fn check(self, store: &PostgresStore) {
        self.stop.send_replace(true);
        let told = tokio::time::timeout(PATIENCE, self.tasks.join_all()).await.unwrap();
        let told: Vec<Written> = told.into_iter().flatten().collect();
        let mut found = 0;
        for number in 0..RUNS {
            let log = run(&format!("run-{number}"));
            let records = store.read(&log, Seq(0), ALL).await.unwrap();
            assert!(records.iter().zip(1..).all(|(record, seq)| record.seq == Seq(seq)), "{log} has a gap");
            found += records.len();
            for one in told.iter().filter(|one| one.run == log) {
                let places = records.iter().filter(|record| record.body == one.text);
                assert_eq!(places.map(|record| record.seq).collect::<Vec<_>>(), [one.at], "{one:?}");
            }
        }
        assert_eq!(found, told.len(), "something is there that nobody was told of");
    }
}

/// Puts a text at the end of a log, however often that takes. A reply that was lost is settled by looking for
/// the text; while it is in doubt, so is every conflict.
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
