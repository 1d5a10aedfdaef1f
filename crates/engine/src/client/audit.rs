//! An audit: reads every row, log, task, lock and node of a store, and reports every problem.
//!
//! Cost: every record is read once. On object storage that is one LIST per 1,000 objects and one GET per object.

use goldseam_core::{RunId, Seq};
use goldseam_store::{Head, RecordKind, RunFilter, RunOrder, Unreadable};

use crate::client::Client;
use crate::ledger::error::EngineError;

/// Records per read of the store.
const PAGE: u32 = 500;

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditReport {
    /// Number of runs whose logs were read.
    pub runs: u64,
    /// Number of events read.
    pub events: u64,
    /// All problems, one line each.
    pub complaints: Vec<String>,
}

impl Client {
    /// Reads the whole store and reports unreadable records, damaged logs, and missing or wrong rows. Changes
    /// nothing. Calls `tell` with the number of runs read so far.
    pub async fn audit(&self, tell: &mut (dyn FnMut(u64) + Send)) -> Result<AuditReport, EngineError> {
        let mut audit = AuditReport::default();
        let mut after = None;
        loop {
            let lost = self.store().rowless(after.as_ref(), PAGE).await?;
            for run in &lost {
                self.audit_run(run, &mut audit).await?;
                tell(audit.runs);
            }
            after = lost.last().cloned();
            if after.is_none() {
                break;
            }
        }
        let mut filter = RunFilter { order: RunOrder::Newest, limit: PAGE, ..RunFilter::default() };
        loop {
            let page = self.store().runs(filter.clone()).await?;
            let unreadable: Vec<RunId> = page.unreadable.iter().filter_map(Unreadable::run).collect();
            for run in page.items.iter().map(|row| &row.summary.run).chain(&unreadable) {
                self.audit_run(run, &mut audit).await?;
                tell(audit.runs);
            }
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        self.audit_records(&mut audit).await?;
        Ok(audit)
    }

    async fn audit_run(&self, run: &RunId, audit: &mut AuditReport) -> Result<(), EngineError> {
        let Some(Head { end, row, unreadable }) = self.store().head(run).await? else { return Ok(()) };
        let log = match self.log(run).await {
            Ok(log) => log,
            Err(error @ EngineError::Store(_)) => {
                audit.complaints.push(format!("the log of run {run} cannot be read: {error}"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        audit.runs += 1;
        audit.events += log.events.len() as u64;
        audit.complaints.extend(log.damage.iter().map(|damage| format!("run {run}: {damage}")));
        match (row, unreadable) {
            (Some(row), _) if row.summary.as_of > end.max(log.end) => {
                let as_of = row.summary.as_of;
                audit
                    .complaints
                    .push(format!("run {run}: its row is as of event {as_of}, its log ends at {end}"));
            }
            (Some(row), _) if log.damage.is_empty() && row.summary.as_of == log.end => {
                let true_status = log.state(run).map(|state| state.summary.status);
                if let Some(status) = true_status.filter(|status| *status != row.summary.status) {
                    let says = row.summary.status;
                    audit.complaints.push(format!("run {run}: its row says {says}, its log says {status}"));
                }
            }
            (Some(_), _) => {}
            (None, Some(reason)) => {
                audit.complaints.push(format!("run {run}: its row cannot be read: {reason}"));
            }
            (None, None) if log.end > Seq::ZERO => {
                audit.complaints.push(format!("run {run}: its log has no row"));
            }
            (None, None) => {}
        }
        Ok(())
    }

    async fn audit_records(&self, audit: &mut AuditReport) -> Result<(), EngineError> {
        for kind in [RecordKind::Task, RecordKind::Lock, RecordKind::Node, RecordKind::Index] {
            let mut after = None;
            loop {
                let page = self.store().unreadable(kind, after.as_deref(), PAGE).await?;
                let line = |found: &Unreadable| {
                    format!("{} {} cannot be read: {}", kind.as_str(), found.key, found.reason)
                };
                audit.complaints.extend(page.items.iter().map(line));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}
