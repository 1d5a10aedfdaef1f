//! Migrations: numbered files that are applied in order, recorded by hash, and never edited.
//!
//! Invariant: all missing migrations are applied in one transaction under an advisory lock, and the schema is read
//! inside it, so any number of nodes may start at once.

use goldseam_core::{Hint, NextStep};
use goldseam_store::StoreError;
use goldseam_store::crash_points::reach;
use goldseam_store::schema::{Migration, check_applied};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connection::{ConnectionTarget, TypedValues};
use crate::fault::{PgFault, refused};
use crate::sql::column;

const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, sql: include_str!("../migrations/0001_init.sql") },
    Migration { number: 2, sql: include_str!("../migrations/0002_calls.sql") },
    Migration { number: 3, sql: include_str!("../migrations/0003_views.sql") },
    Migration { number: 4, sql: include_str!("../migrations/0004_feed.sql") },
    Migration { number: 5, sql: include_str!("../migrations/0005_withdrawn.sql") },
    Migration { number: 6, sql: include_str!("../migrations/0006_search.sql") },
    Migration { number: 7, sql: include_str!("../migrations/0007_audit.sql") },
    Migration { number: 8, sql: include_str!("../migrations/0008_resting.sql") },
    Migration { number: 9, sql: include_str!("../migrations/0009_lean.sql") },
    Migration { number: 10, sql: include_str!("../migrations/0010_sets.sql") },
    Migration { number: 11, sql: include_str!("../migrations/0011_covers.sql") },
    Migration { number: 12, sql: include_str!("../migrations/0012_deadlines.sql") },
];

/// The oldest supported version of Postgres, as `server_version_num`.
pub(crate) const SERVER_OLDEST: i32 = 140_000;

const REGISTER: &str = "CREATE TABLE goldseam.migrations (number bigint PRIMARY KEY, hash text NOT NULL, \
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp())";
/// Read committed: a process that waited for the lock must see the commits meanwhile.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 0; \
    SET LOCAL statement_timeout = 0; SET LOCAL client_min_messages = warning";
const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
const APPLIED: &str = "INSERT INTO goldseam.migrations (number, hash) VALUES ($1, $2)";
const HASHES: &str = "SELECT m.number, m.hash FROM goldseam.migrations AS m ORDER BY m.number";
const INSPECT: &str = "SELECT current_setting('server_version_num')::int4, current_setting('server_encoding'), \
    EXISTS (SELECT 1 FROM pg_namespace AS n WHERE n.nspname = $1), \
    (SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1), \
    (SELECT count(*) FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid \
        JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'migrations' \
        AND a.attname IN ('number', 'hash', 'applied_at'))";

/// The number of the schema that this program needs.
pub fn latest() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

/// The properties of a server and its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    /// The `server_version_num` of the server.
    pub(crate) server: i32,
    encoding: String,
    exists: bool,
    objects: i64,
    ours: bool,
}

/// Runs a statement on a dedicated connection.
pub(crate) async fn ask(
    client: &Client,
    target: &ConnectionTarget,
    sql: &str,
    values: TypedValues<'_>,
) -> Result<Vec<Row>, PgFault> {
    client.query_typed(&target.sql(sql), values).await.map_err(|error| PgFault::answering(&error))
}

async fn execute(client: &Client, target: &ConnectionTarget, sql: &str) -> Result<(), PgFault> {
    client.batch_execute(&target.sql(sql)).await.map_err(|error| PgFault::answering(&error))
}

/// Refuses an unusable server or schema. Changes nothing. Returns the number of the schema.
pub(crate) async fn identify(
    client: &Client,
    target: &ConnectionTarget,
) -> Result<(ServerFacts, i64), StoreError> {
    let failed = |fault: PgFault| fault.to_read_error();
    let schema = &target.options.schema;
    let rows = ask(client, target, INSPECT, &[(schema, Type::TEXT)]).await.map_err(failed)?;
    let read = |row: &Row| {
        Ok(ServerFacts {
            server: column(row, 0)?,
            encoding: column(row, 1)?,
            exists: column(row, 2)?,
            objects: column(row, 3)?,
            ours: column::<i64>(row, 4)? == 3,
        })
    };
    let no_row = || StoreError::Damaged { detail: "the server returned no row".to_owned() };
    let row = rows.first().ok_or_else(no_row)?;
    let found = read(row).map_err(failed)?;
    check_usable(&found, target)?;
    if !found.ours {
        return Ok((found, 0));
    }
    let rows = ask(client, target, HASHES, &[]).await.map_err(failed)?;
    let hashes =
        rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect::<Result<Vec<_>, PgFault>>();
    let number = newest_known(&hashes.map_err(failed)?, target)?;
    Ok((found, number))
}

/// Refuses an old server, another encoding, and a schema of another program.
fn check_usable(found: &ServerFacts, target: &ConnectionTarget) -> Result<(), StoreError> {
    if found.server < SERVER_OLDEST {
        let major = found.server / 10_000;
        let oldest = SERVER_OLDEST / 10_000;
        return Err(refused(
            "GS0216",
            format!("this is Postgres {major}; Goldseam needs {oldest} or later"),
            "use a newer server; Goldseam changed nothing on this one",
        ));
    }
    if found.encoding != "UTF8" {
        return Err(refused(
            "GS0216",
            format!("{} has encoding {}; Goldseam needs UTF8", target.options.place(), found.encoding),
            "create another database: createdb --encoding=UTF8 --template=template0 NAME",
        ));
    }
    if !found.ours && found.objects > 0 {
        let schema = &target.options.schema;
        return Err(refused(
            "GS0201",
            format!("schema {schema:?} of {} holds tables of another program", target.options.place()),
            "pass another schema with schema=NAME in the URL; Goldseam creates it if it does not exist",
        ));
    }
    Ok(())
}

/// Returns the number of the newest applied migration. All applied migrations must be known.
fn newest_known(applied: &[(i64, String)], target: &ConnectionTarget) -> Result<i64, StoreError> {
    let newest = applied.last().map_or(0, |(number, _)| *number);
    let place = target.options.place();
    if newest > latest() {
        return Err(refused(
            "GS0202",
            format!("{place} has schema {newest}; this program supports schemas up to {}", latest()),
            "use a newer goldseam; an older one must not write to a schema that it does not know",
        ));
    }
    check_applied(MIGRATIONS, applied, &place)?;
    Ok(newest)
}

/// Refuses a missing or older schema. Changes nothing.
pub(crate) async fn refuse_older(client: &Client, target: &ConnectionTarget) -> Result<(), StoreError> {
    let (_, number) = identify(client, target).await?;
    let place = target.options.place();
    let migrate = || NextStep::StoreMigrate { store: None };
    match number {
        0 => Err(refused(
            "GS0205",
            format!("{place} has no Goldseam schema {:?}", target.options.schema),
            Hint::from("start an engine, which creates it, or run ").step(migrate()).text(" with this URL"),
        )),
        number if number == latest() => Ok(()),
        number => Err(refused(
            "GS0212",
            format!("{place} has schema {number}; this program needs schema {}", latest()),
            Hint::from("run ")
                .step(migrate())
                .text(" with this URL; older programs cannot use the database after that"),
        )),
    }
}

/// Applies missing migrations. Returns the number of the schema before.
pub(crate) async fn apply(client: &Client, target: &ConnectionTarget) -> Result<i64, StoreError> {
    let (_, before) = identify(client, target).await?;
    if before == latest() {
        return Ok(before);
    }
    let failed = |fault: PgFault| fault.to_error("migrating");
    execute(client, target, BEGIN).await.map_err(failed)?;
    let key = lock_key(&target.options.schema);
    ask(client, target, LOCK, &[(&key, Type::INT8)]).await.map_err(failed)?;
    let (found, from) = identify(client, target).await?;
    if !found.exists {
        create_schema(client, target).await.map_err(failed)?;
    }
    if !found.ours {
        execute(client, target, REGISTER).await.map_err(failed)?;
    }
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > from) {
        reach("migration");
        execute(client, target, migration.sql).await.map_err(failed)?;
        let values = [(&migration.number as _, Type::INT8), (&migration.hash() as _, Type::TEXT)];
        ask(client, target, APPLIED, &values).await.map_err(failed)?;
    }
    reach("migrations-commit");
    execute(client, target, "COMMIT").await.map_err(failed)?;
    reach("migrations-committed");
    Ok(from)
}

async fn create_schema(client: &Client, target: &ConnectionTarget) -> Result<(), PgFault> {
    // The URL parser has checked the name, which needs no quotes.
    execute(client, target, &["CREATE SCHEMA ", &target.options.schema].concat()).await
}

/// The key of the advisory lock of migrations.
fn lock_key(schema: &str) -> i64 {
    crate::advisory_lock::key_of(&["migrate", schema])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_servers_older_than_the_oldest_supported() {
        let target =
            ConnectionTarget::new(crate::url::parse("postgres://127.0.0.1/orders").unwrap()).unwrap();
        let server = |server: i32| ServerFacts {
            server,
            encoding: "UTF8".to_owned(),
            exists: false,
            objects: 0,
            ours: false,
        };
        for old in [90_624, 120_022, 130_014, SERVER_OLDEST - 1] {
            let error = check_usable(&server(old), &target).unwrap_err();
            let StoreError::Refused { code: "GS0216", what, hint } = error else { panic!("{error:?}") };
            assert!(what.contains(&format!("Postgres {};", old / 10_000)) && !hint.is_empty(), "{what}");
        }
        for new in [SERVER_OLDEST, 150_018, 180_001] {
            check_usable(&server(new), &target).unwrap();
        }
    }
}
