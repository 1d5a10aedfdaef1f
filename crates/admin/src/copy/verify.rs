//! The final comparison of both stores, as they can be read.

use goldseam_core::RunId;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;

use super::Copier;
use super::concurrent::each;
use super::report::{CopyFinding, CopyProgress, CopyReport, CopyStage, Digests, RecordName};
use super::session::Session;
use super::side::{ListedRun, LockPages, Runs, TaskPages};
use super::survey::Print;
use goldseam_engine::ledger::error::EngineError;

/// The fingerprints of a run in both stores.
struct Pair {
    run: RunId,
    here: Option<Print>,
    there: Option<Print>,
}

impl Copier {
    pub(super) async fn verify(&self, session: &Session, report: &mut CopyReport) -> Result<(), EngineError> {
        self.must_be_ours(session).await?;
        self.verify_logs(report).await?;
        self.verify_tasks(session, report).await?;
        self.verify_locks(session, report).await
    }

    async fn verify_logs(&self, report: &mut CopyReport) -> Result<(), EngineError> {
        let mut digests = Digests::default();
        let total = report.runs.all();
        let mut done = 0;
        let read = |listed: ListedRun| {
            let copier = self.clone();
            async move { copier.pair(listed.run).await }
        };
        each(Runs::of(&self.from), read, |Pair { run, here, there }: Pair| {
            if let Some(here) = here {
                digests.from.add(&run, here);
            }
            if let Some(there) = there.filter(|there| there.end.0 > 0) {
                digests.to.add(&run, there);
            }
            match here {
                Some(print) if here == there => {
                    report.runs.verified += 1;
                    report.events.verified += print.end.0;
                }
                _ => report_difference(report, RecordName::run(&run)),
            }
            done += 1;
            self.report_progress(CopyProgress { stage: CopyStage::Verifying, done, total });
        })
        .await?;
        report.digests = Some(digests);
        Ok(())
    }

    async fn pair(&self, run: RunId) -> Result<Pair, EngineError> {
        let here = Print::read_marked(&self.from, &run).await?;
        let there = Print::read(&self.to, &run).await?;
        Ok(Pair { run, here, there })
    }

    async fn verify_tasks(&self, session: &Session, report: &mut CopyReport) -> Result<(), EngineError> {
        let compare = |task: Task| {
            let copier = self.clone();
            let session = session.clone();
            async move { Ok((task.id.clone(), copier.has_task(&session, task).await?)) }
        };
        each(TaskPages::of(&self.from), compare, |(id, fits)| match fits {
            true => report.tasks.verified += 1,
            false => report_difference(report, RecordName::task(&id)),
        })
        .await
    }

    async fn verify_locks(&self, session: &Session, report: &mut CopyReport) -> Result<(), EngineError> {
        let compare = |lock: Lock| {
            let copier = self.clone();
            let session = session.clone();
            async move { Ok((lock.name.clone(), copier.has_lock(&session, &lock).await?)) }
        };
        each(LockPages::of(&self.from), compare, |(name, fits)| match fits {
            true => report.locks.verified += 1,
            false => report_difference(report, RecordName::lock(&name)),
        })
        .await
    }
}

/// Reports a difference, unless the record has a finding already.
fn report_difference(report: &mut CopyReport, subject: RecordName<'_>) {
    if !report.has_finding(subject) {
        let what = "the two stores differ: another process writes to one of them";
        report.find(CopyFinding::new("GS0405", subject, what));
    }
}
