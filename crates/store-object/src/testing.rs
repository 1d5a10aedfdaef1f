//! Stores for tests of other crates, and damage to them. Feature `testing`.
//!
//! Invariant: damage bypasses the store, which itself cannot damage anything.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails its test")]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use async_trait::async_trait;
use goldseam_conformance::damage::{Garble, Target};
use goldseam_conformance::{Capabilities, Damage, Fixture};
use goldseam_core::{RunId, Seq, TaskId};
use goldseam_store::{ClockFn, ManualClock};
use object_store::memory::InMemory;

use crate::BucketStore;
use crate::batch::LogBatch;
use crate::bucket::{BucketPrefix, StoredObject};
use crate::clock::BucketClock;
use crate::inner::BucketState;
use crate::keys::{self, Part};
use crate::request_counter::RequestCounter;
use crate::url::{self, BucketOptions, RequestCost};

/// What object storage offers: rows follow their events, and only beats show that a process is alive.
pub const CAPABILITIES: Capabilities =
    Capabilities { atomic_rows: false, manual_clock: true, pulse: false, bounded_pages: true };

/// A store in memory, with a manual clock: the same code and the same conditions, without a network.
pub async fn fixture() -> Fixture {
    let clock = ManualClock::default();
    in_memory(clock.clock(), clock).with(CAPABILITIES)
}

/// A store in memory, with this clock.
pub async fn fixture_on(clock: ClockFn) -> Fixture {
    let capabilities = Capabilities { manual_clock: false, ..CAPABILITIES };
    in_memory(clock, ManualClock::default()).with(capabilities)
}

fn in_memory(clock: ClockFn, moved: ManualClock) -> Fixture {
    around(memory_store(clock, RequestCost::Free), moved)
}

/// A store in memory, with this clock, whose requests cost money.
pub fn paid_store(clock: ClockFn) -> BucketStore {
    memory_store(clock, RequestCost::Paid)
}

fn memory_store(clock: ClockFn, requests: RequestCost) -> BucketStore {
    let bucket = BucketPrefix::new(Arc::new(InMemory::new()), "test", Arc::new(RequestCounter::default()));
    BucketStore::on(bucket, Arc::new(BucketClock::new(Some(clock))), requests)
}

/// A store under a new prefix on the shared SeaweedFS, with a manual clock.
pub async fn fixture_on_seaweedfs() -> Fixture {
    let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
    on_server(&bucket.url(&fresh_prefix())).await
}

/// A store in a new bucket on the shared moto, with a manual clock.
pub async fn fixture_on_moto() -> Fixture {
    let bucket = goldseam_testbed::moto::fresh(&fresh_prefix()).unwrap();
    on_server(&bucket.url("")).await
}

/// A store at this URL, with a manual clock.
pub async fn on_server(url: &str) -> Fixture {
    let clock = ManualClock::default();
    let options = url::parse(url).unwrap();
    let options = BucketOptions { clock: Some(clock.clock()), requests: RequestCost::Free, ..options };
    around(BucketStore::open(options).await.unwrap(), clock).with(CAPABILITIES)
}

/// A store under a new prefix on the shared SeaweedFS, with the server's clock.
pub async fn fixture_on_servers_clock() -> Fixture {
    let bucket = goldseam_testbed::seaweedfs::shared().unwrap();
    let options = url::parse(&bucket.url(&fresh_prefix())).unwrap();
    let options = BucketOptions { requests: RequestCost::Free, ..options };
    let capabilities = Capabilities { manual_clock: false, ..CAPABILITIES };
    around(BucketStore::open(options).await.unwrap(), ManualClock::default()).with(capabilities)
}

/// Returns a new prefix. The server is removed after the tests, with everything in it.
pub fn fresh_prefix() -> String {
    format!("t-{:016x}", RandomState::new().build_hasher().finish())
}

fn around(store: BucketStore, moved: ManualClock) -> Fixture {
    let saboteur = BucketSaboteur { bucket: store.inner().bucket.clone(), store: Arc::clone(store.inner()) };
    Fixture::new(Arc::new(store), moved).damaged_by(Arc::new(saboteur))
}

/// Changes objects past the store, and makes the store forget them: tests of healing are about stored objects, and a
/// process that starts remembers none.
#[derive(Debug)]
pub struct BucketSaboteur {
    bucket: BucketPrefix,
    store: Arc<BucketState>,
}

impl BucketSaboteur {
    async fn get(&self, key: &str) -> Option<StoredObject> {
        self.bucket.get(key).await.unwrap()
    }

    /// The batch of a log that holds this event.
    async fn batch_with(&self, run: &RunId, seq: Seq) -> (String, LogBatch) {
        for entry in self.bucket.list(&keys::log(run), None, usize::MAX).await.unwrap() {
            let found = self.get(&entry.key).await.unwrap();
            let batch = LogBatch::decode(&entry.key, &found.body).unwrap();
            if batch.records.iter().any(|record| record.seq == seq) {
                return (entry.key, batch);
            }
        }
        panic!("{run} has no event {seq}");
    }

    async fn delete_all(&self, folder: &str, wanted: impl Fn(&str) -> bool) {
        for entry in self.bucket.list(folder, None, usize::MAX).await.unwrap() {
            if wanted(&entry.key) {
                self.bucket.delete(&entry.key).await.unwrap();
            }
        }
        self.store.forget_all();
    }
}

#[async_trait]
impl Damage for BucketSaboteur {
    async fn lose_row(&self, run: &RunId) {
        self.bucket.delete(&keys::state(run)).await.unwrap();
        self.store.forget_all();
    }

    async fn lose_task(&self, task: &TaskId) {
        self.bucket.delete(&keys::task(task)).await.unwrap();
        self.store.forget_all();
    }

    async fn lose_event(&self, run: &RunId, seq: Seq) {
        let (key, mut batch) = self.batch_with(run, seq).await;
        batch.records.retain(|record| record.seq != seq);
        self.bucket.put(&key, batch.encode()).await.unwrap();
        self.store.forget_all();
    }

    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str) {
        let (key, mut batch) = self.batch_with(run, seq).await;
        for record in batch.records.iter_mut().filter(|record| record.seq == seq) {
            body.clone_into(&mut record.body);
        }
        self.bucket.put(&key, batch.encode()).await.unwrap();
        self.store.forget_all();
    }

    async fn garble(&self, what: Target<'_>, how: Garble) {
        let key = match what {
            Target::Row(run) => keys::state(run),
            Target::Task(task) => keys::task(task),
            Target::Lock(lock) => keys::lock(lock),
            Target::Node(node) => keys::node(node),
        };
        let found = self.get(&key).await.unwrap_or_else(|| panic!("{what:?} does not exist"));
        let text = String::from_utf8(found.body.to_vec()).unwrap();
        let body = match (how, what) {
            (Garble::Torn, _) => text.as_bytes()[..text.len() / 2].to_vec(),
            (Garble::Later, Target::Row(_)) => {
                text.replace("\"status\":\"", "\"status\":\"later_").into_bytes()
            }
            (Garble::Later, Target::Node(_) | Target::Task(_)) => {
                text.replace("\"state\":\"", "\"state\":\"later_").into_bytes()
            }
            (Garble::Later, Target::Lock(_)) => b"garbage".to_vec(),
            (Garble::Bytes, _) => b"M\xfcller".to_vec(),
            (Garble::Type, _) => b"17".to_vec(),
        };
        assert_ne!(body, text.as_bytes(), "{what:?} did not change");
        self.bucket.put(&key, body.into()).await.unwrap();
        self.store.forget_all();
    }

    async fn put_foreign(&self, id: &RunId, body: &str) {
        self.bucket.put(&keys::state(id), body.to_owned().into()).await.unwrap();
    }

    /// Also removes the markers, which are hints like rows.
    async fn lose_hints(&self) {
        self.delete_all(keys::WORKFLOWS, |key| matches!(keys::run_part(key), Some((_, Part::State)))).await;
        for folder in [keys::ACTIVE, keys::RUNS, keys::RECOVERED] {
            self.delete_all(folder, |_| true).await;
        }
        for entry in self.bucket.list(keys::TASKS, None, usize::MAX).await.unwrap() {
            let found = self.get(&entry.key).await.unwrap();
            let task = crate::records::decode::<goldseam_core::task::Task>(&entry.key, &found.body);
            if task.is_ok_and(|task| task.is_advance()) {
                self.bucket.delete(&entry.key).await.unwrap();
            }
        }
        self.store.forget_all();
    }
}
