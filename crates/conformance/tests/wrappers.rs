//! The wrappers pass the conformance suite without faults.

use std::sync::Arc;

use goldseam_conformance::{Capabilities, Fixture};
use goldseam_core::RunId;
use goldseam_store::faulty::FaultPlan;
use goldseam_store::{FaultyStore, ManualClock, MemoryStore, Store, StorePace, TracedStore, Written};

async fn fresh() -> Fixture {
    let clock = ManualClock::default();
    let memory = Arc::new(MemoryStore::new(clock.clock()));
    let traced = Arc::new(TracedStore::new(memory.clone()).measured_by(Arc::new(|| 0)));
    let capabilities = Capabilities { bounded_pages: false, ..Capabilities::default() };
    let store = Arc::new(FaultyStore::new(traced, FaultPlan::pass()));
    Fixture::new(store, clock).with(capabilities).damaged_by(memory)
}

goldseam_conformance::conformance!(fresh);

#[tokio::test]
async fn wrappers_pass_on_optional_interfaces() {
    let memory = Arc::new(MemoryStore::default().at_pace(StorePace::remote(std::time::Duration::ZERO)));
    let store = TracedStore::new(memory.clone());
    assert_eq!(store.pace(), memory.pace());
    assert!(store.feed().is_some());
    let run = RunId::new("theirs").unwrap();
    memory.put_foreign(&run, "{}");
    let foreign = store.foreign().unwrap();
    let theirs = foreign.states(None, 9).await.unwrap().items.remove(0);
    assert_eq!((&theirs.id, theirs.body.as_str()), (&run, "{}"));
    assert_eq!(foreign.swap(&run, &theirs.version, "[]").await.unwrap(), Written::Done);
    assert_eq!(foreign.states(None, 9).await.unwrap().items[0].body, "[]");
    assert_eq!(format!("{store:?}"), format!("TracedStore {{ inner: {memory:?}, .. }}"));
}
