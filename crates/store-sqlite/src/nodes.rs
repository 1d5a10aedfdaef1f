//! Nodes: one row of beats each. A node's liveness lock is taken before its row is written.

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Page, Pulse, RecordKind, Unreadable};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::fault::SqliteFault;
use crate::liveness::LivenessLocks;
use crate::sql::{cell, id, is_unreadable, json, json_text, reason, text_of};
use crate::writer::JobContext;

const BEAT: &str = "INSERT INTO nodes (id, name, started_at, workflows, slots, state, beats, beat_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7) ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
    started_at = excluded.started_at, workflows = excluded.workflows, slots = excluded.slots, \
    state = excluded.state, beats = beats + 1, beat_at = excluded.beat_at";
const LIST: &str =
    "SELECT id, name, started_at, workflows, slots, state, beats, beat_at FROM nodes ORDER BY id";
const FORGET: &str = "DELETE FROM nodes WHERE id = ?1";

/// Whether a node has ended, by its own record.
pub(crate) fn is_over(node: &NodeRecord) -> bool {
    matches!(node.state, NodeState::Left | NodeState::Gone)
}

/// Writes a beat of a node.
pub(crate) fn beat(work: &JobContext<'_>, node: &NodeRecord) -> Result<Millis, SqliteFault> {
    work.conn.prepare_cached(BEAT)?.execute(params![
        node.id.as_str(),
        node.name,
        node.started_at.0,
        json_text(Some(&node.labels()))?,
        node.slots,
        node.state.as_str(),
        work.now.0,
    ])?;
    Ok(work.now)
}

/// Removes the row of a node.
pub(crate) fn forget(work: &JobContext<'_>, node: &NodeId) -> Result<(), SqliteFault> {
    work.conn.prepare_cached(FORGET)?.execute([node.as_str()])?;
    Ok(())
}

/// Lists all nodes with their pulses.
pub(crate) fn list(conn: &Connection, liveness: &LivenessLocks) -> Result<Vec<NodeSeen>, SqliteFault> {
    let mut statement = conn.prepare_cached(LIST)?;
    let seen = statement.query_map([], seen)?.filter_map(Result::transpose);
    let seen = seen.collect::<rusqlite::Result<Vec<NodeSeen>>>()?;
    Ok(seen.into_iter().map(|node| NodeSeen { pulse: liveness.pulse(&node.record.id), ..node }).collect())
}

/// A node as lists show it. An unreadable node counts as up.
fn seen(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<NodeSeen>> {
    match read(row) {
        Err(error) if is_unreadable(&error) => {
            let Some(id) = text_of(row, 0)? else { return Ok(None) };
            let beat_at = match cell(row, 7)? {
                Value::Integer(at) => Millis(at),
                _ => Millis(0),
            };
            Ok(NodeId::new(id).ok().map(|id| Unreadable::node(id, beat_at, Pulse::Unknown)))
        }
        read => read.map(Some),
    }
}

/// Lists the nodes whose records are unreadable.
pub(crate) fn unreadable(conn: &Connection) -> Result<Page<Unreadable>, SqliteFault> {
    let mut statement = conn.prepare_cached(LIST)?;
    let mut rows = statement.query([])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        if let Err(error) = read(row) {
            let key = text_of(row, 0)?.unwrap_or_else(|| "(unreadable id)".to_owned());
            page.items.push(Unreadable::new(RecordKind::Node, key, reason(&error)));
        }
    }
    Ok(page)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<NodeSeen> {
    let state: String = row.get(5)?;
    let (workflows, timing) = NodeRecord::parse_labels(json(row, 3)?.unwrap_or_default());
    Ok(NodeSeen {
        record: NodeRecord {
            id: id(row, 0)?,
            name: row.get(1)?,
            started_at: Millis(row.get(2)?),
            workflows,
            slots: row.get(4)?,
            timing,
            state: NodeState::named(&state)
                .ok_or_else(|| rusqlite::Error::InvalidColumnType(5, state, rusqlite::types::Type::Text))?,
        },
        beats: row.get::<_, i64>(6)?.unsigned_abs(),
        beat_at: Millis(row.get(7)?),
        pulse: Pulse::Unknown,
    })
}
