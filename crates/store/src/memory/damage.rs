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

    /// Loses an event: the others stay where they are. Whether there was one.
    pub fn lose_event(&self, run: &RunId, seq: Seq) -> bool {
        self.change(|world| world.runs.get_mut(run).and_then(|run| run.log.remove(&seq)).is_some())
    }

    /// Changes the text of an event. Whether there was one.
    pub fn corrupt(&self, run: &RunId, seq: Seq, body: &str) -> bool {
        self.change(|world| {
            let found = world.runs.get_mut(run).and_then(|run| run.log.get_mut(&seq));
            found.map(|text| body.clone_into(text)).is_some()
        })
    }
}

#[cfg(any(test, feature = "conformance"))]
#[async_trait::async_trait]
impl crate::conformance::Damage for MemoryStore {
    async fn lose_row(&self, run: &RunId) {
        self.lose_row(run);
    }

    async fn lose_task(&self, task: &TaskId) {
        self.lose_task(task);
    }

    async fn lose_event(&self, run: &RunId, seq: Seq) {
        assert!(self.lose_event(run, seq), "{run} has no event {seq} to lose");
    }

    async fn corrupt(&self, run: &RunId, seq: Seq, body: &str) {
        assert!(self.corrupt(run, seq, body), "{run} has no event {seq} to change");
    }

    async fn lose_hints(&self) {
        self.lose_hints();
    }

    async fn put_foreign(&self, id: &RunId, body: &str) {
        self.put_foreign(id, body);
    }
}
