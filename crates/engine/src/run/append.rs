//! Appends of an owner: everything that the run has queued goes in one append.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::codec::{chain, decode};
use goldseam_core::decide::{Refusal, View};
use goldseam_core::event::{BranchOpened, Event, Release};
use goldseam_core::plan::{PlanBasis, plan_tasks};
use goldseam_core::seal::{Sealed, changes_row, leaves_branch, place, row_after, seal};
use goldseam_core::state::Applied;
use goldseam_core::{Command, Owned, Recorded, Seq, Why, WriteId, decide};
use goldseam_store::{Append, Record, TaskChange};

use crate::ledger::announce::Announcement;
use crate::ledger::error::EngineError;
use crate::ledger::retry::RetryWindow;
use crate::ledger::{Next, Prepared, Source, Tried};
use crate::run::live_run::{Inner, LiveRun, Stop};

/// Events read at a time.
const PAGE: u32 = 1_000;

/// Appends everything that the run has queued. On return it is durable, or the execution is over.
pub(crate) async fn append_queued(live: Arc<LiveRun>) -> Result<(), Stop> {
    let write = live.ledger.entropy.write_id();
    append_as(live, write).await.map(|_| ())
}

/// Like [`append_queued`], under a write id that the caller chose. Returns the new events.
pub(crate) async fn append_as(live: Arc<LiveRun>, write: WriteId) -> Result<Vec<Recorded>, Stop> {
    let mut source = OwnerWrite::of_queue(&live, write);
    let mut window = RetryWindow::new(&live.ledger, "an append");
    live.ledger.write(&mut source, &mut window).await
}

/// The queue of a live run on its way into the log.
struct OwnerWrite<'a> {
    live: &'a LiveRun,
    command: Command,
    write: WriteId,
    extra: Vec<TaskChange>,
    /// How many actions of the queue become durable with it.
    count: u64,
    /// The end of the log when the queue was taken.
    seen: Seq,
}

impl<'a> OwnerWrite<'a> {
    fn of_queue(live: &'a LiveRun, write: WriteId) -> Self {
        let mut inner = live.lock();
        let queue = std::mem::take(&mut inner.queue);
        let extra = std::mem::take(&mut inner.extra);
        let count = queue.len() as u64;
        let seen = inner.state.summary.as_of;
        let mut command = Command::Owned(inner.fence, queue);
        drop(inner);
        live.ledger.secrets.keep_out(&live.run, &mut command);
        Self { live, command, write, extra, count, seen }
    }

    /// Reads what others appended. Returns the events of this write if it is in the log. Counts it if the reply to it
    /// was lost.
    async fn catch_up(&mut self, tried: Tried) -> Result<Option<Vec<Recorded>>, Stop> {
        let mut own = Vec::new();
        if read_keeping(self.live, self.write, &mut own).await? {
            // Without a lost reply, another process wrote it for the same worker, and counted it.
            if tried.doubt.is_some() {
                self.live.work.committed(&own);
            }
            self.live.lock().advanced(self.count);
            return Ok(Some(own));
        }
        let end = self.live.lock().state.summary.as_of;
        if let Command::Owned(_, actions) = &mut self.command
            && end != self.seen
        {
            // Others may have written what the run waits for: its code looks at it before the run leaves memory.
            actions.retain(|action| action.what != Owned::Release(Release::Unload));
        }
        Ok(None)
    }

    fn decide(&self) -> Result<Next<Vec<Recorded>>, Stop> {
        let live = self.live;
        let inner = live.lock();
        let now = live.now();
        let mut decision =
            decide(View::Full(&inner.state), &self.command, now, &live.ledger.limits).map_err(stop)?;
        let summary = &inner.state.summary;
        let events = std::mem::take(&mut decision.events);
        if events.is_empty() {
            drop(inner);
            live.lock().advanced(self.count);
            return Ok(Next::Done(Vec::new()));
        }
        let mut sealed = seal(place(&inner.state, Some(inner.fence.epoch), self.write), events);
        let row = if changes_row(summary, &sealed) && !leaves_branch(&sealed) {
            Some(row_after(summary, &sealed).map_err(|_| Stop::Fenced)?)
        } else {
            None
        };
        let node = live.ledger.process.node();
        let basis = PlanBasis { task: Some(&live.task), updated_at: now, node, now };
        let planned = plan_tasks(&decision, &sealed, row.as_ref().unwrap_or(summary), basis);
        let mut tasks = self.extra.clone();
        tasks.extend(planned.tasks);
        let append = Append {
            run: live.run.clone(),
            after: summary.as_of,
            bodies: std::mem::take(&mut sealed.bodies),
            row: row.map(Box::new),
            tasks,
        };
        let about = Announcement::of(&sealed, summary);
        let work = Arc::clone(&live.work);
        let prepared = Prepared { sealed, decision, task: planned.advance, about, work };
        Ok(Next::Append(Box::new(append), Box::new(prepared)))
    }
}

impl Source for OwnerWrite<'_> {
    const DOING: &'static str = "an append";
    const CONFLICTS_MAX: u32 = u32::MAX;
    type Done = Vec<Recorded>;
    type Error = Stop;

    async fn prepare(
        &mut self,
        _window: &mut RetryWindow,
        tried: Tried,
    ) -> Result<Next<Vec<Recorded>>, Stop> {
        if tried.appends > 0
            && let Some(own) = self.catch_up(tried).await?
        {
            return Ok(Next::Done(own));
        }
        self.decide()
    }

    fn landed(&mut self, prepared: Prepared, _end: Seq, sent: Duration) -> Result<Vec<Recorded>, Stop> {
        self.live.holds_at(sent);
        apply(self.live, &prepared.sealed, self.count)?;
        Ok(prepared.sealed.records)
    }
}

/// Why an execution ends whose command is refused.
fn stop(refusal: Refusal) -> Stop {
    match refusal {
        Refusal::HistoryTooLong(excess) => Stop::TooLong(excess),
        Refusal::InvalidForm { reason } => Stop::Form(reason),
        // A result came that must be undone, or the log says that the run is: the code is asked again, with it.
        refusal @ (Refusal::LeftToUndo | Refusal::BeingUndone) => Stop::Store(refusal.to_string()),
        _ => Stop::Fenced,
    }
}

fn apply(live: &LiveRun, sealed: &Sealed, count: u64) -> Result<(), Stop> {
    let mut inner = live.lock();
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

/// Notes that the run is on another branch now, moved there by its owner.
fn moved(inner: &mut Inner, recorded: &Recorded, count: u64) -> Result<(), Stop> {
    inner.moved = match &recorded.event {
        // Its claim comes right after it, in the same append.
        Event::BranchOpened(BranchOpened { why: Why::Continue, .. }) => Moved::Continued(recorded.seq.next()),
        _ => Moved::Left,
    };
    inner.advanced(count);
    Ok(())
}

/// Whether the owner has moved the run to another branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// It has not.
    No,
    /// It continued as new, and is still owned by the claim at this position.
    Continued(Seq),
    /// It left for another branch, and has no owner.
    Left,
}

/// Applies what others appended. Returns whether `write` was among it.
pub(crate) async fn read_on(live: &LiveRun, write: WriteId) -> Result<bool, Stop> {
    read_keeping(live, write, &mut Vec::new()).await
}

/// Like [`read_on`], and keeps the events of `write`.
async fn read_keeping(live: &LiveRun, write: WriteId, own: &mut Vec<Recorded>) -> Result<bool, Stop> {
    let mut window = RetryWindow::new(&live.ledger, "reading on");
    let mut ours = false;
    loop {
        let after = live.lock().state.summary.as_of;
        let page = window.retry(&live.ledger, || read_page(live, after)).await;
        let page = page.map_err(|error| Stop::Store(error.to_string()))?;
        if page.is_empty() {
            return Ok(ours);
        }
        let mut inner = live.lock();
        for record in page {
            let recorded = decode(record.seq, &record.body).map_err(|e| Stop::Store(e.to_string()))?;
            if recorded.write == write {
                ours = true;
                own.push(recorded.clone());
            }
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

async fn read_page(live: &LiveRun, after: Seq) -> Result<Vec<Record>, EngineError> {
    Ok(live.ledger.store.read(&live.run, after, PAGE).await?)
}
