//! Checks, migrates and compacts a schema, for `goldseam store`.

use std::sync::Arc;

use goldseam_store::StoreError;
use goldseam_store::check::{Compacted, Fact, Migrated, StoreReport};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::ConnectionTarget;
use crate::fault::PgFault;
use crate::migrate::{self, ask};
use crate::open;
use crate::sql::column;
use crate::url::PostgresOptions;

/// Most complaints that are reported.
const COMPLAINTS_MAX: i64 = 100;

const COUNTS: &str = "SELECT (SELECT count(*) FROM goldseam.runs), (SELECT count(*) FROM goldseam.events), \
    (SELECT count(*) FROM goldseam.tasks), (SELECT count(*) FROM goldseam.locks), \
    (SELECT count(*) FROM goldseam.nodes)";
const ABOUT: &str = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), \
    (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8 FROM pg_class AS c \
        JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r')";
/// A log may begin with a tombstone: earlier events are archived.
const GAPS: &str = "SELECT coalesce(r.id, '(unknown)'), l.count, l.last FROM (\
        SELECT e.rid, count(*) AS count, min(e.seq) AS first, max(e.seq) AS last FROM goldseam.events AS e \
        GROUP BY e.rid) AS l \
    LEFT JOIN goldseam.runs AS r ON r.rid = l.rid \
    WHERE l.count <> l.last - l.first + 1 OR r.id IS NULL OR (l.first <> 1 AND NOT EXISTS (\
        SELECT 1 FROM goldseam.events AS e WHERE e.rid = l.rid AND e.seq = l.first \
            AND strpos(e.body, '\"event\":{\"type\":\"run.pruned\"') > 0)) LIMIT $1";

/// Checks a schema. Reads all of it, and changes nothing.
pub async fn check(options: PostgresOptions) -> Result<StoreReport, StoreError> {
    let target = ConnectionTarget::new(options)?;
    let (client, _guard) = open::dedicated(&target).await?;
    let (_, schema) = migrate::identify(&client, &target).await?;
    let report = async {
        let about = one(ask(&client, &target, ABOUT, &[(&target.options.schema, Type::TEXT)]).await?)?;
        let facts = vec![
            ("server", Fact::Text(column(&about, 0)?)),
            ("schema_name", Fact::Text(target.options.schema.clone())),
            ("synchronous_commit", Fact::Text(column(&about, 1)?)),
            ("bytes", Fact::Number(column::<i64>(&about, 2)?.unsigned_abs())),
        ];
        let empty = StoreReport {
            schema,
            schema_latest: migrate::latest(),
            facts,
            runs: 0,
            events: 0,
            tasks: 0,
            locks: 0,
            nodes: 0,
            complaints: Vec::new(),
        };
        if schema == 0 {
            return Ok(empty);
        }
        let counts = one(ask(&client, &target, COUNTS, &[]).await?)?;
        let count = |index| column::<i64>(&counts, index).map(i64::unsigned_abs);
        let gaps = ask(&client, &target, GAPS, &[(&COMPLAINTS_MAX, Type::INT8)]).await?;
        Ok(StoreReport {
            runs: count(0)?,
            events: count(1)?,
            tasks: count(2)?,
            locks: count(3)?,
            nodes: count(4)?,
            complaints: gaps.iter().map(complaint).collect::<Result<_, PgFault>>()?,
            ..empty
        })
    };
    report.await.map_err(|fault: PgFault| fault.to_read_error())
}

fn one(rows: Vec<Row>) -> Result<Row, PgFault> {
    rows.into_iter().next().ok_or_else(|| PgFault::Damaged("the server returned no row".to_owned()))
}

fn complaint(row: &Row) -> Result<String, PgFault> {
    let run: String = column(row, 0)?;
    let count: i64 = column(row, 1)?;
    let end: i64 = column(row, 2)?;
    Ok(format!("the log of run {run} has {count} events but ends at {end}"))
}

/// Migrates a schema, or creates it.
pub async fn migrate(options: PostgresOptions) -> Result<Migrated, StoreError> {
    let target = Arc::new(ConnectionTarget::new(options)?);
    let (client, _guard) = open::dedicated(&target).await?;
    let from = migrate::apply(&client, &target).await?;
    Ok(Migrated { from, to: migrate::latest() })
}

/// The tables that pruning and ended runs leave space in.
const TABLES: [&str; 6] = ["events", "runs", "run_tags", "tasks", "locks", "nodes"];

/// Makes the space of removed rows usable again, and returns empty pages at the end of each table to the system. Nodes
/// may work meanwhile.
pub async fn compact(options: PostgresOptions) -> Result<Compacted, StoreError> {
    let target = Arc::new(ConnectionTarget::new(options)?);
    let (client, _guard) = open::dedicated(&target).await?;
    migrate::refuse_older(&client, &target).await?;
    let work = async {
        let bytes = async || -> Result<u64, PgFault> {
            let about = one(ask(&client, &target, ABOUT, &[(&target.options.schema, Type::TEXT)]).await?)?;
            Ok(column::<i64>(&about, 2)?.unsigned_abs())
        };
        let before = bytes().await?;
        let run = async |sql: &str| {
            let sql = target.sql(sql);
            client.batch_execute(&sql).await.map_err(|error| PgFault::answering(&error))
        };
        // A large table takes longer than any call of an engine.
        run("SET statement_timeout = 0").await?;
        for table in TABLES {
            run(&["VACUUM (ANALYZE) goldseam.", table].concat()).await?;
        }
        Ok((before, bytes().await?))
    };
    let (before, after) = work.await.map_err(|fault: PgFault| fault.to_error("compacting"))?;
    let note = "freed space is used again by new runs; VACUUM FULL would return all of it to the system, but it locks \
                out every node while it rewrites a table";
    Ok(Compacted { before, after, note: note.to_owned() })
}
