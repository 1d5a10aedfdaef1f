//! Names that the engine reserves. Every interface that accepts a name from outside checks this list.

use crate::hash::Hash;
use crate::id::TaskId;

/// The use of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// A run, a lock, or the key of a task.
    Id,
    /// A task.
    Task,
    /// A queue.
    Queue,
    /// The kind of a task.
    Kind,
    /// The id that identifies a repeated signal or answer.
    Command,
    /// A workflow.
    Workflow,
}

/// Reserved prefixes, each with the use that it is reserved for; `None`: every use.
const PREFIXES: [(&str, Option<Named>); 4] = [
    ("goldseam.", None),
    // Queues of the engine for mail between runs and for heartbeat details.
    ("goldseam-", Some(Named::Queue)),
    // Nodes treat a task of such a kind as an advance task.
    ("advance:", Some(Named::Kind)),
    // Logs record the ends of children under such ids.
    ("child:", Some(Named::Command)),
];

/// The kind of an engine task. The id of such a task is the prefix of its kind and a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineTask {
    /// Advances a run.
    Advance,
    /// Does a remote step.
    RemoteStep,
    /// Delivers the end of a child to its parent.
    Delivery,
    /// Keeps the heartbeat details of a step.
    Heartbeat,
    /// Advances a foreign workflow.
    Foreign,
}

impl EngineTask {
    const ALL: [Self; 5] = [Self::Advance, Self::RemoteStep, Self::Delivery, Self::Heartbeat, Self::Foreign];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Advance => "t-",
            Self::RemoteStep => "s-",
            Self::Delivery => "d-",
            Self::Heartbeat => "h-",
            Self::Foreign => "w-",
        }
    }

    /// Returns the id of the task with this hash.
    pub fn id(self, hash: Hash) -> TaskId {
        TaskId::new(format!("{}{hash}", self.prefix()))
            .unwrap_or_else(|_| unreachable!("a prefix and a hash form an id"))
    }
}

/// Hexadecimal digits of the hash in the id of an engine task.
const HASH_DIGITS: usize = 32;

/// Returns the reserved prefix of `name`, or `None` if callers may use the name.
pub fn prefix(what: Named, name: &str) -> Option<&'static str> {
    let is_for = |only: Option<Named>| only.is_none_or(|only| only == what);
    let found = PREFIXES.iter().find(|(prefix, only)| is_for(*only) && name.starts_with(prefix));
    found.map(|(prefix, _)| *prefix).or_else(|| task(what, name))
}

fn task(what: Named, name: &str) -> Option<&'static str> {
    let is_hash = |text: &str| text.len() == HASH_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_own = |prefix: &&str| name.strip_prefix(*prefix).is_some_and(is_hash);
    EngineTask::ALL.map(EngineTask::prefix).into_iter().find(is_own).filter(|_| what == Named::Task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RunId;
    use crate::task::Task;

    #[test]
    fn every_use_has_its_own_reserved_names() {
        let all = [Named::Id, Named::Task, Named::Queue, Named::Kind, Named::Command, Named::Workflow];
        for what in all {
            assert_eq!(prefix(what, "goldseam.x"), Some("goldseam."), "{what:?}");
            assert_eq!(prefix(what, "orders"), None, "{what:?}");
        }
        for (only, name) in [
            (Named::Queue, "goldseam-mail"),
            (Named::Queue, "goldseam-heartbeat"),
            (Named::Kind, "advance:order@1"),
            (Named::Command, "child:o-1.77"),
        ] {
            for what in all {
                assert_eq!(prefix(what, name).is_some(), what == only, "{what:?} {name}");
            }
        }
    }

    #[test]
    fn ids_of_engine_tasks_are_reserved_and_others_are_not() {
        let own = Task::advance_id(&RunId::new("r").unwrap(), 1);
        assert_eq!(prefix(Named::Task, own.as_str()), Some("t-"));
        assert_eq!(prefix(Named::Id, own.as_str()), None);
        for open in ["t-1", "s-resize", "t-claimed", "d-"] {
            assert_eq!(prefix(Named::Task, open), None, "{open}");
        }
    }
}
