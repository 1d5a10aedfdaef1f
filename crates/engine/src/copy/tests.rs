//! What only a store in memory can be made to do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam_core::{Limits, NodeId, Payload, RunId, Seq};
use goldseam_store::{MemoryStore, NodeRecord, NodeState, Store};

use super::{Copier, CopyOptions, Role, Stage, mark_of};
use crate::{Client, StartOptions};

async fn store_with(runs: &[&str]) -> (Arc<MemoryStore>, Client) {
    let store = Arc::new(MemoryStore::default());
    let client = Client::new(Arc::clone(&store) as Arc<dyn Store>);
    for run in runs {
        let input = Payload::parse("null", &Limits::default()).unwrap();
        client.start("flow", &RunId::new(run).unwrap(), input, StartOptions::default()).await.unwrap();
    }
    (store, client)
}

fn copier(from: &Client, to: &Client) -> Copier {
    Copier::new((from, "here"), (to, "there"), CopyOptions::default())
}

#[tokio::test]
async fn what_changes_at_the_destination_meanwhile_is_found_and_nothing_is_handed_over() {
    let (from, here) = store_with(&["a", "b"]).await;
    let (to, there) = store_with(&[]).await;
    let (victim, once) = (Arc::clone(&to), AtomicBool::new(true));
    let harm = move |progress: super::Progress| {
        if progress.stage == Stage::Tasks && once.swap(false, Ordering::SeqCst) {
            victim.corrupt(&RunId::new("a").unwrap(), Seq(1), "{}");
        }
    };
    let report = copier(&here, &there).watched_by(harm).copy().await.unwrap();
    assert!(!report.finished && !report.is_verified(), "{report:#?}");
    let found: Vec<_> = report.findings.iter().map(|found| (found.code, found.name.as_str())).collect();
    assert_eq!(found, [("GS0405", "a")]);
    let digests = report.digests.unwrap();
    assert_ne!(digests.from.to_string(), digests.to.to_string());
    let role = |mark: Option<super::Mark>| mark.unwrap().role;
    assert_eq!(role(mark_of(&*from).await.unwrap()), Role::CopyingTo);
    assert_eq!(role(mark_of(&*to).await.unwrap()), Role::FillingFrom);
}

#[tokio::test(start_paused = true)]
async fn who_lost_his_lock_for_longer_than_a_moment_is_gone() {
    let (from, here) = store_with(&["a"]).await;
    let (_, there) = store_with(&[]).await;
    let id = NodeId::new("n-1").unwrap();
    let (name, state) = ("host:1".to_owned(), NodeState::Up);
    let node = NodeRecord {
        id: id.clone(),
        name,
        started_at: goldseam_core::Millis(0),
        workflows: vec![],
        slots: 1,
        state,
    };
    from.beat(&node).await.unwrap();
    let refused = copier(&here, &there).copy().await.unwrap_err();
    assert_eq!(refused.to_string(), "here is in use by node n-1 (host:1)");
    from.silence(&id);
    assert_eq!(copier(&here, &there).copy().await.unwrap_err().code(), "GS0401", "it has just beaten");
    from.suspect(&id);
    assert!(copier(&here, &there).copy().await.unwrap().is_verified());
}

#[tokio::test]
async fn a_gap_too_wide_to_be_marked_stays_behind() {
    let (from, here) = store_with(&["a", "b"]).await;
    let (to, there) = store_with(&[]).await;
    let run = RunId::new("a").unwrap();
    let body = from.read(&run, Seq::ZERO, 1).await.unwrap().remove(0).body;
    let append = |after: u64, count: usize| goldseam_store::Append {
        run: run.clone(),
        after: Seq(after),
        bodies: vec![body.clone(); count],
        row: None,
        tasks: vec![],
    };
    from.append(append(1, 10_002)).await.unwrap();
    (2..=10_002).for_each(|seq| assert!(from.lose_event(&run, Seq(seq))));
    let report = copier(&here, &there).copy().await.unwrap();
    assert!(report.finished && !report.is_verified(), "{report:#?}");
    assert_eq!((report.runs.copied, report.runs.left_behind), (1, 1));
    assert_eq!(report.findings[0].code, "K1");
    assert_eq!(to.head(&run).await.unwrap(), None);
}
