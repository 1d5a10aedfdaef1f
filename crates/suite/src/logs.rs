//! Rules for unreadable logs, and for runs that no recovery helps.

use std::time::Duration;

use goldseam_core::{Seq, Status};

use super::harness::{Harness, id};
use super::{Fixture, eventually};
use goldseam_engine::client::doctor::DoctorOptions;
use goldseam_engine::client::feed::Ending;
use goldseam_engine::heal::sweeper::Fate;
use goldseam_engine::ledger::config::Recovery;
use goldseam_engine::run::context::Context;

/// K1
pub async fn k1_a_gap_parks_the_run_and_no_other(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness.between_steps("well").await;
    harness.damage().lose_event(&id("r"), Seq(2)).await;
    let checkup = harness.fix().await;
    let found = checkup.findings.iter().find(|finding| finding.subject.name() == "r").unwrap();
    assert_eq!(found.code.to_string(), "K1");
    assert_eq!(harness.row("r").await.summary.status, Status::Parked);
    assert_eq!(harness.rules("r").await, ["K1"], "the log goes on behind the gap");
    let again = harness.fix().await;
    assert_eq!(again.healed, 0, "it is parked once: {again:?}");
    assert!(!again.is_healthy(), "it stays a finding until an operator acts");
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("well").await, 2);
    engine.shutdown().await;
}

/// K1 for text that cannot be decoded.
pub async fn k1_an_event_that_cannot_be_read_parks_the_run(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness.damage().corrupt(&id("r"), Seq(3), "{\"half").await;
    assert_eq!(harness.look().await.findings[0].code.to_string(), "K1");
    harness.fix().await;
    assert_eq!(harness.row("r").await.summary.status, Status::Parked);
    let body = harness.store().read(&id("r"), Seq(2), 1).await.unwrap().remove(0).body;
    assert_eq!(body, "{\"half", "the evidence is kept");
    let why = harness.client.why(&id("r")).await.unwrap();
    assert!(why.links[0].what.contains("damaged"), "{why:?}");
}

/// K1 at the claim: no sweep is needed, and the node continues.
pub async fn k1_is_found_by_the_claimant(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.between_steps("r").await;
    harness.between_steps("well").await;
    harness.damage().corrupt(&id("r"), Seq(3), "{}").await;
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("well").await, 2);
    let parked = || async { harness.row("r").await.summary.status == Status::Parked };
    eventually("the damaged run is parked", parked).await;
    engine.shutdown().await;
}

/// K1 of an ended run: it is reported, and the run is unchanged.
pub async fn k1_of_an_ended_run_is_only_reported(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let engine = harness.two_steps_open().await;
    harness.start("two", "r", "true").await;
    harness.reaches("r", Status::Completed).await;
    engine.shutdown().await;
    harness.damage().corrupt(&id("r"), Seq(3), "{}").await;
    assert!(harness.look().await.findings.is_empty(), "only a deep doctor reads logs of ended runs");
    let deep = DoctorOptions { fix: true, deep: true, ..DoctorOptions::default() };
    let checkup = harness.client.doctor(deep).await.unwrap();
    assert_eq!((checkup.findings.len(), checkup.healed, checkup.is_healthy()), (1, 0, false));
    assert_eq!(harness.row("r").await.summary.status, Status::Completed);
}

/// A policy with short waits for suspects.
fn policy(attempts_max: u32, park: bool) -> Recovery {
    Recovery { attempts_max, park, delay: Duration::from_millis(5), ..Recovery::default() }
}

/// Crashes once more than the policy allows recoveries.
async fn crashes(harness: &Harness<'_>, recovery: &Recovery) {
    for times in 1..=recovery.attempts_max + 1 {
        let engine = harness.two_steps_on(harness.builder_like(recovery.clone(), None)).await;
        if times == 1 {
            harness.start("two", "r", "false").await;
        }
        harness.sees("b", times).await;
        engine.crash();
    }
}

/// P1 parks unless the policy says otherwise.
pub async fn p1_parks_by_policy(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let recovery = policy(3, true);
    crashes(&harness, &recovery).await;
    let engine = harness.two_steps_on(harness.builder_like(recovery, None)).await;
    harness.reaches("r", Status::Parked).await;
    let trouble = harness.client.get(&id("r")).await.unwrap().trouble.unwrap();
    assert!(trouble.message.starts_with("recovery failed after 3 attempts: "), "{trouble:?}");
    assert!(trouble.message.ends_with("executing only this run, in step b"), "{trouble:?}");
    assert_eq!(trouble.code.as_deref(), Some("P1"));
    assert_eq!(harness.rules("r").await, ["O2", "O2", "O2", "P1"]);
    assert_eq!((harness.witness.count("a"), harness.witness.count("b")), (1, 4));
    // The log says that the run is parked before the row does in a bucket, and the doctor selects runs by their rows.
    eventually("the doctor reports P1", || async { harness.codes().await == ["P1"] }).await;
    let stopped: Vec<_> = harness.client.recoveries(None, 9).await.unwrap();
    let ended: Vec<_> = stopped.iter().map(|one| one.ended.map(Ending::as_str)).collect();
    assert_eq!(ended, [Some("parked"), None, None, None], "a stop differs from a recovery");
    engine.shutdown().await;
}

/// P1 by policy fails the run.
pub async fn p1_a_run_that_always_crashes_is_ended(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let recovery = policy(2, false);
    crashes(&harness, &recovery).await;
    let engine = harness.two_steps_on(harness.builder_like(recovery, None)).await;
    harness.reaches("r", Status::Failed).await;
    let trouble = harness.client.get(&id("r")).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.message, "recovery failed after 2 attempts");
    let why = harness.client.why(&id("r")).await.unwrap();
    assert!(why.links[0].what.starts_with("rule P1 stopped it"), "{why:?}");
    engine.shutdown().await;
}

/// P1 uses the policy of the node that had the run, in every process that heals.
pub async fn p1_client_uses_the_policy_of_the_node(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    crashes(&harness, &policy(1, false)).await;
    let is_found = || async { harness.codes().await.iter().any(|code| code == "P1") };
    eventually("the death is known", is_found).await;
    let checkup = harness.fix().await;
    let stopped = checkup.findings.iter().filter(|found| found.fate == Fate::Stopped).count();
    assert_eq!((stopped, checkup.healed), (1, 0), "{checkup:?}");
    let trouble = harness.client.get(&id("r")).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.message, "recovery failed after 1 attempts");
    assert_eq!(harness.witness.count("b"), 2, "it was recovered once");
}

/// O2 of a run that only waits costs no attempt, however often.
pub async fn o2_a_run_that_only_waits_is_never_charged(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    let work = |ctx: Context, (): ()| async move { ctx.signal::<u32>("go").await };
    let linger = Duration::from_secs(3_600);
    for times in 1..=4 {
        let engine = harness.builder_lingering(linger).workflow("waits", work).start().await.unwrap();
        if times == 1 {
            engine.start("waits", "r", &()).await.unwrap();
            harness.reaches("r", Status::Waiting).await;
        }
        engine.crash();
        let summary = harness.client.get(&id("r")).await.unwrap();
        assert_eq!(summary.attempt, 0);
    }
    let engine = harness.builder().workflow("waits", work).start().await.unwrap();
    harness.client.handle(id("r")).signal("go", &7).await.unwrap();
    assert_eq!(harness.result::<u32>("r").await, 7);
    engine.shutdown().await;
}

/// `why` and the doctor report quarantine, and never as healed.
pub async fn p1_waiting_suspect_is_reported(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    // A delay so long that the control outlasts the test.
    let recovery = Recovery { attempts_max: 1, delay: Duration::from_secs(60), ..Recovery::default() };
    let engine = harness.two_steps_on(harness.builder_like(recovery.clone(), None)).await;
    harness.start("two", "r", "false").await;
    harness.sees("b", 1).await;
    engine.crash();
    let engine = harness.two_steps_on(harness.builder_like(recovery, None)).await;
    let waits = || async {
        let why = harness.client.why(&id("r")).await.unwrap();
        why.links.iter().any(|link| link.what.contains("waits in quarantine") && link.until.is_some())
    };
    eventually("the suspect waits", waits).await;
    let checkup = harness.look().await;
    let held = checkup.findings.iter().find(|found| found.fate == Fate::Waits);
    assert!(held.is_some_and(|held| held.remedy.contains("quarantine")), "{checkup:?}");
    assert_eq!(checkup.healed, 0, "{checkup:?}");
    assert_eq!(harness.witness.count("b"), 1);
    engine.crash();
}

/// N1
pub async fn n1_run_without_a_node_waits_and_is_reported(fixture: &Fixture) {
    let harness = Harness::on(fixture);
    harness.start("two", "r", "true").await;
    assert_eq!(harness.codes().await, ["N1"]);
    let checkup = harness.fix().await;
    assert_eq!((checkup.healed, checkup.is_healthy()), (0, false));
    assert_eq!(harness.client.get(&id("r")).await.unwrap().status, Status::Queued, "it is never discarded");
    let why = harness.client.why(&id("r")).await.unwrap();
    assert!(why.you_can.iter().any(|hint| hint.contains("workflow two")), "{why:?}");
    let engine = harness.two_steps_open().await;
    assert_eq!(harness.result::<u32>("r").await, 2);
    engine.shutdown().await;
}
