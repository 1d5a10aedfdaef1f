use goldseam_store::{MemoryStore, Store};

use super::*;
use crate::claims::{ClaimRules, Memory};
use crate::clock::{Clock, SystemClock};
use crate::entropy::OsEntropy;
use crate::meter::Meter;

fn node() -> Arc<Node> {
    node_on(Arc::new(MemoryStore::new(Arc::new(|| goldseam_core::Millis(1)))), Arc::new(SystemClock))
}

/// A node that does nothing by itself.
pub(super) fn node_on(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Node> {
    let id = NodeId::new("n-1").unwrap();
    let time = Arc::new(StoreTime::new(Arc::clone(&clock)));
    let config = Config::default();
    let ledger = Ledger {
        store,
        clock,
        entropy: Arc::new(OsEntropy),
        limits: Arc::new(config.limits.clone()),
        asks: None,
        meter: Meter::default(),
        hub: Arc::new(Hub::of_client()),
        claims: Arc::new(Memory::new(ClaimRules::default())),
        secrets: Arc::default(),
    };
    Node::new(ledger, Arc::new(config), Registry::default(), (id, time), None)
}

#[tokio::test]
async fn work_that_is_over_is_let_go() {
    let node = node();
    for _ in 0..1_000 {
        let work = spawn(async {});
        while !work.is_finished() {
            tokio::task::yield_now().await;
        }
        node.adopt(work);
    }
    assert!(node.work.lock().unwrap().all.len() <= 64);
}

#[test]
fn a_run_that_is_poked_on_its_way_into_memory_is_not_forgotten() {
    let (node, run) = (node(), RunId::new("r").unwrap());
    node.taking().insert(run.clone(), false);
    node.poke(&run);
    assert_eq!(node.taking().get(&run), Some(&true));
}
