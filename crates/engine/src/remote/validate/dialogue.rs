//! Validates children with options, and published values.

use goldseam_core::decide::{child_id, chosen_child_id, other_call};
use goldseam_core::event::RunQueued;
use goldseam_core::reserved::{Named, prefix};
use goldseam_core::{Path, Payload, RunId, ValueName, WorkflowName};

use super::{Reader, RequestFlaw};
use crate::ledger::dialogue::PublishError;
use crate::ledger::error::EngineError;
use crate::ledger::start_options::{QueueTerms, StartOptions};
use crate::remote::RemoteRefusal;
use crate::remote::wire::ChildStart;

impl Reader<'_> {
    /// The id of a child, and how it is queued, if its parent does not decide that.
    pub(super) fn child(
        &self,
        path: &Path,
        workflow: &WorkflowName,
        start: Option<Box<ChildStart>>,
    ) -> Result<(RunId, Option<Box<RunQueued>>), RequestFlaw> {
        let Some(mut start) = start else {
            // The child is queued in the queue of its parent.
            self.holder.check_queue(&self.state().summary.queue)?;
            return Ok((child_id(self.state(), path), None));
        };
        let run = match start.id.take() {
            None => child_id(self.state(), path),
            Some(id) => self.chosen(path, &id)?,
        };
        if *start == ChildStart::default() {
            self.holder.check_queue(&self.state().summary.queue)?;
            return Ok((run, None));
        }
        let options = options(*start);
        let terms = QueueTerms { now: self.now, limits: self.limits };
        let queued = options.queued_for_child(workflow.clone(), &self.state().summary, terms);
        let queued = queued.map_err(|error| match error {
            EngineError::Payload(error) => RequestFlaw::Payload(error),
            error => RequestFlaw::Malformed(error.to_string()),
        })?;
        self.holder.check_queue(&queued.queue)?;
        Ok((run, Some(Box::new(queued))))
    }

    fn chosen(&self, path: &Path, id: &RunId) -> Result<RunId, RequestFlaw> {
        if prefix(Named::Id, id.as_str()).is_some() {
            let what = format!("ids like {id} are reserved for the engine");
            return Err(RemoteRefusal::Forbidden(what).into());
        }
        let malformed = |what: String| RequestFlaw::Malformed(what);
        let run = chosen_child_id(self.state(), id).map_err(|error| malformed(error.to_string()))?;
        match other_call(self.state(), &run, path) {
            Some(other) => {
                Err(malformed(format!("{path} chose the child id {run}, which {other} has chosen")))
            }
            None if self.children.contains(&run) => {
                Err(malformed(format!("two children of one append have the id {run}")))
            }
            None => Ok(run),
        }
    }

    pub(super) fn check_published(&self, name: &ValueName, value: &Payload) -> Result<(), RequestFlaw> {
        let malformed = |error: PublishError| RequestFlaw::Malformed(error.to_string());
        let bytes = value.as_str().len();
        let max = self.limits.published_bytes_max;
        if bytes > max {
            return Err(malformed(PublishError::TooLarge { name: name.clone(), bytes, max }));
        }
        let published = &self.state().summary.published;
        let max = self.limits.published_names_max;
        if !published.contains_key(name) && published.len() >= max {
            return Err(malformed(PublishError::TooMany { name: name.clone(), max }));
        }
        Ok(())
    }
}

fn options(start: ChildStart) -> StartOptions {
    let ChildStart { id: _, queue, version, priority, tags, attributes } = start;
    let mut options = StartOptions::default();
    options = queue.into_iter().fold(options, |options, queue| options.queue(queue.as_str()));
    options = version.into_iter().fold(options, StartOptions::version);
    options = priority.into_iter().fold(options, StartOptions::priority);
    options = tags.into_iter().fold(options, |options, (key, value)| options.tag(key.as_str(), value));
    attributes.into_iter().fold(options, |options, (key, value)| options.attribute(key.as_str(), value))
}
