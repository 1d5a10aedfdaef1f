//! Rules for logs that cannot be read, and for runs that no recovery helps.

use goldseam_core::{Seq, Status};

use super::ward::{Ward, id};
use super::{Fixture, eventually};
use crate::config::Recovery;
use crate::healer::doctor::DoctorOptions;

/// K1
pub async fn k1_a_gap_parks_the_run_and_no_other(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    ward.between_steps("r").await;
    ward.between_steps("well").await;
    ward.damage().lose_event(&id("r"), Seq(2)).await;
    let checkup = ward.fix().await;
    let found = checkup.findings.iter().find(|finding| finding.subject.name() == "r").unwrap();
    assert_eq!(found.code.to_string(), "K1");
    assert_eq!(ward.row("r").await.summary.status, Status::Parked);
    assert_eq!(ward.rules("r").await, ["K1"], "the log goes on behind the gap");
    let again = ward.fix().await;
    assert_eq!(again.healed, 0, "it is parked once: {again:?}");
    assert!(!again.is_healthy(), "it stays a finding until a person has dealt with it");
    let engine = ward.two_steps_open().await;
    assert_eq!(ward.result::<u32>("well").await, 2);
    engine.shutdown().await;
}

/// K1 for text that means nothing.
pub async fn k1_an_event_that_cannot_be_read_parks_the_run(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    ward.between_steps("r").await;
    ward.damage().corrupt(&id("r"), Seq(3), "{\"half").await;
    assert_eq!(ward.look().await.findings[0].code.to_string(), "K1");
    ward.fix().await;
    assert_eq!(ward.row("r").await.summary.status, Status::Parked);
    let body = ward.store().read(&id("r"), Seq(2), 1).await.unwrap().remove(0).body;
    assert_eq!(body, "{\"half", "the evidence is kept");
    let why = ward.client.why(&id("r")).await.unwrap();
    assert!(why.links[0].what.contains("damaged"), "{why:?}");
}

/// K1 at the claim: nobody needs to sweep, and the node goes on.
pub async fn k1_is_found_by_whoever_claims_the_run(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    ward.between_steps("r").await;
    ward.between_steps("well").await;
    ward.damage().corrupt(&id("r"), Seq(3), "{}").await;
    let engine = ward.two_steps_open().await;
    assert_eq!(ward.result::<u32>("well").await, 2);
    let parked = || async { ward.row("r").await.summary.status == Status::Parked };
    eventually("the damaged run is parked", parked).await;
    engine.shutdown().await;
}

/// K1 of a run that is over: it is told, and the run stays as it ended.
pub async fn k1_a_finished_run_is_told_and_left_as_it_is(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    let engine = ward.two_steps_open().await;
    ward.start("two", "r", "true").await;
    ward.reaches("r", Status::Completed).await;
    engine.shutdown().await;
    ward.damage().corrupt(&id("r"), Seq(3), "{}").await;
    assert!(ward.look().await.findings.is_empty(), "only a deep look reads what is over");
    let deep = DoctorOptions { fix: true, deep: true, ..DoctorOptions::default() };
    let checkup = ward.client.doctor(deep).await.unwrap();
    assert_eq!((checkup.findings.len(), checkup.healed, checkup.is_healthy()), (1, 0, false));
    assert_eq!(ward.row("r").await.summary.status, Status::Completed);
}

async fn crashes(ward: &Ward<'_>, recovery: &Recovery) {
    for times in 1..=4 {
        let engine = ward.two_steps_on(ward.builder_like(recovery.clone(), None)).await;
        if times == 1 {
            ward.start("two", "r", "false").await;
        }
        ward.sees("b", times).await;
        engine.crash();
    }
}

/// P1
pub async fn p1_a_run_that_always_crashes_is_ended(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    crashes(&ward, &Recovery::default()).await;
    let engine = ward.two_steps().await;
    ward.reaches("r", Status::Failed).await;
    let trouble = ward.client.get(&id("r")).await.unwrap().trouble.unwrap();
    assert_eq!(trouble.message, "recovery failed after 3 attempts");
    assert_eq!(trouble.code.as_deref(), Some("P1"));
    assert_eq!(ward.rules("r").await, ["O2", "O2", "O2", "P1"]);
    assert_eq!(ward.witness.count("a"), 1);
    assert_eq!(ward.names("r").await.iter().filter(|name| *name == "run.failed").count(), 1);
    engine.shutdown().await;
}

/// P1 by policy keeps the run for a person.
pub async fn p1_parks_by_policy(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    let recovery = Recovery { park: true, ..Recovery::default() };
    crashes(&ward, &recovery).await;
    let engine = ward.two_steps_on(ward.builder_like(recovery, None)).await;
    ward.reaches("r", Status::Parked).await;
    assert_eq!(ward.look().await.findings[0].code.to_string(), "P1");
    engine.shutdown().await;
}

/// N1
pub async fn n1_a_run_that_nobody_has_waits_and_says_so(fixture: &Fixture) {
    let ward = Ward::on(fixture);
    ward.start("two", "r", "true").await;
    assert_eq!(ward.codes().await, ["N1"]);
    let checkup = ward.fix().await;
    assert_eq!((checkup.healed, checkup.is_healthy()), (0, false));
    assert_eq!(ward.client.get(&id("r")).await.unwrap().status, Status::Queued, "it is never discarded");
    let why = ward.client.why(&id("r")).await.unwrap();
    assert!(why.you_can.iter().any(|hint| hint.contains("workflow two")), "{why:?}");
    let engine = ward.two_steps_open().await;
    assert_eq!(ward.result::<u32>("r").await, 2);
    engine.shutdown().await;
}
