//! Every call is a span with its operation and outcome.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use goldseam_core::{RunId, Seq};
use goldseam_store::faulty::{CallFault, FaultPlan};
use goldseam_store::{Append, FaultyStore, MemoryStore, Store, TracedStore};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects the fields of every span, and the levels of events.
#[derive(Clone, Default)]
struct Seen {
    spans: Arc<Mutex<Vec<Fields>>>,
    levels: Arc<Mutex<Vec<Level>>>,
    events: Arc<Mutex<Vec<Fields>>>,
}

#[derive(Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Seen {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut spans = self.spans.lock().unwrap();
        let mut fields = Fields::default();
        span.record(&mut fields);
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let place = usize::try_from(span.into_u64()).unwrap() - 1;
        values.record(&mut self.spans.lock().unwrap()[place]);
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.events.lock().unwrap().push(fields);
        self.levels.lock().unwrap().push(*event.metadata().level());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn spans_carry_operation_and_outcome() {
    let seen = Seen::default();
    let _guard = tracing::subscriber::set_default(seen.clone());
    let plan = FaultPlan::pass().at(3, CallFault::LoseReply);
    let faulty = Arc::new(FaultyStore::new(Arc::new(MemoryStore::default()), plan));
    let ticks = AtomicU64::new(0);
    let store = TracedStore::new(faulty).measured_by(Arc::new(move || ticks.fetch_add(7, Ordering::SeqCst)));

    let run = RunId::new("r").unwrap();
    let append = Append { run, after: Seq(0), bodies: vec!["{}".to_owned()], row: None, tasks: vec![] };
    for _ in 0..3 {
        drop(store.append(append.clone()).await);
    }
    drop(store.now().await);

    let spans = seen.spans.lock().unwrap().clone();
    let said = |name: &str| -> Vec<String> {
        spans.iter().map(|span| span.0.get(name).cloned().unwrap_or_default()).collect()
    };
    assert_eq!(said("op"), ["append", "append", "append", "now"]);
    assert_eq!(said("run"), ["r", "r", "r", ""]);
    assert_eq!(said("outcome"), ["ok", "conflict", "unknown", "ok"]);
    assert_eq!(said("micros"), ["7", "7", "7", "7"]);
    let levels = seen.levels.lock().unwrap().clone();
    assert_eq!(levels, [Level::DEBUG, Level::DEBUG, Level::WARN, Level::DEBUG]);
    let events = seen.events.lock().unwrap().clone();
    let causes: Vec<_> = events.iter().filter_map(|event| event.0.get("cause").cloned()).collect();
    assert_eq!(causes, ["injected: the reply was lost"]);
}
