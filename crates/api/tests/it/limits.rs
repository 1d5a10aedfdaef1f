//! Limits are reported, and names that are reserved for the engine are not accessible.

use goldseam::unstable::core::LockName;
use goldseam::{Payload, RunId};
use goldseam_api::doc::change::{NewNote, NewSignal};
use goldseam_api::doc::event::HistoryQuery;
use goldseam_api::doc::heal::{HealingStatsQuery, NewCheckup, RecoveriesQuery};
use goldseam_api::doc::lock::{LocksQuery, NewExtension, NewHold, NewRelease};
use goldseam_api::doc::run::{ChangesQuery, NewRun, QuestionsQuery, RunsQuery, WaitQuery};
use goldseam_api::doc::task::{NewClaim, TasksQuery};
use goldseam_api::{ApiResult, Caller, CommandsApi, HealingApi, LocksApi, NodesApi, RunsApi, TasksApi};

use crate::support::Place;

fn limit_of<T: std::fmt::Debug>(answer: ApiResult<T>) -> (u16, Option<u64>) {
    let problem = answer.unwrap_err();
    (problem.status, problem.limit)
}

#[tokio::test]
async fn page_and_wait_limits_are_reported() {
    let place = Place::with(&[("waits", "wait")]).await;
    let api = &place.api;
    let run = RunId::new("waits").unwrap();
    let caller = Caller::default();
    for limit in [Some(0), Some(501)] {
        let runs = api.runs(RunsQuery { limit, ..RunsQuery::default() }).await;
        assert_eq!(limit_of(runs), (400, Some(500)));
        let history = api.history(&run, HistoryQuery { limit, ..HistoryQuery::default() }).await;
        assert_eq!(limit_of(history), (400, Some(500)));
        let tasks = api.tasks(TasksQuery { limit, ..TasksQuery::default() }).await;
        assert_eq!(limit_of(tasks), (400, Some(500)));
        let locks = api.locks(LocksQuery { limit, ..LocksQuery::default() }).await;
        assert_eq!(limit_of(locks), (400, Some(500)));
        let recoveries = api.recoveries(RecoveriesQuery { limit, ..RecoveriesQuery::default() }).await;
        assert_eq!(limit_of(recoveries), (400, Some(500)));
        let questions = api.questions(QuestionsQuery { limit, ..QuestionsQuery::default() }).await;
        assert_eq!(limit_of(questions), (400, Some(500)));
        let want = NewClaim { owner: "w".into(), queue: None, kind: None, limit, wait_ms: None };
        assert_eq!(limit_of(api.claim(&caller, want).await), (400, Some(500)));
    }
    let latest = Some(1_000_001);
    let stats = api.recovery_stats(HealingStatsQuery { latest, ..HealingStatsQuery::default() }).await;
    assert_eq!(limit_of(stats), (400, Some(1_000_000)));
    let wait_ms = Some(60_001);
    assert_eq!(limit_of(api.result(&run, WaitQuery { wait_ms }).await), (400, Some(60_000)));
    assert_eq!(limit_of(api.changed(ChangesQuery { after: None, wait_ms }).await), (400, Some(60_000)));
}

#[tokio::test]
async fn oversized_payloads_and_texts_are_refused_with_the_limit() {
    let place = Place::with(&[("waits", "wait")]).await;
    let api = &place.api;
    let run = RunId::new("waits").unwrap();
    let caller = Caller::default();
    let large: Payload = serde_json::from_str(&format!("\"{}\"", "x".repeat(256 * 1024))).unwrap();
    let signal = NewSignal { name: "paid".into(), payload: large, id: None };
    assert_eq!(limit_of(api.signal(&caller, &run, signal).await), (413, Some(256 * 1024)));
    let deep: Payload = serde_json::from_str(&format!("{}{}", "[".repeat(65), "]".repeat(65))).unwrap();
    let signal = NewSignal { name: "paid".into(), payload: deep, id: None };
    assert_eq!(limit_of(api.signal(&caller, &run, signal).await), (400, Some(64)));
    let reason = NewNote { by: None, reason: "x".repeat(4_097) };
    assert_eq!(limit_of(api.pause(&caller, &run, reason).await), (413, Some(4_096)));
}

#[tokio::test]
async fn reserved_names_are_hidden_and_refused() {
    let place = Place::empty().await;
    let api = &place.api;
    let caller = Caller::default();
    let locks = api.client().locks();
    let ttl = std::time::Duration::ZERO;
    for name in ["a", "goldseam.copy", "goldseam.key.1", "z"] {
        locks.acquire(&LockName::new(name).unwrap(), "h", ttl).await.unwrap();
    }
    let mut names = Vec::new();
    let mut after = None;
    loop {
        let page = api.locks(LocksQuery { after, limit: Some(1) }).await.unwrap();
        names.extend(page.items.into_iter().map(|lock| lock.name.to_string()));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(names, ["a", "z"]);
    let stale = api.stale_locks().await.unwrap().items;
    assert_eq!(stale.iter().map(|stale| stale.lock.name.as_str()).collect::<Vec<_>>(), ["a", "z"]);
    let checkup = api.doctor(&caller, NewCheckup::default(), &mut |_| ()).await.unwrap();
    let found: Vec<_> = checkup.findings.iter().map(|found| found.subject()).collect();
    assert_eq!(found, [("lock", "a"), ("lock", "z")]);

    let own = LockName::new("goldseam.key.1").unwrap();
    assert_eq!(api.lock(&own).await.unwrap_err().status, 403);
    let hold = NewHold { holder: "ana".into(), ttl_ms: None };
    assert_eq!(api.acquire_lock(&caller, &own, hold).await.unwrap_err().status, 403);
    let extension = NewExtension { holder: "h".into(), fence: 1, ttl_ms: None };
    assert_eq!(api.extend_lock(&caller, &own, extension).await.unwrap_err().status, 403);
    let release = NewRelease { holder: "h".into(), fence: 1 };
    assert_eq!(api.release_lock(&caller, &own, release).await.unwrap_err().status, 403);
    let new: NewRun = serde_json::from_str(r#"{"workflow":"order","id":"goldseam.x"}"#).unwrap();
    assert_eq!(api.start(&caller, new).await.unwrap_err().status, 403);
}

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_str::<NewRun>(r#"{"workflow":"order","wrokflow":1}"#).is_err());
    assert!(serde_json::from_str::<RunsQuery>(r#"{"stauts":"failed"}"#).is_err());
    assert!(serde_json::from_str::<NewNote>(r#"{"because":"x"}"#).is_err());
}

#[tokio::test]
async fn a_page_of_large_events_is_cut_and_the_next_page_continues() {
    let place = Place::with(&[("waits", "wait")]).await;
    let api = &place.api;
    let run = RunId::new("waits").unwrap();
    let large = Payload::of(&"x".repeat(250_000), &goldseam::Limits::default()).unwrap();
    for _ in 0..14 {
        let new = NewSignal { name: "other".into(), payload: large.clone(), id: None };
        api.signal(&Caller::default(), &run, new).await.unwrap();
    }
    let whole = api.client().history(&run).await.unwrap().len();
    for branch in [None, Some("b1".to_owned())] {
        let mut seen = Vec::new();
        let mut pages = 0;
        let mut after = None;
        loop {
            let query = HistoryQuery { branch: branch.clone(), after, limit: None };
            let page = api.history(&run, query).await.unwrap();
            pages += 1;
            seen.extend(page.items.iter().map(|event| event.seq.0));
            after = page.next.map(|next| next.0);
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, (1..=whole as u64).collect::<Vec<_>>(), "each event once");
        assert!(pages > 2, "{pages} pages");
    }
}
