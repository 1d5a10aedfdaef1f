//! Clients judge each node by the intervals that the node recorded, not by their own configuration.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::Fixture;
use goldseam_core::command::Claim;
use goldseam_core::{Command, Millis, NodeId};
use goldseam_engine::{Clock, SystemClock};
use goldseam_store::{NodeRecord, NodeState, Timing};
use goldseam_suite::harness::{Harness, id};

const NODE: &str = "n-0000000000000001";

/// A run that a node with these intervals owns. The node has just beaten.
async fn owned(harness: &Harness<'_>, timing: Option<Timing>) {
    let node = NodeId::new(NODE).unwrap();
    let record = NodeRecord {
        id: node.clone(),
        name: "host:1".to_owned(),
        started_at: Millis(0),
        workflows: vec!["two@1".to_owned()],
        slots: 1,
        timing,
        state: NodeState::Up,
    };
    harness.store().beat(&record).await.unwrap();
    harness.start("two", "r", "true").await;
    let now = harness.store().now().await.unwrap();
    harness.tamper("r", |task| task.claimed(NODE, now)).await;
    harness.client.carry_out(&id("r"), &Command::Claim(Claim::by(node))).await.unwrap();
}

/// The evidence of O2 by `why` and by the doctor, which must agree.
async fn lost(harness: &Harness<'_>) -> Option<String> {
    let why = harness.client.why(&id("r")).await.unwrap();
    let why = why.found.first().map(|found| (found.diagnosis.rule, found.diagnosis.evidence.clone()));
    let checkup = harness.look().await;
    let finding = checkup.findings.first().map(|finding| (finding.code, finding.evidence.clone()));
    assert_eq!(why, finding);
    why.map(|(rule, evidence)| {
        assert_eq!(rule.as_str(), "O2");
        evidence
    })
}

/// Checks that the node counts as lost after exactly this silence.
async fn is_lost_after(timing: Option<Timing>, silence: Duration, words: &str) {
    let fixture = Fixture::memory();
    let harness = Harness::on(&fixture);
    owned(&harness, timing).await;
    assert_eq!(lost(&harness).await, None);
    fixture.clock.advance(silence - Duration::from_millis(1));
    assert_eq!(lost(&harness).await, None, "{timing:?}");
    fixture.clock.advance(Duration::from_millis(1));
    let evidence = format!("node {NODE} (host:1) has not beaten for {words}");
    assert_eq!(lost(&harness).await, Some(evidence), "{timing:?}");
}

#[tokio::test]
async fn doctor_and_why_wait_for_nodes_that_beat_every_30_s() {
    let beat = Duration::from_secs(30);
    let silence_max = Duration::from_secs(150);
    is_lost_after(Some(Timing { beat, silence_max }), silence_max, "150 s").await;
}

#[tokio::test]
async fn doctor_and_why_report_nodes_with_200_ms_beats_early() {
    let beat = Duration::from_millis(200);
    let silence_max = Duration::from_millis(800);
    is_lost_after(Some(Timing { beat, silence_max }), silence_max, "800 ms").await;
}

#[tokio::test]
async fn nodes_of_older_releases_are_judged_by_the_default() {
    is_lost_after(None, Duration::from_secs(10), "10 s").await;
}

#[tokio::test]
async fn an_engine_records_its_intervals() {
    let fixture = Fixture::memory_on(Arc::new(|| SystemClock.now()));
    let harness = Harness::on(&fixture);
    let engine = harness.two_steps().await;
    let nodes = harness.store().nodes().await.unwrap();
    let beat = Duration::from_millis(100);
    let silence_max = Duration::from_secs(10);
    assert_eq!(nodes[0].record.timing, Some(Timing { beat, silence_max }));
    engine.shutdown().await;
}
