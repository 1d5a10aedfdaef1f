//! Nodes: one row of beats each, and a session lock that the server drops when the process or its machine dies.
//!
//! Invariant: a node's lock is taken before its row is visible. A free lock is only a suspicion, and not even that
//! right after the server or this process's session came back: then all locks were dropped.

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Page, Pulse, RecordKind, StoreError, Unreadable};
use tokio_postgres::types::{ToSql, Type};

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::liveness::SETTLING;
use crate::sql::{column, json, json_text};

pub(crate) const BEAT: &str = "SELECT goldseam.beat($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const LIST: &str = "SELECT n.id, n.name, n.started_at, n.workflows, n.slots, n.state, n.beats, n.beat_at, \
    n.pulse IS NOT NULL, EXISTS (SELECT 1 FROM pg_locks AS l WHERE l.locktype = 'advisory' AND l.granted \
        AND l.objsubid = 1 AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database()) \
        AND ((l.classid::bigint << 32) | l.objid::bigint) = n.pulse), \
    extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8 \
    FROM goldseam.nodes AS n ORDER BY n.id";
pub(crate) const FORGET: &str = "DELETE FROM goldseam.nodes AS n WHERE n.id = $1";

/// Whether a node has ended, by its own record.
pub(crate) fn is_over(node: &NodeRecord) -> bool {
    matches!(node.state, NodeState::Left | NodeState::Gone)
}

/// A beat as the SQL function takes it.
#[derive(Debug)]
pub(crate) struct BeatArgs {
    now: Option<i64>,
    pulse: Option<i64>,
    is_over: bool,
    id: String,
    name: String,
    started_at: i64,
    workflows: String,
    slots: i64,
    state: &'static str,
}

impl BeatArgs {
    pub(crate) fn new(now: Option<i64>, pulse: Option<i64>, node: &NodeRecord) -> Result<Self, StoreError> {
        Ok(Self {
            now,
            pulse,
            is_over: is_over(node),
            id: node.id.as_str().to_owned(),
            name: node.name.clone(),
            started_at: node.started_at.0,
            workflows: json_text(Some(&node.labels()))?.unwrap_or_default(),
            slots: node.slots.into(),
            state: node.state.as_str(),
        })
    }

    pub(crate) fn values(&self) -> [(&(dyn ToSql + Sync), Type); 9] {
        [
            (&self.now, Type::INT8),
            (&self.pulse, Type::INT8),
            (&self.is_over, Type::BOOL),
            (&self.id, Type::TEXT),
            (&self.name, Type::TEXT),
            (&self.started_at, Type::INT8),
            (&self.workflows, Type::TEXT),
            (&self.slots, Type::INT8),
            (&self.state, Type::TEXT),
        ]
    }

    /// The time of the database, from the result.
    pub(crate) fn time(rows: &[tokio_postgres::Row]) -> Result<i64, PgFault> {
        column(rows.first().ok_or_else(|| PgFault::Damaged("the beat returned no row".to_owned()))?, 0)
    }
}

/// Lists all nodes with their pulses. `settled` says whether this process may trust the locks that it sees.
pub(crate) async fn list(connection: &PgConnection, settled: bool) -> Result<Vec<NodeSeen>, StoreError> {
    let rows = connection.read(LIST, &[]).await?;
    let seen = rows.iter().map(|row| seen(row, settled)).filter_map(Result::transpose);
    seen.collect::<Result<_, PgFault>>().map_err(|fault| fault.to_read_error())
}

/// A node as lists show it. An unreadable node counts as up.
fn seen(row: &tokio_postgres::Row, settled: bool) -> Result<Option<NodeSeen>, PgFault> {
    if let Ok(node) = read(row, settled) {
        return Ok(Some(node));
    }
    let id: String = column(row, 0)?;
    let Ok(id) = NodeId::new(id) else { return Ok(None) };
    let pulse = if column(row, 9)? { Pulse::Held } else { Pulse::Unknown };
    Ok(Some(Unreadable::node(id, Millis(column(row, 7)?), pulse)))
}

/// Lists the nodes whose records are unreadable.
pub(crate) async fn unreadable(connection: &PgConnection) -> Result<Page<Unreadable>, StoreError> {
    let mut page = Page::default();
    for row in connection.read(LIST, &[]).await? {
        if let Err(fault) = read(&row, true) {
            let id: String = column(&row, 0).map_err(|fault: PgFault| fault.to_read_error())?;
            page.items.push(Unreadable::new(RecordKind::Node, id, fault.to_read_error()));
        }
    }
    Ok(page)
}

fn read(row: &tokio_postgres::Row, settled: bool) -> Result<NodeSeen, PgFault> {
    let damaged = |error: &dyn std::fmt::Display| PgFault::unreadable("a node", error);
    let id: String = column(row, 0)?;
    let state: String = column(row, 5)?;
    let labels: String = column(row, 3)?;
    let labels = json(Some(&labels)).map_err(|error| damaged(&error))?.unwrap_or_default();
    let (workflows, timing) = NodeRecord::parse_labels(labels);
    let state = NodeState::named(&state).ok_or_else(|| damaged(&format!("unknown node state {state:?}")))?;
    let slots: i64 = column(row, 4)?;
    let beats: i64 = column(row, 6)?;
    let record = NodeRecord {
        id: NodeId::new(id).map_err(|error| damaged(&error))?,
        name: column(row, 1)?,
        started_at: Millis(column(row, 2)?),
        workflows,
        slots: u32::try_from(slots).map_err(|error| damaged(&error))?,
        timing,
        state,
    };
    let settled = column::<f64>(row, 10)? >= SETTLING.as_secs_f64() && settled;
    let pulse = match (column(row, 8)?, column(row, 9)?) {
        (false, _) => Pulse::Unknown,
        (true, true) => Pulse::Held,
        // The node itself said that it ended.
        (true, false) if is_over(&record) => Pulse::Dropped,
        (true, false) if settled => Pulse::Suspect,
        (true, false) => Pulse::Unknown,
    };
    Ok(NodeSeen { record, beats: beats.unsigned_abs(), beat_at: Millis(column(row, 7)?), pulse })
}
