//! How an owner's doings reach the log: everything queued goes in one append, settled whatever the store does.

use std::sync::Arc;

use goldseam_core::codec::{chain, decode};
use goldseam_core::decide::{Decision, Refusal, View};
use goldseam_core::event::{BranchOpened, Event, Release};
use goldseam_core::planted::{self, Bug};
use goldseam_core::seal::{Sealed, changes_row, leaves_branch, place, row_after, seal};
use goldseam_core::state::Applied;
use goldseam_core::{Command, Fence, Owned, Recorded, RunId, Seq, Why, WriteId, decide};
use goldseam_store::{Append, StoreError, TaskChange};

use crate::cell::{Cell, Inner, Stop};
use crate::commit::{Old, Patience, hand_out, notice, plan};

/// Appends everything that the run has queued. On return it is durable, or the execution is over.
pub(crate) async fn append_queued(cell: Arc<Cell>) -> Result<(), Stop> {
    let write = cell.ledger.entropy.write_id();
    append_as(cell, write).await
}

/// The same for a write that somebody else gave its name.
pub(crate) async fn append_as(cell: Arc<Cell>, write: WriteId) -> Result<(), Stop> {
    let (mut command, count, extra, seen) = {
        let mut inner = cell.lock();
        let doings = std::mem::take(&mut inner.queue);
        let (count, seen) = (doings.len() as u64, inner.state.summary.as_of);
        (Command::Owned(inner.fence, doings), count, std::mem::take(&mut inner.extra), seen)
    };
    cell.ledger.secrets.keep_out(&cell.run, &mut command);
    let mut patience = Patience::new(&cell.ledger, "an append");
    loop {
        let Some(Ready { append, sealed, decision }) = prepare(&cell, &command, write, &extra)? else {
            cell.lock().advanced(count);
            return Ok(());
        };
        let sent = cell.ledger.clock.elapsed();
        match cell.ledger.store.append(append).await {
            Ok(_) => {
                cell.holds_at(sent);
                cell.hub().committed(decision.task, cell.now());
                return apply(&cell, sealed, count);
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })) => {
                patience.wait(&cell.ledger, error).await.map_err(|error| Stop::Store(error.to_string()))?;
            }
            Err(error) => return Err(Stop::Store(error.to_string())),
        }
        if read_on(&cell, write).await? {
            cell.lock().advanced(count);
            return Ok(());
        }
        if cell.lock().state.summary.as_of != seen {
            look_before_rest(&mut command);
        }
        if planted::is(Bug::BlindRetry)
            && let Command::Owned(fence, _) = &mut command
        {
            let summary = &cell.lock().state.summary;
            *fence = Fence { epoch: summary.epoch, branch: summary.branch };
        }
    }
}

/// What others wrote may be what the run waits for: its code looks at it before the run leaves memory.
fn look_before_rest(command: &mut Command) {
    if let Command::Owned(_, doings) = command {
        doings.retain(|doing| doing.what != Owned::Release(Release::Unload));
    }
}

struct Ready {
    append: Append,
    sealed: Sealed,
    decision: Decision,
}

fn prepare(
    cell: &Cell,
    command: &Command,
    write: WriteId,
    extra: &[TaskChange],
) -> Result<Option<Ready>, Stop> {
    let inner = cell.lock();
    let now = cell.now();
    let mut decision = decide(View::Full(&inner.state), command, now, &cell.ledger.limits).map_err(
        |refusal| match refusal {
            Refusal::HistoryTooLong(excess) => Stop::TooLong(excess),
            Refusal::InvalidForm { reason } => Stop::Form(reason),
            // A result came that must be undone, or the log says that the run is: the code is asked again, with it.
            refusal @ (Refusal::LeftToUndo | Refusal::BeingUndone) => Stop::Store(refusal.to_string()),
            _ => Stop::Fenced,
        },
    )?;
    if decision.events.is_empty() {
        return Ok(None);
    }
    let summary = &inner.state.summary;
    let sealed =
        seal(place(&inner.state, Some(inner.fence.epoch), write), std::mem::take(&mut decision.events));
    let row = match changes_row(summary, &sealed) && !leaves_branch(&sealed) {
        true => Some(row_after(summary, &sealed).map_err(|_| Stop::Fenced)?),
        false => None,
    };
    let mut tasks = extra.to_vec();
    hand_out(&mut tasks, &decision);
    let old = Old { task: Some(&cell.task), updated_at: now };
    plan(&mut tasks, row.as_ref().unwrap_or(summary), old, decision.task, now);
    let told = notice(summary, &sealed, cell.hub().node(), now);
    tasks.extend(told.map(|task| TaskChange::Create(Box::new(task))));
    let (run, after, bodies) = (cell.run.clone(), summary.as_of, sealed.bodies.clone());
    let append = Append { run, after, bodies, row: row.map(Box::new), tasks };
    Ok(Some(Ready { append, sealed, decision }))
}

fn apply(cell: &Cell, sealed: Sealed, count: u64) -> Result<(), Stop> {
    let mut inner = cell.lock();
    for (recorded, head) in sealed.records.iter().zip(&sealed.heads) {
        match inner.state.apply(recorded, *head) {
            Ok(Applied::Yes) => {}
            Ok(Applied::MustDerive) => return moved(&mut inner, recorded, count),
            Err(corrupt) => return Err(Stop::Store(corrupt.to_string())),
        }
    }
    inner.advanced(count);
    Ok(())
}

/// The run is on another branch now, by our own doing.
fn moved(inner: &mut Inner, recorded: &Recorded, count: u64) -> Result<(), Stop> {
    inner.moved = match &recorded.event {
        // Its claim comes right after it, in the same append.
        Event::BranchOpened(BranchOpened { why: Why::Continue, .. }) => Moved::Continued(recorded.seq.next()),
        _ => Moved::Left,
    };
    inner.advanced(count);
    Ok(())
}

/// Whether the run has moved to another branch by its owner's doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It has not.
    No,
    /// It began anew, and is still ours by the claim at this position.
    Continued(Seq),
    /// It left for another branch, and is anybody's.
    Left,
}

/// Takes what others appended into account. Says whether our own write was among it.
pub(crate) async fn read_on(cell: &Cell, write: WriteId) -> Result<bool, Stop> {
    let mut patience = Patience::new(&cell.ledger, "reading on");
    let mut ours = false;
    loop {
        let after = cell.lock().state.summary.as_of;
        let page = patience.insist(&cell.ledger, || read_page(cell, &cell.run, after)).await;
        let page = page.map_err(|error| Stop::Store(error.to_string()))?;
        if page.is_empty() {
            return Ok(ours);
        }
        let mut inner = cell.lock();
        for record in page {
            let recorded = decode(record.seq, &record.body).map_err(|e| Stop::Store(e.to_string()))?;
            ours |= recorded.write == write;
            match inner.state.apply(&recorded, chain(&record.body)) {
                Ok(Applied::Yes) => {}
                Ok(Applied::MustDerive) if ours => {
                    moved(&mut inner, &recorded, 0)?;
                    return Ok(true);
                }
                Ok(Applied::MustDerive) => return Err(Stop::Fenced),
                Err(corrupt) => return Err(Stop::Store(corrupt.to_string())),
            }
        }
        inner.advanced(0);
    }
}

async fn read_page(
    cell: &Cell,
    run: &RunId,
    after: Seq,
) -> Result<Vec<goldseam_store::Record>, crate::error::EngineError> {
    Ok(cell.ledger.store.read(run, after, 1_000).await?)
}
