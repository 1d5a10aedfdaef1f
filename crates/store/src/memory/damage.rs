//! Damage on demand: hints that are lost, bytes that are changed. For tests of healing only.

use goldseam_core::{RunId, Seq, TaskId};

use super::MemoryStore;

impl MemoryStore {
    /// Loses the cached row of a run.
    pub fn lose_row(&self, run: &RunId) {
        self.change(|world| world.runs.get_mut(run).map(|run| run.row = None));
    }

    /// Loses a task.
    pub fn lose_task(&self, task: &TaskId) {
        self.change(|world| world.tasks.remove(task));
    }

    /// Loses every hint: all rows and all advance tasks. Logs, locks and users' tasks stay.
    pub fn lose_hints(&self) {
        self.change(|world| {
            world.runs.values_mut().for_each(|run| run.row = None);
            world.tasks.retain(|_, task| !task.is_advance());
        });
    }

    /// Changes the text of an event. Whether there was one.
    pub fn corrupt(&self, run: &RunId, seq: Seq, body: &str) -> bool {
        let place = usize::try_from(seq.before().0).unwrap_or(usize::MAX);
        self.change(|world| {
            let found = world.runs.get_mut(run).and_then(|run| run.log.get_mut(place)).filter(|_| seq.0 > 0);
            found.map(|text| body.clone_into(text)).is_some()
        })
    }
}
