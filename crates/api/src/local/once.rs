//! Commands that are carried out once, however often they come.
//!
//! Invariant: the id of a command stands in the run's log, put there by the append that carried it out. So a repeat is
//! recognised for as long as the log lives, and answered from it.

use goldseam::core::command::Withdraw;
use goldseam::core::event::{Note, RequestWithdrawn};
use goldseam::core::hash::Hash;
use goldseam::core::summary::command_id;
use goldseam::core::{BranchId, Command, Event, Recorded, State, derive};
use goldseam::{RunId, Seq};

use super::Local;
use crate::caller::{Caller, KEY_MARK};
use crate::doc::run::NewRun;
use crate::problem::Problem;

/// What carried a command out, now or before.
#[derive(Debug)]
pub(super) struct Landed {
    /// Where the log ended then.
    pub(super) end: Seq,
    /// What was appended.
    pub(super) records: Vec<Recorded>,
    /// The log before that; only if it was not now.
    pub(super) before: Option<Vec<Recorded>>,
    /// It is a signal that no open wait of the run looked for.
    pub(super) unawaited: bool,
}

impl Landed {
    /// The branch that the run was on then.
    pub(super) fn branch(&self) -> Option<BranchId> {
        let opened = self.records.iter().find_map(|recorded| match &recorded.event {
            Event::BranchOpened(opened) => Some(opened.branch),
            _ => None,
        });
        opened.or_else(|| self.records.last().map(|recorded| recorded.branch))
    }

    /// The run as it was before, if it was not now.
    pub(super) fn state_before(&self, run: &RunId) -> Option<State> {
        derive(run, self.before.as_ref()?, Hash::ZERO).ok()
    }
}

impl Local {
    /// Who wants what of a run: a note for its log, and whether its id comes from an idempotency key.
    pub(super) fn note(
        &self,
        caller: &Caller,
        (operation, run): (&str, &RunId),
        (by, reason): (Option<String>, String),
    ) -> Result<Asked, Problem> {
        self.check_text("the reason", &reason)?;
        let mut said = caller.by(operation, run.as_str(), &reason);
        said.who = self.who(caller, by)?;
        let keyed = said.id.is_some();
        Ok(Asked { note: self.client.note(said), keyed })
    }

    /// Carries out a command; a repeat under the same key, or the same id, is answered from the log.
    pub(super) async fn order(&self, run: &RunId, keyed: bool, command: Command) -> Result<Landed, Problem> {
        let committed = self.client.carry_out(run, &command).await?;
        let (end, records, unawaited) = (committed.end, committed.records, committed.unawaited);
        if keyed
            && records.is_empty()
            && let Some(landed) = self.in_log(run, &command).await?
        {
            return Ok(landed);
        }
        Ok(Landed { end, records, before: None, unawaited })
    }

    /// What the same command did before, for commands that look before they act.
    pub(super) async fn before(
        &self,
        run: &RunId,
        keyed: bool,
        command: &Command,
    ) -> Result<Option<Landed>, Problem> {
        let Some(id) = command.outside_id().filter(|_| keyed) else { return Ok(None) };
        match self.client.get(run).await?.has_seen(id) {
            Some(false) => Ok(None),
            Some(true) | None => self.in_log(run, command).await,
        }
    }

    async fn in_log(&self, run: &RunId, command: &Command) -> Result<Option<Landed>, Problem> {
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
        Ok(Some(Landed { end, records, before: Some(before), unawaited: false }))
    }

    /// Whether the run that is there already is the one that is asked for.
    pub(super) async fn is_same_start(&self, run: &RunId, asked: &NewRun) -> Result<bool, Problem> {
        let first = self.client.first(run).await?;
        let (version, queue, priority, tags) = match first.map(|first| first.event) {
            Some(Event::RunQueued(queued)) => (queued.version, queued.queue, queued.priority, queued.tags),
            // A tombstone tells it, too.
            Some(Event::RunPruned(pruned)) => {
                let row = *pruned.summary;
                (row.initial_version, row.queue, row.priority, row.tags)
            }
            _ => return Ok(false),
        };
        let tags = tags.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Ok(asked.version.is_none_or(|asked| asked == version)
            && asked.queue.as_deref().unwrap_or("default") == queue.as_str()
            && asked.priority == priority
            && tags.eq(asked.tags.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
    }
}

/// A note for a log, and whether its id comes from an idempotency key.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) note: Note,
    pub(super) keyed: bool,
}

/// Whether an event with the id of a command is what the command asks for: who asks does not matter.
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
        | (Command::Cancel(note) | Command::CancelUnmanned { note, .. }, Event::RunCancelRequested(was))
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
        // What there is nothing to undo for is written as if nobody had asked for it.
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
