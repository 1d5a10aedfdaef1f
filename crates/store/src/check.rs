//! What looking a store over and migrating it report, whichever store it is.

/// What was found in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The schema of the store.
    pub schema: i64,
    /// The schema that this program writes.
    pub schema_latest: i64,
    /// What only this kind of store has to say about itself, by name.
    pub facts: Vec<(&'static str, Fact)>,
    /// Runs.
    pub runs: u64,
    /// Events of all runs.
    pub events: u64,
    /// Tasks, finished ones too.
    pub tasks: u64,
    /// Named locks, free ones too.
    pub locks: u64,
    /// Nodes that were not forgotten.
    pub nodes: u64,
    /// What is wrong with the store or its logs; empty if nothing is.
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

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.complaints.is_empty()
    }
}

/// What a migration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The schema before; 0 is a new store.
    pub from: i64,
    /// The schema now.
    pub to: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_sound_until_somebody_complains() {
        let facts = vec![("file", Fact::Text("a.db".to_owned())), ("pages", Fact::Number(7))];
        let shown: Vec<_> = facts.iter().map(|(name, fact)| format!("{name}: {fact}")).collect();
        assert_eq!(shown, ["file: a.db", "pages: 7"]);
        let (schema, schema_latest, complaints) = (1, 1, Vec::new());
        let (runs, events, tasks, locks, nodes) = (0, 0, 0, 0, 0);
        let mut report =
            Report { schema, schema_latest, facts, runs, events, tasks, locks, nodes, complaints };
        assert!(report.is_sound());
        report.complaints.push("an event is missing".to_owned());
        assert!(!report.is_sound());
    }
}
