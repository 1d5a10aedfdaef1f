//! Appends of remote workers: checked by the pure core, under the fence of the claim, applied once.
//!
//! The id of an append becomes the write-id of its events, with a few bits for its content, so every server can find
//! it in the log. A repeat is answered from the log, even after the claim has ended; a different append with the same
//! id is refused.

use std::sync::Arc;

use goldseam_core::decide::{Refusal, View};
use goldseam_core::{Command, Doing, Event, Owned, Recorded, Seq, decide};
use tokio::sync::oneshot;

use super::pages::{Page, Room, after, check_after};
use super::token::{AppendName, Held};
use super::validate::{self, HandoutDefaults, Reader, RequestFlaw};
use super::wire::{Append, Appended, Outcome};
use super::{Holder, RemoteRefusal, RemoteWorkers, Served};
use crate::ledger::commit::{Committed, Ledger};
use crate::ledger::error::EngineError;
use crate::ledger::error::refused;
use crate::ledger::spawn::spawn_begun;
use crate::node::{Handoff, Node, OfferedRun};
use crate::run::append::{Moved, append_as, read_on};
use crate::run::compensation::cancel_child;
use crate::run::context::child;
use crate::run::live_run::Stop;

/// Maximum length of the id of an append.
pub const APPEND_ID_BYTES_MAX: usize = 128;

/// One append and its claim.
struct Job {
    holder: Holder,
    held: Held,
    name: AppendName,
    append: Append,
}

impl Job {
    /// Finds this append in the log after `from`; refused if another one with its id is there.
    async fn landed(&self, ledger: &Ledger, from: Seq) -> Result<Option<Committed>, EngineError> {
        let landed = ledger.landed(&self.held.run, from, |write| self.name.has_id_of(write)).await?;
        let other = |landed: &Committed| {
            landed.records.iter().any(|recorded| !self.name.has_content_of(recorded.write))
        };
        match landed {
            Some(landed) if other(&landed) => {
                Err(RemoteRefusal::IdReused { id: self.append.id.clone(), run: self.held.run.clone() }.into())
            }
            landed => Ok(landed),
        }
    }
}

/// A run that a node serves to its worker.
#[derive(Clone, Copy)]
struct Serving<'a> {
    node: &'a Node,
    handoff: &'a Handoff,
    offer: &'a OfferedRun,
}

/// The result of an append.
enum Done {
    /// It is in the log.
    Landed {
        /// An earlier request brought it there.
        repeated: bool,
        /// Its events, unless they must be read.
        events: Option<Vec<Recorded>>,
    },
    /// The worker must replay.
    Again(String),
    /// It is in the log, and the claim has ended since.
    Passed,
}

impl RemoteWorkers {
    /// Appends what a worker did: all of it or nothing, and only once, however often it is sent.
    pub async fn append(&self, append: Append) -> Result<Appended, EngineError> {
        self.append_for(&Holder::default(), append).await
    }

    /// Like [`RemoteWorkers::append`], with a credential: the one of the claim, or an operator's.
    pub async fn append_for(&self, holder: &Holder, append: Append) -> Result<Appended, EngineError> {
        let held = self.open(holder, &append.token)?;
        if append.id.is_empty() || append.id.len() > APPEND_ID_BYTES_MAX {
            let flaw = format!("the id of an append must have 1 to {APPEND_ID_BYTES_MAX} bytes");
            return Err(RemoteRefusal::Malformed(flaw).into());
        }
        let name = held.write(&append.id, &append.doings);
        let job = Job { holder: holder.clone(), held, name, append };
        let here = self.seen(&job.held.worker).ok();
        let offer = here.as_ref().and_then(|served| served.handoff.find(&job.held.run, job.held.fence));
        let (Some(Served { node, handoff }), Some(offer)) = (here, offer) else {
            return self.answer_from_log(&job).await;
        };
        // Spawned, so that it finishes even if the worker disconnects: an append includes its consequences.
        let (sender, receiver) = oneshot::channel();
        let workers = self.clone();
        let run = job.held.run.clone();
        let work = Arc::clone(&node);
        let begun = spawn_begun(async move {
            let _ = sender.send(workers.append_to(&work, &handoff, &offer, job).await);
        });
        if let Some(rest) = begun {
            node.adopt(rest);
        }
        receiver.await.unwrap_or_else(|_| Err(refused(&run, Refusal::Fenced)))
    }

    async fn append_to(
        &self,
        node: &Node,
        handoff: &Handoff,
        offer: &Arc<OfferedRun>,
        job: Job,
    ) -> Result<Appended, EngineError> {
        let turn = offer.turn.lock().await;
        let current = handoff.find(&job.held.run, job.held.fence);
        if !current.is_some_and(|current| Arc::ptr_eq(&current, offer)) {
            drop(turn);
            return self.answer_from_log(&job).await;
        }
        offer.take();
        let done = write(offer, &job).await;
        let over = match &done {
            Ok(Done::Passed) => true,
            Ok(_) => !offer.is_current(),
            Err(error) => is_fenced(error),
        };
        if over {
            return self.after_claim(Serving { node, handoff, offer }, &job, done).await;
        }
        let (outcome, repeated, why, own) = match done? {
            Done::Landed { repeated, events } => (Outcome::Held, repeated, None, events),
            Done::Again(why) => (Outcome::Again, false, Some(why), None),
            Done::Passed => return Err(refused(&job.held.run, Refusal::Fenced)),
        };
        // Most workers know everything up to their own append.
        let known = job.append.after;
        let page = match own.filter(|own| own.first().is_some_and(|first| first.seq == known.next())) {
            Some(own) => Page::of(own, known, known, &mut Room::new()),
            None => {
                let lineage = {
                    let inner = offer.live.lock();
                    inner.state.branches.lineage(inner.fence.branch)
                };
                let sees = |recorded: &Recorded| lineage.sees(recorded.branch, recorded.seq);
                after(&self.ledger, &job.held.run, known, &sees, &mut Room::new()).await?
            }
        };
        let answer = self.answer(outcome, page, node.live_runs().is_leaving()).await?;
        Ok(Appended { repeated, why, ..answer })
    }

    /// Answers an append after the end of the claim, whether this append ended it or not.
    async fn after_claim(
        &self,
        at: Serving<'_>,
        job: &Job,
        done: Result<Done, EngineError>,
    ) -> Result<Appended, EngineError> {
        let Serving { node, handoff, offer } = at;
        if matches!(done, Ok(Done::Landed { .. })) {
            handoff.gave_up(job.held.run.clone(), job.held.fence);
        }
        let continued = matches!(offer.live.lock().moved, Moved::Continued(_));
        let next = match continued {
            true => node.continue_run(handoff, offer).await,
            false => None,
        };
        if next.is_none() {
            node.clear(handoff, offer).await;
        }
        let repeated = match done? {
            Done::Landed { repeated, .. } => repeated,
            Done::Passed => true,
            Done::Again(_) => return Err(refused(&job.held.run, Refusal::Fenced)),
        };
        Ok(Appended { repeated, ..self.last_answer(job, next, node.live_runs().is_leaving()).await? })
    }

    /// Answers from the log after the claim has ended or if another server has it: only the log shows whether the
    /// append succeeded.
    async fn answer_from_log(&self, job: &Job) -> Result<Appended, EngineError> {
        let Job { held, append, .. } = job;
        let from = append.after.max(held.fence.epoch);
        let Some(landed) = job.landed(&self.ledger, from).await? else {
            return Err(refused(&held.run, Refusal::Fenced));
        };
        let continued =
            landed.records.iter().any(|recorded| matches!(recorded.event, Event::BranchOpened(_)));
        let here = self.seen(&held.worker).ok().filter(|_| continued);
        let next = here.as_ref().and_then(|served| served.handoff.of_run(&held.run));
        let leaving = here.is_some_and(|served| served.node.live_runs().is_leaving());
        Ok(Appended { repeated: true, ..self.last_answer(job, next, leaving).await? })
    }

    async fn last_answer(
        &self,
        job: &Job,
        next: Option<Arc<OfferedRun>>,
        leaving: bool,
    ) -> Result<Appended, EngineError> {
        let Held { run, fence, .. } = &job.held;
        let sees =
            |recorded: &Recorded| recorded.branch == fence.branch || job.name.has_id_of(recorded.write);
        let page =
            after(&self.ledger, run, job.append.after.max(fence.epoch), &sees, &mut Room::new()).await?;
        let (outcome, next) = match next {
            Some(next) => (
                Outcome::Continued,
                Some(Box::new(
                    self.execution(&job.held.worker, &job.held.key, &next, &mut Room::new()).await?,
                )),
            ),
            None => (Outcome::Over, None),
        };
        Ok(Appended { next, ..self.answer(outcome, page, leaving).await? })
    }

    async fn answer(&self, outcome: Outcome, page: Page, leaving: bool) -> Result<Appended, EngineError> {
        let Page { events, end, more, .. } = page;
        let now = self.ledger.clock.now();
        Ok(Appended { outcome, events, end, more, repeated: false, why: None, next: None, leaving, now })
    }
}

/// Appends the doings and carries out their consequences.
async fn write(offer: &OfferedRun, job: &Job) -> Result<Done, EngineError> {
    let live = &offer.live;
    let run = &job.held.run;
    let known = live.lock().state.summary.as_of;
    check_after(&live.ledger, run, known, job.append.after).await?;
    if job.append.after < known
        && let Some(landed) = job.landed(&live.ledger, job.append.after).await?
    {
        let write = landed.records.first().map_or(job.name.write, |first| first.write);
        if landed.end > known && read_on(live, write).await.is_err() {
            return Ok(Done::Passed);
        }
        return Ok(Done::Landed { repeated: true, events: None });
    }
    let now = live.now();
    let defaults = HandoutDefaults::of(live);
    let read = {
        let mut inner = live.lock();
        let reader = Reader::new(&mut inner, &job.holder, now, &live.ledger.limits, defaults);
        reader.read(job.append.doings.clone())
    };
    let doings = match read {
        Ok(doings) => doings,
        Err(RequestFlaw::Malformed(flaw)) => return Err(RemoteRefusal::Malformed(flaw).into()),
        Err(RequestFlaw::Payload(error)) => return Err(error.into()),
        Err(RequestFlaw::Forbidden(refusal)) => return Err(refusal.into()),
        Err(RequestFlaw::Again(why)) => return Ok(Done::Again(why)),
        Err(RequestFlaw::Diverged(reason)) => vec![Owned::Park { code: "V1", reason }],
    };
    let orphans = validate::orphans(&live.lock().state, &doings);
    let children = validate::children(&doings);
    for orphan in orphans {
        cancel_child(live, &orphan).await;
    }
    let doings: Vec<Doing> = doings.into_iter().map(|what| Doing { at: now, what }).collect();
    {
        let mut inner = live.lock();
        for doing in &doings {
            inner.push(doing.clone());
        }
    }
    let events = match append_as(Arc::clone(live), job.name.write).await {
        Ok(events) => events,
        Err(stop) => return explain(offer, stop, doings),
    };
    for child in children {
        child::create_for(live, child).await;
    }
    Ok(Done::Landed { repeated: false, events: Some(events) })
}

/// Explains why nothing was appended, and thereby what the worker must do next.
fn explain(offer: &OfferedRun, stop: Stop, doings: Vec<Doing>) -> Result<Done, EngineError> {
    let live = &offer.live;
    let run = &live.run;
    // Deciding again shows whether the core refuses the doings, or the claim has ended.
    let refusal = {
        let inner = live.lock();
        let command = Command::Owned(inner.fence, doings);
        decide(View::Full(&inner.state), &command, live.now(), &live.ledger.limits).err()
    };
    match (stop, refusal) {
        (Stop::TooLong(excess), _) => Err(refused(run, Refusal::HistoryTooLong(excess))),
        (Stop::Form(reason), _) => Err(refused(run, Refusal::InvalidForm { reason })),
        (Stop::Fenced, Some(_)) if offer.is_current() => {
            Ok(Done::Again("the log has events that these doings do not fit".to_owned()))
        }
        (Stop::Fenced | Stop::Diverged(_), _) => Err(refused(run, Refusal::Fenced)),
        (Stop::Store(_), Some(refusal @ Refusal::LeftToUndo)) => Ok(Done::Again(refusal.to_string())),
        (Stop::Store(_), Some(refusal @ Refusal::BeingUndone)) => Err(refused(run, refusal)),
        (Stop::Store(reason), _) => {
            tracing::warn!(%run, reason, "store did not answer an append of a worker");
            let seconds = live.ledger.limits.store_patience.as_secs();
            Err(EngineError::TimedOut { doing: "a worker's append", seconds })
        }
    }
}

fn is_fenced(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused { refusal: Refusal::Fenced, .. })
}
