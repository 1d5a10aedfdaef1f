//! The same facts have the same rule and the same words, whichever path finds them.

use std::time::Duration;

use goldseam_core::command::{Claim, Lost};
use goldseam_core::recovery::{Code, Lived};
use goldseam_core::{Command, Event, Hint, Millis, NodeId, Status};
use goldseam_store::{NodeRecord, NodeState};

use super::Fixture;
use super::harness::{Harness, id};
use goldseam_engine::client::recover::RecoverOptions;
use goldseam_engine::heal::Found;
use goldseam_engine::heal::sweeper::SweepOptions;

/// A rule, its evidence and its remedy.
type Words = (Code, String, Hint);

fn words(found: &Found) -> Words {
    let diagnosis = &found.diagnosis;
    (diagnosis.rule, diagnosis.evidence.clone(), diagnosis.remedy.describe())
}

fn node(number: u32) -> NodeId {
    NodeId::new(format!("n-{number:016x}")).unwrap()
}

/// Publishes a node that ended without handing over its work.
async fn has_ended(harness: &Harness<'_>, number: u32) {
    let record = NodeRecord {
        id: node(number),
        name: "host:1".to_owned(),
        started_at: Millis(0),
        workflows: vec!["two@1".to_owned()],
        slots: 1,
        timing: None,
        state: NodeState::Gone,
    };
    harness.store().beat(&record).await.unwrap();
}

/// Appends a claim of the run by a node that takes over from the node before.
async fn claimed(harness: &Harness<'_>, run: &str, number: u32, lost: Option<u32>, alone: bool) {
    let lost = lost.map(|lost| {
        let evidence = "seen".to_owned();
        let lived = Lived::default();
        Lost { node: node(lost), proven: true, evidence, lived }
    });
    let claim = Claim { lost, alone, version: Some(1), ..Claim::by(node(number)) };
    harness.client.carry_out(&id(run), &Command::Claim(claim)).await.unwrap();
}

/// The words of every path that reports: `why`, the doctor, a sweep and a recovery.
async fn said(harness: &Harness<'_>, run: &str) -> [Words; 4] {
    let why = harness.client.why(&id(run)).await.unwrap();
    let checkup = harness.look().await;
    let finding = checkup.findings.into_iter().find(|finding| finding.subject.name() == run).unwrap();
    let options =
        SweepOptions { stale_after: Some(Duration::ZERO), dry_run: true, ..SweepOptions::default() };
    let swept = harness.client.sweeper(options).sweep().await.unwrap();
    let stalled = swept.stalled.into_iter().find(|stalled| stalled.found.run == id(run)).unwrap();
    let options = RecoverOptions { dry_run: true, ..RecoverOptions::default() };
    let recovery = harness.client.recover(&id(run), options).await.unwrap();
    [
        words(&why.found[0]),
        (finding.code, finding.evidence, finding.remedy),
        words(&stalled.found),
        words(&recovery.found.unwrap()),
    ]
}

/// The evidence that the log of a run names for a rule, last.
async fn recorded(harness: &Harness<'_>, run: &str, rule: Code) -> Option<String> {
    let history = harness.client.history(&id(run)).await.unwrap();
    let evidence = history.into_iter().filter_map(|recorded| match recorded.event {
        Event::RunRecovered(recovered) if recovered.rule == rule.as_str() => Some(recovered.evidence),
        _ => None,
    });
    evidence.last()
}

/// O1, O2 and P1 are diagnosed alike by `why`, the doctor, a sweep, a recovery, and the node that takes over.
pub async fn o1_o2_and_p1_have_the_same_words_on_every_path(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    for run in ["o1", "o2", "p1"] {
        harness.start("two", run, "true").await;
    }
    harness.damage().lose_task(&harness.task("o1").await.unwrap().id).await;
    let now = harness.store().now().await.unwrap();
    harness.tamper("o2", |task| task.claimed(node(9).as_str(), now)).await;
    claimed(&harness, "o2", 9, None, false).await;
    has_ended(&harness, 9).await;
    for attempt in 0..=3 {
        claimed(&harness, "p1", attempt + 1, (attempt > 0).then_some(attempt), attempt == 3).await;
    }
    let gone = format!("node {} (host:1) is gone", node(9));
    let mut evidence = Vec::new();
    for (run, rule) in [("o1", Code::O1), ("o2", Code::O2), ("p1", Code::P1)] {
        let said = said(&harness, run).await;
        assert!(said.iter().all(|words| *words == said[0]), "{said:?}");
        assert_eq!(said[0].0, rule, "{said:?}");
        evidence.push(said[0].1.clone());
    }
    assert_eq!(evidence[..2], ["its advance task is missing".to_owned(), gone]);
    let engine = harness.two_steps_open().await;
    harness.reaches("o2", Status::Completed).await;
    harness.reaches("p1", Status::Parked).await;
    harness.fix().await;
    harness.reaches("o1", Status::Completed).await;
    for ((run, rule), evidence) in
        [("o1", Code::O1), ("o2", Code::O2), ("p1", Code::P1)].into_iter().zip(evidence)
    {
        assert_eq!(recorded(&harness, run, rule).await, Some(evidence), "{run}");
    }
    engine.shutdown().await;
}
