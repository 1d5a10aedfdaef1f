//! Sealing: gives decided events their place in the log: position, branch, epoch, write-id and hash chain.

use crate::branch::{BranchId, Why};
use crate::codec::{chain, encode, size};
use crate::decide::Stamped;
use crate::event::{Event, Recorded};
use crate::hash::{Hash, WriteId};
use crate::state::State;
use crate::summary::{Stuck, Summary};
use crate::time::Seq;

/// Where an append begins, and who writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The end of the log.
    pub after: Seq,
    /// Hash of the event there.
    pub prev: Hash,
    /// The active branch.
    pub branch: BranchId,
    /// The owner's claim, if an owner writes.
    pub epoch: Option<Seq>,
    /// Id of the append.
    pub write: WriteId,
}

/// Events ready to be appended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sealed {
    /// The events as the log will have them.
    pub records: Vec<Recorded>,
    /// Their texts.
    pub bodies: Vec<String>,
    /// The hash of each text.
    pub heads: Vec<Hash>,
}

/// Seals `events` for the log at `place`.
pub fn seal(place: Place, events: Vec<Stamped>) -> Sealed {
    let Place { mut after, mut prev, mut branch, mut epoch, write } = place;
    let count = events.len();
    let mut sealed = Sealed {
        records: Vec::with_capacity(count),
        bodies: Vec::with_capacity(count),
        heads: Vec::with_capacity(count),
    };
    for Stamped { at, event } in events {
        after = after.next();
        match &event {
            Event::BranchOpened(opened) => branch = opened.branch,
            Event::RunClaimed(_) => epoch = Some(after),
            _ => {}
        }
        let leaves = matches!(event, Event::BranchOpened(_));
        let mut recorded = Recorded { seq: after, at, branch, epoch, write, prev, bytes: 0, event };
        let body = encode(&recorded);
        recorded.bytes = size(&body);
        prev = chain(&body);
        sealed.records.push(recorded);
        sealed.bodies.push(body);
        sealed.heads.push(prev);
        // A new branch ends ownership: later events of the same append are not the owner's.
        epoch = epoch.filter(|_| !leaves);
    }
    sealed
}

/// Returns whether these events change fields of the cached row that lists and commands read. A completed step alone
/// does not: the row stays late until something else happens.
pub fn changes_row(summary: &Summary, sealed: &Sealed) -> bool {
    sealed.records.iter().any(|recorded| match &recorded.event {
        Event::StepStarted(step) if step.remote.is_some() => true,
        Event::StepStarted(_)
        | Event::StepCompleted(_)
        | Event::StepFailed(_)
        | Event::StepTimeout { .. }
        | Event::ProgressEmitted { .. }
        | Event::ChangeMarked { .. }
        | Event::ChildStarted(_)
        | Event::CompensationCompleted { .. } => {
            recorded.event.path().is_some_and(|path| summary.waits.iter().any(|wait| wait.path == *path))
        }
        Event::CompensationStarted { .. } => !summary.compensating,
        _ => true,
    })
}

/// Returns the row after the append. Fails if the run moves to another branch, which needs the history.
pub fn row_after(summary: &Summary, sealed: &Sealed) -> Result<Summary, Stuck> {
    let mut row = summary.clone();
    for (recorded, head) in sealed.records.iter().zip(&sealed.heads) {
        row.fold(recorded, *head)?;
    }
    Ok(row)
}

/// Returns whether the append moves the run to another branch, except by `continue_as_new`.
pub fn leaves_branch(sealed: &Sealed) -> bool {
    sealed
        .records
        .iter()
        .any(|r| matches!(&r.event, Event::BranchOpened(opened) if opened.why != Why::Continue))
}

/// Returns where the next append to this state begins.
pub fn place(state: &State, epoch: Option<Seq>, write: WriteId) -> Place {
    let summary = &state.summary;
    Place { after: summary.as_of, prev: summary.head, branch: summary.branch, epoch, write }
}
