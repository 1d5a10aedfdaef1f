use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use goldseam_core::recovery::{Bounds, Code, not_executed, poisoned};
use goldseam_core::task::NewTask;
use goldseam_core::{LockName, Millis, Payload, QueueName, RunId, TaskId};
use goldseam_store::MemoryStore;
use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn};
use metrics::{Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::*;
use crate::client::Client;
use crate::client::queue::Want;
use crate::heal::Healed;

/// A recorder that sums values by name and labels.
#[derive(Debug, Clone, Default)]
pub(super) struct SumRecorder(Arc<Mutex<BTreeMap<String, f64>>>);

/// One metric of the recorder.
struct Metric(SumRecorder, String);

impl SumRecorder {
    fn line(&self, key: &Key) -> Arc<Metric> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Metric(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    pub(super) fn get(&self, line: &str) -> Option<f64> {
        self.0.lock().unwrap().get(line).copied()
    }

    /// The metrics with this name, and their values.
    pub(super) fn all(&self, name: &str) -> Vec<(String, f64)> {
        let sums = self.0.lock().unwrap();
        let start = format!("{name}{{");
        sums.iter()
            .filter(|(line, _)| line.starts_with(&start))
            .map(|(line, sum)| (line.clone(), *sum))
            .collect()
    }
}

impl Metric {
    fn change(&self, change: impl FnOnce(&mut f64)) {
        change(self.0.0.lock().unwrap().entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.change(|sum| *sum += value as f64);
    }
    fn absolute(&self, value: u64) {
        self.change(|sum| *sum = value as f64);
    }
}

impl GaugeFn for Metric {
    fn increment(&self, value: f64) {
        self.change(|sum| *sum += value);
    }
    fn decrement(&self, value: f64) {
        self.change(|sum| *sum -= value);
    }
    fn set(&self, value: f64) {
        self.change(|sum| *sum = value);
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        self.change(|sum| *sum += value);
    }
}

impl Recorder for SumRecorder {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, help: SharedString) {
        self.0.lock().unwrap().insert(format!("{}: {help}", key.as_str()), 0.0);
    }
    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(key, unit, help);
    }
    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(key, unit, help);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.line(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.line(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.line(key))
    }
}

fn task(id: &str) -> NewTask {
    NewTask {
        id: TaskId::new(id).unwrap(),
        kind: "mail".to_owned(),
        queue: QueueName::new("post").unwrap(),
        lane: None,
        priority: 0,
        key: None,
        run_at: Millis(0),
        payload: Payload::null(),
        attempts_max: 1,
        silence_max: Some(Duration::from_secs(1)),
    }
}

#[tokio::test]
async fn counts_reclaims_freed_locks_and_backlog() {
    let (book, (store, clock)) = (SumRecorder::default(), MemoryStore::manual());
    let _guard = metrics::set_default_local_recorder(&book);
    let client = Client::new(Arc::new(store));
    let queue = client.queue();
    queue.submit(task("t")).await.unwrap();
    let want = Want { owner: "w".to_owned(), queue: QueueName::new("post").unwrap(), kind: None, limit: 1 };
    queue.claim(want).await.unwrap();
    client.locks().acquire(&LockName::new("l").unwrap(), "w", Duration::from_secs(2)).await.unwrap();
    clock.advance(Duration::from_secs(3));
    client.claims().tick(client.store().now().await.unwrap()).await.unwrap();
    queue.stats().await.unwrap();
    for (line, expected) in [
        ("goldseam_entries_reclaimed_total{}", 1.0),
        ("goldseam_locks_cleaned_total{}", 1.0),
        ("goldseam_recoveries_total{rule=L2,workflow=,reason=silent}", 1.0),
        ("goldseam_recoveries_total{rule=L1,workflow=,reason=expired}", 1.0),
        ("goldseam_recovery_stale_seconds{rule=L2}", 3.0),
        ("goldseam_recovery_stale_seconds{rule=L1}", 1.0),
        ("goldseam_findings{rule=L2}", 1.0),
        ("goldseam_queue_depth{queue=post}", 1.0),
        ("goldseam_queue_oldest_seconds{queue=post}", 3.0),
    ] {
        assert_eq!(book.get(line), Some(expected), "{line} in {book:?}");
    }
    queue.cancel(&TaskId::new("t").unwrap()).await.unwrap();
    queue.stats().await.unwrap();
    assert_eq!(book.get("goldseam_queue_depth{queue=post}"), Some(0.0), "an empty queue reports 0");
}

#[tokio::test]
async fn number_of_queue_labels_is_bounded() {
    let book = SumRecorder::default();
    let _guard = metrics::set_default_local_recorder(&book);
    let client = Client::new(Arc::new(MemoryStore::manual().0));
    for n in 0..10_000 {
        let id = TaskId::new(format!("t-{n}")).unwrap();
        let queue = QueueName::new(format!("q-{n}")).unwrap();
        client.queue().submit(NewTask { id, queue, ..task("t") }).await.unwrap();
    }
    client.queue().stats().await.unwrap();
    let depths = |book: &SumRecorder| -> Vec<(String, f64)> {
        let sums = book.0.lock().unwrap();
        sums.iter().filter(|(line, _)| line.starts_with(QUEUE_DEPTH)).map(|(l, n)| (l.clone(), *n)).collect()
    };
    let depths_before = depths(&book);
    assert_eq!(depths_before.len(), NAMES_MAX + 1);
    assert_eq!(depths_before.iter().map(|(_, due)| due).sum::<f64>(), 10_000.0, "no task is left out");
    let rest = (10_000 - NAMES_MAX) as f64;
    assert_eq!(book.get("goldseam_queue_depth{queue=other}"), Some(rest));
    for n in 0..10_000 {
        client.queue().cancel(&TaskId::new(format!("t-{n}")).unwrap()).await.unwrap();
    }
    client.queue().stats().await.unwrap();
    assert!(depths(&book).iter().all(|(_, due)| *due == 0.0), "empty queues report 0");
}

#[test]
fn number_of_workflow_labels_is_bounded() {
    let book = SumRecorder::default();
    let meter = Meter::default();
    metrics::with_local_recorder(&book, || {
        for n in 0..10_000 {
            meter.clone().attempts_exceeded(&format!("w-{n}"));
        }
    });
    assert_eq!(book.0.lock().unwrap().len(), NAMES_MAX + 1);
}

#[test]
fn every_metric_has_a_help_text() {
    let book = SumRecorder::default();
    metrics::with_local_recorder(&book, describe);
    let help = book.0.lock().unwrap();
    assert_eq!(help.len(), 21);
    assert!(help.keys().all(|line| line.starts_with("goldseam_") && line.len() > 40), "{help:?}");
}

#[tokio::test]
async fn healing_is_counted_by_rule_and_giving_up_separately() {
    let (book, (store, _)) = (SumRecorder::default(), MemoryStore::manual());
    let _guard = metrics::set_default_local_recorder(&book);
    let client = Client::new(Arc::new(store));
    let run = RunId::new("r").unwrap();
    client.start("w", &run, &Payload::null()).await.unwrap();
    let exceeded = "goldseam_recovery_attempts_exceeded_total{workflow=w}";
    for (rule, healed, stopped) in [(Code::O1, Some(1.0), Some(0.0)), (Code::P1, None, Some(1.0))] {
        let summary = client.get(&run).await.unwrap();
        let diagnosis = match rule {
            Code::P1 => poisoned(&summary, Bounds::default()),
            _ => not_executed(None, Millis(0)).unwrap(),
        };
        let done = client.healer().heal(&run, summary.as_of, &diagnosis).await.unwrap();
        assert!(matches!(done, Healed::Done { .. }), "{done:?}");
        let line = format!("goldseam_recoveries_total{{rule={rule},workflow=w,reason=manual}}");
        assert_eq!((book.get(&line), book.get(exceeded)), (healed, stopped), "{book:?}");
    }
}
