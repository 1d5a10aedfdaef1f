//! Commands that are carried out once, even if the caller repeats them.
//!
//! **Invariant:** the append that carries a command out also stores the command's id in the run's log. A repeat is
//! therefore recognised for as long as the log exists, and answered from it.

use goldseam::unstable::core::command::Withdraw;
use goldseam::unstable::core::event::{Note, RequestWithdrawn, RunQueued};
use goldseam::unstable::core::hash::Hash;
use goldseam::unstable::core::summary::command_id;
use goldseam::unstable::core::{BranchId, Command, Event, Recorded, State, derive};
use goldseam::{Millis, RunId, Seq};

use super::LocalApi;
use crate::caller::{Caller, KEY_MARK};
use crate::doc::change::NewNote;
use crate::doc::run::NewRun;
use crate::problem::Problem;

/// The append that carried a command out, by this request or by an earlier one.
#[derive(Debug)]
pub(super) struct AppliedCommand {
    /// The end of the log after the append.
    pub(super) end: Seq,
    /// The events of the append.
    pub(super) records: Vec<Recorded>,
    /// The log before the append; only for an earlier request.
    pub(super) before: Option<Vec<Recorded>>,
    /// Whether the command is a signal that no open wait of the run expects.
    pub(super) unawaited: bool,
}

impl AppliedCommand {
    /// The active branch after the append.
    pub(super) fn branch(&self) -> Option<BranchId> {
        let opened = self.records.iter().find_map(|recorded| match &recorded.event {
            Event::BranchOpened(opened) => Some(opened.branch),
            _ => None,
        });
        opened.or_else(|| self.records.last().map(|recorded| recorded.branch))
    }

    /// The state of the run before the append; only for an earlier request.
    pub(super) fn state_before(&self, run: &RunId) -> Option<State> {
        derive(run, self.before.as_ref()?, Hash::ZERO).ok()
    }
}

impl LocalApi {
    /// Builds the note of a command for the run's log.
    pub(super) fn note(
        &self,
        caller: &Caller,
        operation: &str,
        run: &RunId,
        reason: NewNote,
    ) -> Result<KeyedNote, Problem> {
        self.check_text("the reason", &reason.reason)?;
        let mut by = caller.by(operation, run.as_str(), &reason.reason);
        by.who = self.who(caller, reason.by)?;
        let keyed = by.id.is_some();
        Ok(KeyedNote { note: self.client.note(by), keyed })
    }

    /// Carries out a command. A repeat with the same key or id gets the original response from the log.
    pub(super) async fn carry_out_once(
        &self,
        run: &RunId,
        keyed: bool,
        command: Command,
    ) -> Result<AppliedCommand, Problem> {
        let committed = self.client.carry_out(run, &command).await?;
        if keyed
            && committed.records.is_empty()
            && let Some(applied) = self.find_in_log(run, &command).await?
        {
            return Ok(applied);
        }
        Ok(AppliedCommand {
            end: committed.end,
            records: committed.records,
            before: None,
            unawaited: committed.unawaited,
        })
    }

    /// Looks for an earlier request with the same command, for commands that read before they write.
    pub(super) async fn find_repeat(
        &self,
        run: &RunId,
        keyed: bool,
        command: &Command,
    ) -> Result<Option<AppliedCommand>, Problem> {
        let Some(id) = command.outside_id().filter(|_| keyed) else { return Ok(None) };
        match self.client.get(run).await?.has_seen(id) {
            Some(false) => Ok(None),
            Some(true) | None => self.find_in_log(run, command).await,
        }
    }

    async fn find_in_log(&self, run: &RunId, command: &Command) -> Result<Option<AppliedCommand>, Problem> {
        let Some(id) = command.outside_id() else { return Ok(None) };
        let history = self.client.history(run).await?;
        let Some(first) = history.iter().find(|recorded| command_id(&recorded.event).as_deref() == Some(id))
        else {
            return Ok(None);
        };
        if !is_same(command, &first.event) {
            let is_key = id.starts_with(KEY_MARK);
            return Err(if is_key { Problem::key_reused(run) } else { Problem::id_reused(run) });
        }
        let write = first.write;
        let start = history.iter().position(|recorded| recorded.write == write).unwrap_or_default();
        let mut before = history;
        let rest = before.split_off(start);
        let records: Vec<Recorded> = rest.into_iter().filter(|recorded| recorded.write == write).collect();
        let end = records.last().map_or(Seq::ZERO, |last| last.seq);
        Ok(Some(AppliedCommand { end, records, before: Some(before), unawaited: false }))
    }

    /// Whether the existing run has the version, queue, priority, tags, lane and times of a start request. Of a span,
    /// only its presence is compared: it counted from the first request.
    pub(super) async fn is_same_start(&self, run: &RunId, asked: &NewRun) -> Result<bool, Problem> {
        let first = self.client.first(run).await?;
        let Some(first) = first else { return Ok(false) };
        let created = first.at;
        let (was, is_first) = match first.event {
            Event::RunQueued(queued) => (queued, true),
            // A tombstone keeps them. The attributes and the deadline may have changed since.
            Event::RunPruned(pruned) => (pruned.summary.as_queued(), false),
            _ => return Ok(false),
        };
        let tags = was.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Ok(asked.version.is_none_or(|asked| asked == was.version)
            && asked.queue.as_deref().unwrap_or("default") == was.queue.as_str()
            && asked.priority == was.priority
            && asked.lane.as_deref() == was.lane.as_ref().map(|lane| lane.as_str())
            && (!is_first || has_times_of(&was, created, asked))
            && tags.eq(asked.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())))
            && (!is_first || {
                let was = was.attributes.iter().map(|(name, value)| (name.as_str(), value));
                was.eq(asked.attributes.iter().map(|(name, value)| (name.as_str(), value)))
            }))
    }
}

/// Whether a run that was queued at `created` has the times of a start request.
fn has_times_of(was: &RunQueued, created: Millis, asked: &NewRun) -> bool {
    let begins = match asked.start_at_ms.map(Millis) {
        Some(at) if at <= created => was.start_at.is_none(),
        Some(at) => was.start_at == Some(at),
        None => was.start_at.is_some() == asked.delay_ms.is_some_and(|ms| ms > 0),
    };
    let ends = match asked.deadline_ms.map(Millis) {
        Some(at) => was.deadline == Some(at),
        None => was.deadline.is_some() == asked.timeout_ms.is_some(),
    };
    begins && ends
}

/// A note for a log, and whether its id comes from an idempotency key.
#[derive(Debug)]
pub(super) struct KeyedNote {
    pub(super) note: Note,
    pub(super) keyed: bool,
}

/// Whether an event with the id of a command records the same request. The caller is not compared.
fn is_same(command: &Command, event: &Event) -> bool {
    match (command, event) {
        (Command::Signal { name, payload, .. }, Event::SignalReceived { name: was, payload: held, .. }) => {
            name == was && payload == held
        }
        (
            Command::Answer { question, answer, .. },
            Event::InputAnswered { question: was, answer: held, .. },
        ) => question == was && answer == held,
        (Command::DropCancel(command), event) => is_same(command, event),
        (
            Command::Withdraw(Withdraw { note, .. }),
            Event::RequestWithdrawn(RequestWithdrawn { note: was, .. }),
        )
        | (Command::Pause(note), Event::RunPaused(was))
        | (Command::Resume(note), Event::RunResumed(was) | Event::NoteAdded(was))
        | (
            Command::Retry(note)
            | Command::Annotate(note)
            | Command::Requeue(note)
            | Command::Reset(note)
            | Command::UndoSeam(note),
            Event::NoteAdded(was),
        ) => note.reason == was.reason,
        (Command::Cancel(note) | Command::CancelUnmanned { note, .. }, Event::RunCancelRequested(was)) => {
            note.reason == was.reason && was.deadline.is_none()
        }
        // A jump with nothing to compensate is recorded without `compensate`.
        (Command::Jump(jump), Event::JumpRequested(was)) => {
            let undoes = jump.compensate || !was.compensate;
            let same = (&jump.to, &jump.input, jump.drop_mail) == (&was.to, &was.input, was.drop_mail);
            undoes && same && jump.note.reason == was.note.reason
        }
        (Command::Migrate(migrate), Event::VersionChanged { to, note: Some(was), .. }) => {
            migrate.to == *to && migrate.note.reason == was.reason
        }
        _ => false,
    }
}
