//! The texts of a command: messages of user code and people, filtered before they become events.
//!
//! Payloads are data and stay unchanged; the writer can ask which of them contain a secret.

use super::Redactor;
use crate::attribute::{AttributeValue, Attributes};
use crate::command::{Command, Owned, Withdraw};
use crate::error::Failure;
use crate::event::Note;
use crate::payload::Payload;

impl Command {
    /// Replaces registered values in every text. Ids, names and payloads are unchanged.
    pub fn redact(&mut self, redactor: &Redactor) {
        let edit = |text: &mut String| redactor.edit(text);
        match self {
            Self::Claim(claim) => claim.lost.iter_mut().for_each(|lost| edit(&mut lost.evidence)),
            Self::Heal(heal) => {
                edit(&mut heal.evidence);
                heal.note.iter_mut().for_each(|note| redact_note(note, redactor));
            }
            Self::Answer { by, .. } => by.iter_mut().for_each(edit),
            Self::Cancel(note)
            | Self::CancelUnmanned { note, .. }
            | Self::Terminate(note)
            | Self::Withdraw(Withdraw { note, .. })
            | Self::Pause(note)
            | Self::Resume(note)
            | Self::Retry(note)
            | Self::Annotate(note)
            | Self::Requeue(note)
            | Self::Reset(note)
            | Self::UndoSeam(note) => redact_note(note, redactor),
            Self::Jump(jump) => redact_note(&mut jump.note, redactor),
            Self::Migrate(migrate) => redact_note(&mut migrate.note, redactor),
            Self::DropCancel(command) => command.redact(redactor),
            Self::Prune(prune) => redact_note(&mut prune.note, redactor),
            Self::ChildEnded { result, .. } => redact_result(result, redactor),
            Self::ChildRefused { failure, .. } => redactor.edit_failure(failure),
            Self::StepEnded(ended) => redact_result(&mut ended.result, redactor),
            Self::Owned(_, doings) => doings.iter_mut().for_each(|doing| doing.what.redact(redactor)),
            Self::Start { queued, .. } => {
                queued.trace.iter_mut().for_each(|trace| trace.drop_state_if(|state| redactor.finds(state)));
            }
            Self::Signal { .. } | Self::TimeOut | Self::TimeOutUnmanned { .. } | Self::HandBack(_) => {}
        }
    }

    /// Returns the payloads that the command adds to the log, each with the name of its place.
    pub fn payloads(&self) -> Vec<(&str, &Payload)> {
        match self {
            Self::Start { queued, .. } => vec![("input", &queued.input)],
            Self::Signal { name, payload, .. } => vec![(name.as_str(), payload)],
            Self::Answer { question, answer, .. } => vec![(question.as_str(), answer)],
            Self::Jump(jump) => jump.input.iter().map(|input| ("input", input)).collect(),
            Self::DropCancel(command) => command.payloads(),
            Self::ChildEnded { child, result } => result.iter().map(|out| (child.as_str(), out)).collect(),
            Self::StepEnded(ended) => ended.result.iter().map(|out| (ended.path.as_str(), out)).collect(),
            Self::Owned(_, doings) => doings.iter().filter_map(|doing| doing.what.payload()).collect(),
            Self::Claim(_)
            | Self::Heal(_)
            | Self::Cancel(_)
            | Self::CancelUnmanned { .. }
            | Self::TimeOut
            | Self::TimeOutUnmanned { .. }
            | Self::ChildRefused { .. }
            | Self::Terminate(_)
            | Self::Withdraw(_)
            | Self::Pause(_)
            | Self::Resume(_)
            | Self::Retry(_)
            | Self::Annotate(_)
            | Self::Requeue(_)
            | Self::Reset(_)
            | Self::UndoSeam(_)
            | Self::Migrate(_)
            | Self::HandBack(_)
            | Self::Prune(_) => Vec::new(),
        }
    }
}

impl Owned {
    fn redact(&mut self, redactor: &Redactor) {
        match self {
            Self::StepFailed { failed, .. } => redactor.edit_failure(&mut failed.failure),
            Self::UndoStarted { failure, .. } => {
                failure.iter_mut().for_each(|failure| redactor.edit_failure(failure));
            }
            Self::UndoFailed { failure, .. } | Self::Fail(failure) => redactor.edit_failure(failure),
            Self::Wait { ask, .. } => ask.iter_mut().for_each(|ask| redactor.edit(&mut ask.prompt)),
            Self::Progress { message: text, .. }
            | Self::ChangeVersion { reason: text, .. }
            | Self::Park { reason: text, .. } => redactor.edit(text),
            Self::Attributes(changed) => redact_attributes(&mut changed.set, redactor),
            Self::AnswerRequest(answered) => answered.refused.iter_mut().for_each(|text| redactor.edit(text)),
            Self::StepStarted(_)
            | Self::StepCompleted(_)
            | Self::Child(_)
            | Self::Publish(_)
            | Self::Sleep { .. }
            | Self::Check(_)
            | Self::Change { .. }
            | Self::UndoCompleted(_)
            | Self::FinishJump
            | Self::ContinueAsNew(_)
            | Self::Complete(_)
            | Self::EndCancelled
            | Self::Release(_) => {}
        }
    }

    fn payload(&self) -> Option<(&str, &Payload)> {
        match self {
            Self::StepStarted(started) => {
                Some((started.path.as_str(), started.remote.as_ref()?.payload.as_ref()?))
            }
            Self::StepCompleted(completed) => Some((completed.path.as_str(), &completed.output)),
            Self::Child(child) => Some((child.path.as_str(), &child.input)),
            Self::Publish(published) => Some((published.name.as_str(), &published.value)),
            Self::AnswerRequest(answered) => Some((answered.path.as_str(), answered.answer.as_ref()?)),
            Self::ContinueAsNew(input) => Some(("input", input)),
            Self::Complete(output) => Some(("output", output)),
            Self::StepFailed { .. }
            | Self::Wait { .. }
            | Self::Sleep { .. }
            | Self::Check(_)
            | Self::Progress { .. }
            | Self::Attributes(_)
            | Self::Change { .. }
            | Self::UndoStarted { .. }
            | Self::UndoCompleted(_)
            | Self::UndoFailed { .. }
            | Self::FinishJump
            | Self::ChangeVersion { .. }
            | Self::Fail(_)
            | Self::EndCancelled
            | Self::Park { .. }
            | Self::Release(_) => None,
        }
    }
}

fn redact_note(note: &mut Note, redactor: &Redactor) {
    redactor.edit(&mut note.reason);
    note.by.iter_mut().for_each(|by| redactor.edit(by));
}

fn redact_result(result: &mut Result<Payload, Failure>, redactor: &Redactor) {
    if let Err(failure) = result {
        redactor.edit_failure(failure);
    }
}

/// Replaces registered values in the texts of attributes.
fn redact_attributes(attributes: &mut Attributes, redactor: &Redactor) {
    for value in attributes.values_mut() {
        match value {
            AttributeValue::Text(text) => redactor.edit(text),
            AttributeValue::List(texts) => texts.iter_mut().for_each(|text| redactor.edit(text)),
            AttributeValue::Integer(_)
            | AttributeValue::Number(_)
            | AttributeValue::Time(_)
            | AttributeValue::Boolean(_) => {}
        }
    }
}
