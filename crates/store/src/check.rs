//! Reports of checking, migrating and compacting a store.

/// The result of checking a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreReport {
    /// The schema of the store.
    pub schema: i64,
    /// The latest schema that this program writes.
    pub schema_latest: i64,
    /// Facts about this kind of store, by name.
    pub facts: Vec<(&'static str, Fact)>,
    /// Number of runs.
    pub runs: u64,
    /// Number of events of all runs.
    pub events: u64,
    /// Number of tasks, including ended ones.
    pub tasks: u64,
    /// Number of named locks, including free ones.
    pub locks: u64,
    /// Number of nodes that were not forgotten.
    pub nodes: u64,
    /// Problems of the store or its logs; empty if the store is sound.
    pub complaints: Vec<String>,
}

/// A fact about a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// In words.
    Text(String),
    /// As a number.
    Number(u64),
}

impl std::fmt::Display for Fact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl StoreReport {
    /// Returns whether there are no problems.
    pub fn is_sound(&self) -> bool {
        self.complaints.is_empty()
    }
}

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The schema before; 0: a new store.
    pub from: i64,
    /// The schema now.
    pub to: i64,
}

/// The result of compacting a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes before; 0 if the store does not know.
    pub before: u64,
    /// Bytes now.
    pub after: u64,
    /// What was done, and what else could be done.
    pub note: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_sound_without_complaints() {
        let facts = vec![("file", Fact::Text("a.db".to_owned())), ("pages", Fact::Number(7))];
        let shown: Vec<_> = facts.iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
        assert_eq!(shown, ["file: a.db", "pages: 7"]);
        let mut report = StoreReport {
            schema: 1,
            schema_latest: 1,
            facts,
            runs: 0,
            events: 0,
            tasks: 0,
            locks: 0,
            nodes: 0,
            complaints: Vec::new(),
        };
        assert!(report.is_sound());
        report.complaints.push("an event is missing".to_owned());
        assert!(!report.is_sound());
    }
}
