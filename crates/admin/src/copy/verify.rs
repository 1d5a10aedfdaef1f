//! Everything compared once more, from both stores, when all of it is there: what counts is what can be read.

use goldseam_core::RunId;
use goldseam_core::lock::Lock;
use goldseam_core::task::Task;

use super::Copier;
use super::crew::each;
use super::report::{CopyFinding, CopyReport, Digests, Progress, Stage};
use super::session::Session;
use super::side::{Listed, Locks, Runs, Tasks};
use super::survey::Print;
use goldseam_engine::ledger::error::EngineError;

/// A run as both stores have it.
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
        let (mut digests, total, mut done) = (Digests::default(), report.runs.all(), 0);
        let read = |listed: Listed| {
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
                _ => unlike(report, ("run", run.as_str())),
            }
            done += 1;
            self.tell(Progress { stage: Stage::Verifying, done, total });
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
        let look = |task: Task| {
            let (copier, session) = (self.clone(), session.clone());
            async move { Ok((task.id.clone(), copier.has_task(&session, task).await?)) }
        };
        each(Tasks::of(&self.from), look, |(id, fits)| match fits {
            true => report.tasks.verified += 1,
            false => unlike(report, ("task", id.as_str())),
        })
        .await
    }

    async fn verify_locks(&self, session: &Session, report: &mut CopyReport) -> Result<(), EngineError> {
        let look = |lock: Lock| {
            let (copier, session) = (self.clone(), session.clone());
            async move { Ok((lock.name.clone(), copier.has_lock(&session, &lock).await?)) }
        };
        each(Locks::of(&self.from), look, |(name, fits)| match fits {
            true => report.locks.verified += 1,
            false => unlike(report, ("lock", name.as_str())),
        })
        .await
    }
}

/// Something is not the same, unless it stays behind knowingly.
fn unlike(report: &mut CopyReport, subject: (&'static str, &str)) {
    if !report.speaks_of(subject) {
        let what = "it is not the same in both stores: somebody writes to one of them";
        report.find(CopyFinding::new("GS0405", subject, what));
    }
}
