//! Counts and digests of everything in one store.

use std::future::ready;

use goldseam_core::lock::Lock;
use goldseam_core::task::Task;
use goldseam_core::{Hash, RunId};
use goldseam_store::{RecordKind, Unreadable};

use super::concurrent::each;
use super::report::{CopyFinding, CopyProgress, CopyStage, Digest, RecordName};
use super::side::{ListedRun, LockPages, Runs, TaskPages};
use super::survey::Print;
use super::{Copier, CopyOptions};
use goldseam_engine::client::Client;
use goldseam_engine::ledger::error::EngineError;

/// Records per read when looking for unreadable ones.
const PAGE: u32 = 1_000;
/// Maximum number of findings kept.
const FINDINGS_MAX: usize = 1_000;

/// Counts and digests of everything in a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreContents {
    /// All logs: runs, events, and the hash of all chains.
    pub logs: Digest,
    /// Number of tasks.
    pub tasks: u64,
    /// Number of locks, without the mark of a copy.
    pub locks: u64,
    /// Hash of all tasks and locks with all of their fields, independent of their order.
    pub records: u128,
    /// The same without some of their fields, as the first format of backups has it.
    pub records_in_part: u128,
    /// Active runs.
    pub active: u64,
    /// Damaged logs and unreadable records.
    pub findings: Vec<CopyFinding>,
}

/// What one log adds.
struct LogContents {
    run: RunId,
    print: Option<Print>,
    is_active: bool,
    finding: Option<CopyFinding>,
}

/// Reads everything in a store: checks every event and every chain of hashes, and reports what is damaged or
/// unreadable.
pub async fn contents_of(
    client: &Client,
    watcher: impl Fn(CopyProgress) + Send + Sync + 'static,
) -> Result<StoreContents, EngineError> {
    let copier = Copier::new((client, "the store"), (client, "the store"), CopyOptions::default());
    copier.watched_by(watcher).contents().await
}

impl Copier {
    async fn contents(&self) -> Result<StoreContents, EngineError> {
        let mut all = StoreContents::default();
        let mut done = 0;
        let read = |listed: ListedRun| {
            let copier = self.clone();
            async move { copier.log_contents(listed).await }
        };
        each(Runs::of(&self.from), read, |log: LogContents| {
            if let Some(print) = log.print {
                all.logs.add(&log.run, print);
            }
            all.active += u64::from(log.is_active);
            all.find(log.finding);
            done += 1;
            self.report_progress(CopyProgress { stage: CopyStage::Verifying, done, total: 0 });
        })
        .await?;
        each(
            TaskPages::of(&self.from),
            |task: Task| ready(Ok((record_hash("task", &task), task_hash(&task)))),
            |(whole, part)| {
                all.tasks += 1;
                all.add(whole, part);
            },
        )
        .await?;
        each(
            LockPages::of(&self.from),
            |lock: Lock| ready(Ok((record_hash("lock", &lock), lock_hash(&lock)))),
            |(whole, part)| {
                all.locks += 1;
                all.add(whole, part);
            },
        )
        .await?;
        self.note_unreadable(&mut all).await?;
        Ok(all)
    }

    async fn log_contents(&self, listed: ListedRun) -> Result<LogContents, EngineError> {
        let damaged = |what: String| CopyFinding::new("K1", RecordName::run(&listed.run), what);
        let (print, is_active, finding) = match self.survey(&listed, None).await {
            Ok(log) => {
                let is_active = log.row.as_ref().is_some_and(|row| row.status.is_active());
                let finding = log.corrupt.as_ref().map(|corrupt| damaged(corrupt.to_string()));
                (Some(log.print), is_active, finding.or_else(|| wrong_row(&listed, log.print)))
            }
            Err(EngineError::Corrupt { corrupt, .. }) => (None, false, Some(damaged(corrupt.to_string()))),
            Err(error) => return Err(error),
        };
        Ok(LogContents { run: listed.run, print, is_active, finding })
    }

    async fn note_unreadable(&self, all: &mut StoreContents) -> Result<(), EngineError> {
        for kind in [RecordKind::Task, RecordKind::Lock] {
            let mut after = None;
            loop {
                let store = self.from.store();
                let ask = || store.unreadable(kind, after.as_deref(), PAGE);
                let page = self.from.ask("looking for unreadable records", ask).await?;
                page.items.iter().for_each(|found| all.find(Some(unreadable(found))));
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(())
    }
}

impl StoreContents {
    fn add(&mut self, whole: Hash, part: Hash) {
        self.records = self.records.wrapping_add(u128::from_be_bytes(whole.0));
        self.records_in_part = self.records_in_part.wrapping_add(u128::from_be_bytes(part.0));
    }

    fn find(&mut self, finding: Option<CopyFinding>) {
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        self.findings.extend(finding.into_iter().take(room));
    }
}

/// The finding about a cached row that does not name the end of its log.
fn wrong_row(listed: &ListedRun, print: Print) -> Option<CopyFinding> {
    let row = listed.row.as_ref()?;
    let what = format!("its row ends at {}, its log at {}", row.summary.as_of, print.end);
    (row.summary.as_of > print.end).then(|| CopyFinding::new("K1", RecordName::run(&listed.run), what))
}

fn unreadable(found: &Unreadable) -> CopyFinding {
    CopyFinding::of_record(found.kind, &found.key, &found.reason)
}

/// The hash of a record with all of its fields.
fn record_hash(kind: &str, record: &impl serde::Serialize) -> Hash {
    Hash::of_parts(&[kind, &serde_json::to_string(record).unwrap_or_default()])
}

/// The hash of a task in the first format of backups.
fn task_hash(task: &Task) -> Hash {
    let text = |payload: Option<&goldseam_core::Payload>| payload.map(|payload| payload.as_str().to_owned());
    Hash::of_parts(&[
        "task",
        task.id.as_str(),
        task.state.as_str(),
        &task.version.to_string(),
        &task.fence.to_string(),
        &task.run_at.0.to_string(),
        &text(Some(&task.payload)).unwrap_or_default(),
        &text(task.result.as_ref()).unwrap_or_default(),
    ])
}

/// The hash of a lock in the first format of backups.
fn lock_hash(lock: &Lock) -> Hash {
    let holder = lock.holder.as_deref().unwrap_or_default();
    Hash::of_parts(&["lock", lock.name.as_str(), holder, &lock.fence.to_string(), &lock.version.to_string()])
}
