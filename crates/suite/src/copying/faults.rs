//! Every call of a copy fails once, in every way; the result is the same as without faults.

use std::future::Future;
use std::sync::Arc;

use goldseam_core::task::{Audit, Task};
use goldseam_core::{Limits, Millis};
use goldseam_store::faulty::{CallFault, FaultPlan, StoreMethod};
use goldseam_store::{FaultyStore, Store};

use super::contents::{Contents, contents, fill};
use super::{Copier, Harness, copied};
use crate::Fixture;
use goldseam_admin::copy::{CopyOptions, CopyReport, mark_of, reopen};
use goldseam_engine::{Client, EngineError, OsEntropy, SystemClock};

/// The kinds of fault.
const FAULTS: [CallFault; 4] =
    [CallFault::FailBefore, CallFault::LoseReply, CallFault::CrashBefore, CallFault::CrashAfter];

/// Which of the two connections is faulty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bad {
    /// That to the source.
    From,
    /// That to the destination.
    To,
}

fn client(store: Arc<dyn Store>) -> Client {
    Client::with(store, Arc::new(SystemClock), Arc::new(OsEntropy), Limits::default())
}

/// One copy over bad connections; none if its process died on the way.
async fn try_once(
    (from, to): (Arc<dyn Store>, Arc<dyn Store>),
    (bad, plan): (Bad, FaultPlan),
) -> (Option<Result<CopyReport, EngineError>>, Arc<FaultyStore>) {
    let link =
        Arc::new(FaultyStore::new(if bad == Bad::From { Arc::clone(&from) } else { Arc::clone(&to) }, plan));
    let shaky: Arc<dyn Store> = Arc::clone(&link) as Arc<dyn Store>;
    let (from, to) = match bad {
        Bad::From => (client(shaky), client(to)),
        Bad::To => (client(from), client(shaky)),
    };
    let copier = Copier::new((&from, "here"), (&to, "there"), CopyOptions::default());
    let done = tokio::select! {
        biased;
        () = link.crashed() => None,
        done = copier.copy() => Some(done),
    };
    (done, link)
}

/// A copy that dies just before it hands over.
pub(super) async fn cut_off(here: &Harness<'_>, there: &Harness<'_>) {
    let stores = (Arc::clone(here.store()), Arc::clone(there.store()));
    let memory = Fixture::memory_on(super::clock(here.fixture).await);
    let (done, link) =
        try_once((Arc::clone(here.store()), Arc::clone(&memory.store)), (Bad::From, FaultPlan::pass())).await;
    assert!(done.is_some_and(|done| done.is_ok_and(|report| report.is_verified())));
    reopen(&**here.store()).await.unwrap();
    // The last write to the source says that it was moved.
    let last = link.calls().iter().rposition(|called| called.op == StoreMethod::PutLock).unwrap() as u64 + 1;
    let (done, link) =
        try_once(stores, (Bad::From, FaultPlan::pass().at(last, CallFault::CrashBefore))).await;
    assert!(done.is_none() && link.is_crashed());
}

/// The contents after a copy, without times.
async fn left(store: &dyn Store) -> Contents {
    let mut left = contents(store).await;
    for task in &mut left.tasks {
        let taken = |entry: &Audit| entry.what.starts_with("taken back");
        if task.audit.iter().any(taken) {
            let audit = task.audit.drain(..).map(|entry| Audit { at: Millis(0), ..entry }).collect();
            *task = Task { changed_at: Millis(0), run_at: Millis(0), audit, ..task.clone() };
        }
    }
    left
}

/// Copies a store repeatedly into fresh ones; the call number `first` fails first, then every `step`-th. Returns the
/// number of cases.
pub async fn every_call<F, Fut>(from: &Fixture, fresh: F, (bad, first, step): (Bad, u64, u64)) -> u64
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    let here = Harness::on(from);
    fill(&here).await;
    let wanted = {
        let to = fresh().await;
        copied(&here, &Harness::on(&to)).await;
        left(&*to.store).await
    };
    let mut cases = 0;
    for fault in FAULTS {
        for number in (first..).step_by(usize::try_from(step).unwrap()) {
            reopen(&*from.store).await.unwrap();
            let to = fresh().await;
            let there = Harness::on(&to);
            let stores = (Arc::clone(here.store()), Arc::clone(there.store()));
            let (done, link) = try_once(stores, (bad, FaultPlan::pass().at(number, fault))).await;
            let what = format!("{bad:?}, call {number}, {fault:?}");
            match done {
                Some(Ok(report)) => assert!(report.is_verified(), "{what}: {report:#?}"),
                Some(Err(error)) => panic!("{what}: {error}"),
                None => drop(copied(&here, &there).await),
            }
            assert!(left(&*to.store).await == wanted, "{what}: another end");
            assert!(mark_of(&*to.store).await.unwrap().unwrap().role.is_open(), "{what}");
            if link.count() < number {
                break;
            }
            cases += 1;
        }
    }
    cases
}
