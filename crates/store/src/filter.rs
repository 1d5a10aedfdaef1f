//! The records that each filter selects, for stores that read records before they filter them.

use goldseam_core::lock::Lock;
use goldseam_core::search::{Condition, ConditionSubject, Literal, Operator, RunField};
use goldseam_core::task::{Task, TaskState};

use crate::types::{ClaimRequest, LockFilter, Row, RunFilter, TaskFilter};

impl TaskFilter {
    /// Returns whether this task matches, regardless of where the page begins.
    pub fn selects(&self, task: &Task) -> bool {
        self.id.as_ref().is_none_or(|id| task.id == *id)
            && self.run.as_ref().is_none_or(|run| task.run.as_ref() == Some(run))
            && self.key.as_ref().is_none_or(|key| task.state.is_live() && task.key.as_ref() == Some(key))
            && self.state.is_none_or(|state| task.state == state)
            && self.owner.as_ref().is_none_or(|owner| task.owner.as_ref() == Some(owner))
            && self.queue.as_ref().is_none_or(|queue| task.queue.as_str() == queue)
            && self.advance.is_none_or(|advance| task.is_advance() == advance)
            && (!self.poked || task.poked)
            && (!self.open || task.state.is_live() || task.state == TaskState::Dead)
            && self.selects_claim(task)
    }

    /// Returns whether the conditions on the claim match.
    fn selects_claim(&self, task: &Task) -> bool {
        let claimed = task.state == TaskState::Claimed;
        let named = |test: &dyn Fn(&String) -> bool| claimed && task.owner.as_ref().is_some_and(test);
        self.silent_at.is_none_or(|at| {
            claimed && task.silence_max.is_some_and(|silence| task.last_sign() + silence <= at)
        }) && self
            .quiet_since
            .is_none_or(|since| claimed && task.silence_max.is_none() && task.last_sign() <= since)
            && self.owner_prefix.as_ref().is_none_or(|prefix| named(&|owner| owner.starts_with(prefix)))
            && self.owner_none_of.as_ref().is_none_or(|owners| claimed && !named(&|o| owners.contains(o)))
    }
}

impl LockFilter {
    /// Returns whether this lock matches, regardless of where the page begins.
    pub fn selects(&self, lock: &Lock) -> bool {
        self.name.as_ref().is_none_or(|name| lock.name == *name)
            && self.stale_at.is_none_or(|at| lock.is_stale(at))
            && self.node_none_of.as_ref().is_none_or(|nodes| is_through_none_of(lock, nodes))
    }
}

fn is_through_none_of(lock: &Lock, nodes: &[String]) -> bool {
    lock.holder.is_some() && lock.node.as_ref().is_some_and(|node| !nodes.contains(node))
}

impl RunFilter {
    /// Returns the same filter, with the statuses that its condition requires as statuses, if it has none.
    #[must_use]
    pub fn narrowed(&self) -> Self {
        let mut narrowed = self.clone();
        let Some(condition) = self.condition.as_ref().filter(|_| self.statuses.is_empty()) else {
            return narrowed;
        };
        let of_status = |subject: &ConditionSubject| *subject == ConditionSubject::Field(RunField::Status);
        let statuses = condition.conjuncts().iter().find_map(|part| match part {
            Condition::Compare { subject, operator: Operator::Equal, value } if of_status(subject) => {
                Some(std::slice::from_ref(value))
            }
            Condition::In { subject, values } if of_status(subject) => Some(values.as_slice()),
            _ => None,
        });
        let status = |value: &Literal| if let Literal::Status(status) = value { Some(*status) } else { None };
        narrowed.statuses = statuses.into_iter().flatten().filter_map(status).collect();
        narrowed
    }

    /// Returns whether this row matches, regardless of where the page begins.
    pub fn selects(&self, row: &Row) -> bool {
        let summary = &row.summary;
        (self.statuses.is_empty() || self.statuses.contains(&summary.status))
            && self.workflow.as_ref().is_none_or(|workflow| summary.workflow == *workflow)
            && self.tag.as_ref().is_none_or(|(key, value)| summary.tags.get(key) == Some(value))
            && self.since.is_none_or(|since| summary.created_at >= since)
            && self
                .cause
                .as_ref()
                .is_none_or(|cause| summary.trouble.as_ref().is_some_and(|t| t.cause == *cause))
            && self.owner.as_ref().is_none_or(|owner| summary.owner.as_ref() == Some(owner))
            && self.parent.as_ref().is_none_or(|parent| summary.parent.as_ref() == Some(parent))
            && self.condition.as_ref().is_none_or(|condition| condition.matches(summary))
    }
}

impl ClaimRequest {
    /// Returns whether this task may be claimed, now or once it is due.
    pub fn wants(&self, task: &Task) -> bool {
        task.state == TaskState::Ready
            && self.pools.contains(&task.pool())
            && self.kind.as_ref().is_none_or(|kind| task.kind == *kind)
    }
}
