//! The schema of a store in a database: its migrations, and what opening does about an older one.

use goldseam_core::Hash;

use crate::error::StoreError;

/// What to do with a store that is missing or has an older schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Create or migrate it.
    CreateOrMigrate,
    /// Refuse it, and change nothing.
    RequireCurrent,
}

/// One step from a schema to the next.
#[derive(Debug)]
pub struct Migration {
    /// The number of the schema after it, from 1.
    pub number: i64,
    /// Its statements.
    pub sql: &'static str,
}

impl Migration {
    /// Returns the hash that a database records with an applied migration.
    pub fn hash(&self) -> String {
        Hash::of(self.sql.as_bytes()).to_string()
    }
}

/// Refuses a database whose migrations, as numbers and hashes, are not among these.
pub fn check_applied(
    known: &[Migration],
    applied: &[(i64, String)],
    place: &dyn std::fmt::Display,
) -> Result<(), StoreError> {
    for (number, hash) in applied {
        let known = known.iter().find(|migration| migration.number == *number);
        if known.is_none_or(|migration| migration.hash() != *hash) {
            return Err(StoreError::Refused {
                code: "GS0204",
                what: format!("migration {number} of {place} differs from this program's"),
                hint: "use the release that created this store; a released migration never changes".into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_changed_and_unknown_migrations() {
        let known = [Migration { number: 1, sql: "a" }, Migration { number: 2, sql: "b" }];
        let applied = |number: i64, sql: &'static str| (number, Migration { number, sql }.hash());
        let check = |applied: &[(i64, String)]| check_applied(&known, applied, &"here");
        assert!(check(&[applied(1, "a")]).is_ok());
        assert!(check(&[applied(1, "a"), applied(2, "b")]).is_ok());
        for wrong in [applied(1, "b"), applied(3, "a")] {
            assert!(matches!(check(&[wrong]), Err(StoreError::Refused { code: "GS0204", .. })));
        }
    }
}
