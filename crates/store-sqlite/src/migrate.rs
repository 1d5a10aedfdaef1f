//! Migrations: numbered files that are applied in order, recorded by hash, and never edited.
//!
//! Invariant: all missing migrations are applied in one transaction, and the schema is read inside it, so any number of
//! processes may start at once.

use std::path::Path;

use goldseam_core::{Hint, Millis, NextStep};
use goldseam_store::StoreError;
use goldseam_store::crash_points::reach;
use goldseam_store::schema::{Migration, check_applied};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::fault::refused;
use crate::files::{cannot_open, not_ours};

/// The application id in the header of the file: "Gold".
pub(crate) const APPLICATION_ID: i32 = 0x476F_6C64;

pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, sql: include_str!("../migrations/0001_init.sql") },
    Migration { number: 2, sql: include_str!("../migrations/0002_healing.sql") },
    Migration { number: 3, sql: include_str!("../migrations/0003_claims.sql") },
    Migration { number: 4, sql: include_str!("../migrations/0004_remote_steps.sql") },
    Migration { number: 5, sql: include_str!("../migrations/0005_views.sql") },
    Migration { number: 6, sql: include_str!("../migrations/0006_withdrawn.sql") },
    Migration { number: 7, sql: include_str!("../migrations/0007_search.sql") },
    Migration { number: 8, sql: include_str!("../migrations/0008_audit.sql") },
    Migration { number: 9, sql: include_str!("../migrations/0009_resting.sql") },
    Migration { number: 10, sql: include_str!("../migrations/0010_lean.sql") },
];

pub(crate) const REGISTER: &str = "CREATE TABLE goldseam_migrations (number INTEGER PRIMARY KEY, hash TEXT NOT NULL, \
    applied_at INTEGER NOT NULL)";

/// The number of the schema that this program needs.
pub fn latest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// The number of the schema of a database.
pub(crate) fn schema(conn: &Connection) -> rusqlite::Result<i64> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Refuses a database of another program, or with a newer schema. Changes nothing. Returns the number of its schema.
pub(crate) fn identify(conn: &Connection, path: &Path) -> Result<i64, StoreError> {
    let read = || -> rusqlite::Result<(i32, i64, i64)> {
        let application = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let objects = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((application, objects, schema(conn)?))
    };
    let (application, objects, schema) = read().map_err(|error| cannot_open(path, &error))?;
    match application {
        APPLICATION_ID => {}
        0 if objects == 0 && schema == 0 => {}
        0 => return Err(not_ours(path, "it holds tables of another program")),
        _ => return Err(not_ours(path, "its application id is that of another program")),
    }
    if schema > latest() {
        return Err(refused(
            "GS0202",
            format!(
                "{} has schema {schema}; this program supports schemas up to {}",
                path.display(),
                latest()
            ),
            "use a newer goldseam; an older one must not write to a schema that it does not know",
        ));
    }
    Ok(schema)
}

/// Refuses a database with an older schema. Changes nothing.
pub(crate) fn refuse_older(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    match identify(conn, path)? {
        0 => Ok(()),
        schema if schema == latest() => Ok(()),
        schema => Err(refused(
            "GS0212",
            format!("{} has schema {schema}; this program needs schema {}", path.display(), latest()),
            Hint::from("run ")
                .step(NextStep::StoreMigrate { store: Some(format!("sqlite:{}", path.display())) })
                .text("; older programs cannot use the database after that"),
        )),
    }
}

/// Applies missing migrations. Returns the number of the schema before.
pub(crate) fn apply(conn: &mut Connection, path: &Path, now: Millis) -> Result<i64, StoreError> {
    let failed = |error: rusqlite::Error| cannot_open(path, &error);
    let before = identify(conn, path)?;
    if before == latest() {
        check_hashes(conn, path)?;
        return Ok(before);
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let from = identify(&transaction, path)?;
    if from == 0 {
        let begin = || -> rusqlite::Result<()> {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.execute_batch(REGISTER)
        };
        begin().map_err(failed)?;
    }
    check_hashes(&transaction, path)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > from) {
        reach("migration");
        step(&transaction, migration, now).map_err(failed)?;
    }
    reach("migrations-commit");
    transaction.commit().map_err(failed)?;
    reach("migrations-committed");
    Ok(before)
}

pub(crate) fn step(conn: &Connection, migration: &Migration, now: Millis) -> rusqlite::Result<()> {
    conn.execute_batch(migration.sql)?;
    conn.execute(
        "INSERT INTO goldseam_migrations (number, hash, applied_at) VALUES (?1, ?2, ?3)",
        params![migration.number, migration.hash(), now.0],
    )?;
    conn.pragma_update(None, "user_version", migration.number)
}

fn check_hashes(conn: &Connection, path: &Path) -> Result<(), StoreError> {
    let read = || -> rusqlite::Result<Vec<(i64, String)>> {
        let mut statement = conn.prepare("SELECT number, hash FROM goldseam_migrations ORDER BY number")?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    let applied = read().map_err(|error| cannot_open(path, &error))?;
    check_applied(MIGRATIONS, &applied, &path.display())
}
