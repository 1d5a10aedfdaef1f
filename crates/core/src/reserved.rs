//! Names that the engine keeps for itself. This is the one list of them: every interface that takes a name from outside
//! asks it.

/// What a name is for.
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
    /// The id by which a repeated signal or answer is recognised.
    Command,
}

/// Reserved prefixes, each with the only use it is reserved for; none: for every use.
const PREFIXES: [(&str, Option<Named>); 4] = [
    ("goldseam.", None),
    // Mail between runs and heartbeat details stand in queues of the engine.
    ("goldseam-", Some(Named::Queue)),
    // Nodes take such a task for one that moves a run on.
    ("advance:", Some(Named::Kind)),
    // The ends of children are remembered under such ids.
    ("child:", Some(Named::Command)),
];

/// First letters of the ids that the engine makes for its own tasks; a dash and a hash follow.
const TASKS: [&str; 5] = ["t-", "s-", "d-", "h-", "w-"];
/// Hexadecimal digits of that hash.
const HASH_DIGITS: usize = 32;

/// The reserved part that `name` begins with; none if callers may use the name.
pub fn prefix(what: Named, name: &str) -> Option<&'static str> {
    let is_for = |only: Option<Named>| only.is_none_or(|only| only == what);
    let found = PREFIXES.iter().find(|(prefix, only)| is_for(*only) && name.starts_with(prefix));
    found.map(|(prefix, _)| *prefix).or_else(|| task(what, name))
}

fn task(what: Named, name: &str) -> Option<&'static str> {
    let is_hash = |text: &str| text.len() == HASH_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_own = |prefix: &&&str| name.strip_prefix(**prefix).is_some_and(is_hash);
    TASKS.iter().find(is_own).copied().filter(|_| what == Named::Task)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::RunId;
    use crate::task::Task;

    #[test]
    fn every_use_has_its_own_reserved_names() {
        let all = [Named::Id, Named::Task, Named::Queue, Named::Kind, Named::Command];
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
