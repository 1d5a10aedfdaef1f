//! Damage on demand, for tests of healing: lost hints and altered bytes.

use goldseam_core::{LockName, NodeId, RunId, Seq, TaskId};

use super::{MemoryState, MemoryStore};
use crate::api::{NodeSeen, Page, RecordKind, Unreadable};

/// The reason of every unreadable record.
pub(super) const REASON: &str = "it was garbled";

impl MemoryState {
    /// Returns all unreadable records of a kind.
    pub(super) fn unreadable(&self, kind: RecordKind) -> Page<Unreadable> {
        let name = |key: &str| Unreadable::new(kind, key, REASON);
        let items = match kind {
            RecordKind::Row => {
                let garbled = self.runs.iter().filter(|(_, run)| run.garbled.is_some());
                garbled.map(|(id, _)| name(id.as_str())).collect()
            }
            RecordKind::Task => {
                let is_advance = |id: &TaskId| self.tasks.get(id).is_some_and(|task| task.is_advance());
                let task = |id: &TaskId| Unreadable { advance: is_advance(id), ..name(id.as_str()) };
                self.garbled.tasks.iter().map(task).collect()
            }
            RecordKind::Lock => self.garbled.locks.iter().map(|id| name(id.as_str())).collect(),
            RecordKind::Node => self.garbled.nodes.iter().map(|id| name(id.as_str())).collect(),
            RecordKind::Index => Vec::new(),
        };
        Page { items, ..Page::default() }
    }

    pub(super) fn list_nodes(&self) -> Vec<NodeSeen> {
        let shown = |seen: &NodeSeen| match self.garbled.nodes.contains(&seen.record.id) {
            true => Unreadable::node(seen.record.id.clone(), seen.beat_at, seen.pulse),
            false => seen.clone(),
        };
        self.nodes.values().map(shown).collect()
    }
}

impl MemoryStore {
    /// Makes the cached row of a run unreadable.
    pub fn garble_row(&self, run: &RunId) {
        self.change(|state| {
            if let Some(run) = state.runs.get_mut(run)
                && let Some(row) = run.row.take()
            {
                run.garbled = Some(row);
            }
        });
    }

    /// Makes a task unreadable. Returns whether it exists.
    pub fn garble_task(&self, task: &TaskId) -> bool {
        self.change(|state| state.tasks.contains_key(task) && state.garbled.tasks.insert(task.clone()))
    }

    /// Makes a lock unreadable. Returns whether it exists.
    pub fn garble_lock(&self, lock: &LockName) -> bool {
        self.change(|state| state.locks.contains_key(lock) && state.garbled.locks.insert(lock.clone()))
    }

    /// Makes the record of a node unreadable until its next beat. Returns whether it exists.
    pub fn garble_node(&self, node: &NodeId) -> bool {
        self.change(|state| state.nodes.contains_key(node) && state.garbled.nodes.insert(node.clone()))
    }

    /// Deletes the cached row of a run.
    pub fn lose_row(&self, run: &RunId) {
        self.change(|state| {
            if let Some(run) = state.runs.get_mut(run) {
                (run.row, run.garbled) = (None, None);
            }
        });
    }

    /// Deletes a task.
    pub fn lose_task(&self, task: &TaskId) {
        self.change(|state| {
            state.garbled.tasks.remove(task);
            state.tasks.remove(task)
        });
    }

    /// Deletes every hint: all rows and all advance tasks. Logs, locks and users' tasks stay.
    pub fn lose_hints(&self) {
        self.change(|state| {
            state.runs.values_mut().for_each(|run| (run.row, run.garbled) = (None, None));
            state.tasks.retain(|_, task| !task.is_advance());
            let tasks = &state.tasks;
            state.garbled.tasks.retain(|id| tasks.contains_key(id));
        });
    }

    /// Deletes an event; the others keep their positions. Returns whether it existed.
    pub fn lose_event(&self, run: &RunId, seq: Seq) -> bool {
        self.change(|state| state.runs.get_mut(run).and_then(|run| run.log.remove(&seq)).is_some())
    }

    /// Replaces the text of an event. Returns whether it exists.
    pub fn corrupt(&self, run: &RunId, seq: Seq, body: &str) -> bool {
        self.change(|state| {
            let found = state.runs.get_mut(run).and_then(|run| run.log.get_mut(&seq));
            found.map(|text| body.clone_into(text)).is_some()
        })
    }
}
