//! Termination of a run whose log is unreadable, by an append at its end. The damaged events stay.

use std::collections::{BTreeMap, BTreeSet};

use goldseam_core::codec::{chain, decode};
use goldseam_core::decide::{Refusal, Stamped};
use goldseam_core::event::{Event, Note, Terminated};
use goldseam_core::plan::report_to_parent;
use goldseam_core::seal::{Place, Sealed, seal};
use goldseam_core::{BranchId, Corrupt, Hash, Path, Recorded, RunId, Seq, Status, Summary, TaskId};
use goldseam_store::{Append, Expect, Head, Row, StoreError, TaskChange, Written};

use super::{Healed, Healer};
use crate::ledger::error::{EngineError, refused};
use crate::ledger::salvage::left_by;

/// Consecutive conflicts after which a termination fails as contended.
const CONFLICTS_MAX: u32 = 100;

/// The end of a log, and the row and advance task of its run.
struct LogEnd {
    end: Seq,
    row: Option<(Summary, Option<TaskId>)>,
}

impl Healer {
    /// Ends a run whose log is damaged. Returns the end of its log and what was left standing, as far as the readable
    /// events show.
    pub(crate) async fn terminate_damaged(
        &self,
        run: &RunId,
        note: &Note,
        corrupt: &Corrupt,
    ) -> Result<(Seq, Terminated), EngineError> {
        for _ in 0..CONFLICTS_MAX {
            let missing = || refused(run, Refusal::NoSuchRun);
            let Head { end, row, .. } = self.ledger.store.head(run).await?.ok_or_else(missing)?;
            let events = self.ledger.readable(run).await?;
            if let Some(ended) = events.iter().rev().find(|recorded| recorded.event.is_terminal())
                && is_last(&events, ended)
            {
                return match left_by(std::slice::from_ref(ended)) {
                    Some(left) if left.note.id == note.id => Ok((ended.seq, left)),
                    _ => Err(refused(run, Refusal::Finished { status: status_of(&ended.event) })),
                };
            }
            let seen = OpenWork::of(&events);
            let left = seen.left(note, corrupt);
            let row = row.map(|row| (row.summary, row.task)).or_else(|| first_row(run, &events));
            let sealed = self.seal_end(run, end, row.as_ref().map(|(row, _)| row), &left).await?;
            let workflow = row.as_ref().map(|(row, _)| row.workflow.clone());
            let append = self.append_of(run, LogEnd { end, row }, &sealed, &seen.tasks).await?;
            match self.ledger.store.append(append).await {
                Ok(end) => {
                    let workflow = workflow.as_ref().map_or("", |workflow| workflow.as_str());
                    self.ledger.meter.work(workflow).committed(&sealed.records);
                    self.ledger.process.poke(run);
                    tracing::info!(%run, %corrupt, "terminated a run with a damaged log");
                    return Ok((end, left));
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EngineError::Contended { doing: "terminating a run" })
    }

    async fn seal_end(
        &self,
        run: &RunId,
        end: Seq,
        row: Option<&Summary>,
        left: &Terminated,
    ) -> Result<Sealed, EngineError> {
        let last = self.ledger.store.read(run, end.before(), 1).await?.pop();
        let prev = last.as_ref().map_or(Hash::ZERO, |last| chain(&last.body));
        let decoded = last.and_then(|last| decode(last.seq, &last.body).ok());
        let branch = row.map(|row| row.branch).or(decoded.map(|last| last.branch));
        let place = Place {
            after: end,
            prev,
            branch: branch.unwrap_or(BranchId::ROOT),
            epoch: None,
            write: self.ledger.entropy.write_id(),
        };
        let reason = left.note.reason.clone();
        let event = Event::RunCancelled { reason, terminated: Some(Box::new(left.clone())) };
        Ok(seal(place, vec![Stamped { at: self.ledger.clock.now(), event }]))
    }

    async fn append_of(
        &self,
        run: &RunId,
        at: LogEnd,
        sealed: &Sealed,
        remote: &[TaskId],
    ) -> Result<Append, EngineError> {
        let LogEnd { end, row } = at;
        let cancel = |task: &TaskId| TaskChange::Cancel { task: task.clone() };
        let mut tasks: Vec<TaskChange> = remote.iter().map(cancel).collect();
        let task = match row.as_ref().and_then(|(_, task)| task.clone()) {
            Some(task) => Some(task),
            None => self.advance_task_of(run).await?.map(|task| task.id),
        };
        tasks.extend(task.map(|task| TaskChange::Remove { task }));
        let row = row.map(|(row, _)| ended_row(row, end, sealed));
        let now = self.ledger.clock.now();
        let delivery = row.as_ref().and_then(|row| report_to_parent(row, sealed, None, now));
        tasks.extend(delivery.map(|task| TaskChange::Create(Box::new(task))));
        Ok(Append {
            run: run.clone(),
            after: end,
            bodies: sealed.bodies.clone(),
            row: row.map(Box::new),
            tasks,
        })
    }

    /// Whether the damaged log ends with a termination. Nothing may follow it, and the row must show it.
    pub(super) async fn stays_terminated(
        &self,
        run: &RunId,
        end: Seq,
        row: Option<&Row>,
    ) -> Result<Option<Healed>, EngineError> {
        let events = self.ledger.readable(run).await?;
        let ended = events
            .iter()
            .rev()
            .find(|recorded| left_by(std::slice::from_ref(recorded)).is_some() && is_last(&events, recorded));
        let Some(ended) = ended else { return Ok(None) };
        if row.is_some_and(|row| row.summary.terminated && row.summary.as_of == end) {
            return Ok(Some(Healed::Moved));
        }
        let task = row.and_then(|row| row.task.clone());
        let Some((summary, _)) =
            row.map(|row| (row.summary.clone(), None)).or_else(|| first_row(run, &events))
        else {
            return Ok(Some(Healed::Moved));
        };
        let head = self.ledger.store.read(run, end.before(), 1).await?.pop();
        let head = head.map_or(Hash::ZERO, |last| chain(&last.body));
        let mut summary = Summary { as_of: ended.seq.before(), branch: ended.branch, ..summary };
        let _ = summary.fold(ended, head);
        summary.as_of = end;
        let expect = row.map_or(Expect::Absent, |row| Expect::Version(row.version()));
        let updated_at = row.map_or(summary.last_event_at, |row| row.updated_at);
        let row = Row { summary, task, updated_at };
        Ok(Some(match self.ledger.store.put_row(row, expect).await? {
            Written::Done => Healed::Done { end, branch: None, stale: None },
            Written::Lost(_) => Healed::Moved,
        }))
    }
}

/// Whether only notes follow.
fn is_last(events: &[Recorded], ended: &Recorded) -> bool {
    let mut later = events.iter().filter(|recorded| recorded.seq > ended.seq);
    later.all(|recorded| matches!(recorded.event, Event::NoteAdded(_) | Event::RunPruned(_)))
}

fn status_of(ended: &Event) -> Status {
    match ended {
        Event::RunCompleted { .. } => Status::Completed,
        Event::RunFailed { .. } => Status::Failed,
        _ => Status::Cancelled,
    }
}

/// The row of a run without a row, if the first event is readable.
fn first_row(run: &RunId, events: &[Recorded]) -> Option<(Summary, Option<TaskId>)> {
    let first = events.first().filter(|first| first.seq == Seq(1))?;
    Some((Summary::first(run, first, Hash::ZERO).ok()?, None))
}

/// The row after the termination. The damaged events in between cannot be folded.
fn ended_row(row: Summary, end: Seq, sealed: &Sealed) -> Summary {
    let mut row = Summary { as_of: end, ..row };
    for (recorded, head) in sealed.records.iter().zip(&sealed.heads) {
        // The position is next and the event opens no branch, so folding succeeds.
        let _ = row.fold(recorded, *head);
    }
    row
}

/// What the readable events of a damaged log show.
struct OpenWork {
    standing: Vec<Path>,
    undoing: Vec<Path>,
    children: Vec<RunId>,
    remote: Vec<Path>,
    tasks: Vec<TaskId>,
}

impl OpenWork {
    fn of(events: &[Recorded]) -> Self {
        let mut done = Vec::new();
        let mut undoing = BTreeSet::new();
        let mut children = BTreeSet::new();
        let mut remote = BTreeMap::new();
        for recorded in events {
            match &recorded.event {
                Event::StepStarted(step) => {
                    if let Some(handed) = &step.remote {
                        remote.insert(step.path.clone(), handed.task.clone());
                    }
                }
                Event::StepCompleted(step) => {
                    remote.remove(&step.path);
                    if step.undo && !done.contains(&step.path) {
                        done.push(step.path.clone());
                    }
                }
                Event::StepFailed(step) => drop(remote.remove(&step.path)),
                Event::CompensationStarted { path, .. } => drop(undoing.insert(path.clone())),
                Event::CompensationCompleted { path } => {
                    undoing.remove(path);
                    done.retain(|step| step != path);
                }
                Event::CompensationFailed { path, .. } => drop(undoing.remove(path)),
                Event::ChildStarted(child) if child.detached => {}
                Event::ChildStarted(child) => drop(children.insert(child.run.clone())),
                Event::ChildCompleted { run, .. } | Event::ChildFailed { run, .. } => {
                    children.remove(run);
                }
                _ => {}
            }
        }
        done.retain(|step| !undoing.contains(step));
        done.reverse();
        let (remote, tasks) = remote.into_iter().unzip();
        let undoing = undoing.into_iter().collect();
        let children = children.into_iter().collect();
        Self { standing: done, undoing, children, remote, tasks }
    }

    fn left(&self, note: &Note, corrupt: &Corrupt) -> Terminated {
        Terminated {
            note: note.clone(),
            standing: self.standing.clone(),
            undoing: self.undoing.clone(),
            children: self.children.clone(),
            remote: self.remote.clone(),
            unknown: Some(format!("the log is damaged: {corrupt}")),
        }
    }
}
