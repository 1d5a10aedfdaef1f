//! What a worker did goes into its run's log: checked by the pure core, under the fence of its claim, once.
//!
//! The name that a worker gives an append becomes the write-id of its events, with a few bits for its content. So whether it
//! landed is in the log, for every server. A repeat is answered from there, even when the claim is over; another append under
//! the same name is refused.

use std::sync::Arc;

use goldseam_core::decide::{Refusal, View};
use goldseam_core::{Command, Doing, Event, Owned, Recorded, Seq, decide};
use tokio::sync::oneshot;

use super::doing::{self, Flaw, Reader};
use super::pages::{Page, Room, after, check_after};
use super::token::{AppendName, Held};
use super::wire::{Append, Appended, Outcome};
use super::{Holder, RemoteRefusal, RemoteWorkers};
use crate::ledger::commit::{Committed, Ledger};
use crate::ledger::error::EngineError;
use crate::ledger::error::refused;
use crate::ledger::spawn::spawn;
use crate::node::{Desk, Lying, Node};
use crate::run::append::{Moved, append_as, read_on};
use crate::run::compensation::cancel_child;
use crate::run::context::child;
use crate::run::live_run::Stop;

/// Longest name of an append.
pub const APPEND_ID_BYTES_MAX: usize = 128;

/// One append, and where it goes.
struct Job {
    holder: Holder,
    held: Held,
    name: AppendName,
    append: Append,
}

impl Job {
    /// Where this append is in the log after `from`; refused if another one with its id is there.
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

/// What became of an append.
enum Done {
    /// It is in the log.
    Landed { repeated: bool },
    /// The worker must look again.
    Again(String),
    /// It is in the log, and the run has moved on without this claim.
    Passed,
}

impl RemoteWorkers {
    /// Appends what a worker did: all of it, or nothing, and once, however often it is sent.
    pub async fn append(&self, append: Append) -> Result<Appended, EngineError> {
        self.append_for(&Holder::default(), append).await
    }

    /// The same with a credential: the one that the execution was claimed with, or an operator's.
    pub async fn append_for(&self, holder: &Holder, append: Append) -> Result<Appended, EngineError> {
        let held = self.open(holder, &append.token)?;
        if append.id.is_empty() || append.id.len() > APPEND_ID_BYTES_MAX {
            let flaw = format!("the id of an append has 1 to {APPEND_ID_BYTES_MAX} bytes");
            return Err(RemoteRefusal::Malformed(flaw).into());
        }
        let name = held.write(&append.id, &append.doings);
        let job = Job { holder: holder.clone(), held, name, append };
        let here = self.hear(&job.held.worker).ok();
        let lying = here.as_ref().and_then(|(_, desk)| desk.find(&job.held.run, job.held.fence));
        let (Some((node, desk)), Some(lying)) = (here, lying) else {
            return self.answer_from_log(&job).await;
        };
        // To its end, even if the worker goes meanwhile: what follows from an append belongs to it.
        let (tell, told) = oneshot::channel();
        let (workers, run) = (self.clone(), job.held.run.clone());
        let work = Arc::clone(&node);
        node.adopt(spawn(async move {
            let _ = tell.send(workers.append_to(&work, &desk, &lying, job).await);
        }));
        told.await.unwrap_or_else(|_| Err(refused(&run, Refusal::Fenced)))
    }

    async fn append_to(
        &self,
        node: &Node,
        desk: &Desk,
        lying: &Arc<Lying>,
        job: Job,
    ) -> Result<Appended, EngineError> {
        let turn = lying.turn.lock().await;
        let current = desk.find(&job.held.run, job.held.fence);
        if !current.is_some_and(|current| Arc::ptr_eq(&current, lying)) {
            drop(turn);
            return self.answer_from_log(&job).await;
        }
        lying.take();
        let done = write(node, lying, &job).await;
        let over = match &done {
            Ok(Done::Passed) => true,
            Ok(_) => !lying.stands(),
            Err(error) => is_fenced(error),
        };
        if over {
            return self.after_claim(node, desk, lying, (&job, done)).await;
        }
        let (outcome, repeated, why) = match done? {
            Done::Landed { repeated } => (Outcome::Held, repeated, None),
            Done::Again(why) => (Outcome::Again, false, Some(why)),
            Done::Passed => return Err(refused(&job.held.run, Refusal::Fenced)),
        };
        let lineage = {
            let inner = lying.live.lock();
            inner.state.branches.lineage(inner.fence.branch)
        };
        let sees = |recorded: &Recorded| lineage.sees(recorded.branch, recorded.seq);
        let page = after(&self.ledger, &job.held.run, job.append.after, (&sees, &mut Room::new())).await?;
        let answer = self.answer(outcome, page, node.live_runs().is_leaving()).await?;
        Ok(Appended { repeated, why, ..answer })
    }

    /// The claim ended: by this append, or before it.
    async fn after_claim(
        &self,
        node: &Node,
        desk: &Desk,
        lying: &Lying,
        (job, done): (&Job, Result<Done, EngineError>),
    ) -> Result<Appended, EngineError> {
        let continued = matches!(lying.live.lock().moved, Moved::Continued(_));
        let next = match continued {
            true => node.carry_on(desk, lying).await,
            false => None,
        };
        if next.is_none() {
            node.clear_away(desk, lying).await;
        }
        let repeated = match done? {
            Done::Landed { repeated } => repeated,
            Done::Passed => true,
            Done::Again(_) => return Err(refused(&job.held.run, Refusal::Fenced)),
        };
        Ok(Appended { repeated, ..self.last_answer(job, next, node.live_runs().is_leaving()).await? })
    }

    /// The claim is over, or was another server's: only the log can tell whether the append landed.
    async fn answer_from_log(&self, job: &Job) -> Result<Appended, EngineError> {
        let Job { held, append, .. } = job;
        let from = append.after.max(held.fence.epoch);
        let Some(landed) = job.landed(&self.ledger, from).await? else {
            return Err(refused(&held.run, Refusal::Fenced));
        };
        let continued =
            landed.records.iter().any(|recorded| matches!(recorded.event, Event::BranchOpened(_)));
        let here = self.hear(&held.worker).ok().filter(|_| continued);
        let next = here.as_ref().and_then(|(_, desk)| desk.of_run(&held.run));
        let leaving = here.is_some_and(|(node, _)| node.live_runs().is_leaving());
        Ok(Appended { repeated: true, ..self.last_answer(job, next, leaving).await? })
    }

    async fn last_answer(
        &self,
        job: &Job,
        next: Option<Arc<Lying>>,
        leaving: bool,
    ) -> Result<Appended, EngineError> {
        let Held { run, fence, .. } = &job.held;
        let sees =
            |recorded: &Recorded| recorded.branch == fence.branch || job.name.has_id_of(recorded.write);
        let page =
            after(&self.ledger, run, job.append.after.max(fence.epoch), (&sees, &mut Room::new())).await?;
        let (outcome, next) = match next {
            Some(next) => (
                Outcome::Continued,
                Some(Box::new(
                    self.execution((&job.held.worker, &job.held.key), &next, &mut Room::new()).await?,
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

/// Appends, and does what follows from it.
async fn write(node: &Node, lying: &Lying, job: &Job) -> Result<Done, EngineError> {
    let (live, run) = (&lying.live, &job.held.run);
    let known = live.lock().state.summary.as_of;
    check_after(&live.ledger, run, (known, job.append.after)).await?;
    if job.append.after < known
        && let Some(landed) = job.landed(&live.ledger, job.append.after).await?
    {
        let write = landed.records.first().map_or(job.name.write, |first| first.write);
        if landed.end > known && read_on(live, write).await.is_err() {
            return Ok(Done::Passed);
        }
        return Ok(Done::Landed { repeated: true });
    }
    let (now, silence) = (live.now(), node.config.remote_silence_max);
    let read = {
        let mut inner = live.lock();
        let reader = Reader::new((&mut inner, &job.holder), now, &live.ledger.limits, silence);
        reader.read(job.append.doings.clone())
    };
    let doings = match read {
        Ok(doings) => doings,
        Err(Flaw::Malformed(flaw)) => return Err(RemoteRefusal::Malformed(flaw).into()),
        Err(Flaw::Payload(error)) => return Err(error.into()),
        Err(Flaw::Forbidden(refusal)) => return Err(refusal.into()),
        Err(Flaw::Again(why)) => return Ok(Done::Again(why)),
        Err(Flaw::Diverged(reason)) => vec![Owned::Park { code: "V1", reason }],
    };
    let (orphans, children) = (doing::orphans(&live.lock().state, &doings), doing::children(&doings));
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
    if let Err(stop) = append_as(Arc::clone(live), job.name.write).await {
        return explain(lying, stop, doings);
    }
    for child in children {
        child::create_for(live, child).await;
    }
    Ok(Done::Landed { repeated: false })
}

/// Why nothing was appended, in words that tell the worker what to do next.
fn explain(lying: &Lying, stop: Stop, doings: Vec<Doing>) -> Result<Done, EngineError> {
    let live = &lying.live;
    let run = &live.run;
    // Asked again, the core says whether the doings were refused, or the log was read to where the claim ended.
    let refusal = {
        let inner = live.lock();
        let command = Command::Owned(inner.fence, doings);
        decide(View::Full(&inner.state), &command, live.now(), &live.ledger.limits).err()
    };
    match (stop, refusal) {
        (Stop::TooLong(excess), _) => Err(refused(run, Refusal::HistoryTooLong(excess))),
        (Stop::Form(reason), _) => Err(refused(run, Refusal::InvalidForm { reason })),
        (Stop::Fenced, Some(_)) if lying.stands() => {
            Ok(Done::Again("the log has something that these doings do not go with".to_owned()))
        }
        (Stop::Fenced | Stop::Diverged(_), _) => Err(refused(run, Refusal::Fenced)),
        (Stop::Store(_), Some(refusal @ Refusal::LeftToUndo)) => Ok(Done::Again(refusal.to_string())),
        (Stop::Store(_), Some(refusal @ Refusal::BeingUndone)) => Err(refused(run, refusal)),
        (Stop::Store(reason), _) => {
            tracing::warn!(%run, reason, "the store gave no answer to a worker's append");
            Err(EngineError::Patience { doing: "a worker's append", seconds: 0 })
        }
    }
}

fn is_fenced(error: &EngineError) -> bool {
    matches!(error, EngineError::Refused { refusal: Refusal::Fenced, .. })
}
