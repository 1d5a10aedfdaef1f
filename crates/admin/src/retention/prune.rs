//! Archives runs, appends their tombstones, and removes their logs.

use futures_util::future::try_join_all;
use goldseam_core::command::Prune;
use goldseam_core::decide::Refusal;
use goldseam_core::{Command, Corrupt, RunId, Seq};
use goldseam_store::{Archive, StoreError, TaskChange};

use goldseam_engine::ledger::archive::{self as batch, Whole};

use super::{Candidate, PrunePlan, PruneProgress, PruneReport, PrunedRun, Pruner};
use goldseam_engine::client::{By, Client};
use goldseam_engine::ledger::commit::{With, is_tombstone};
use goldseam_engine::ledger::error::EngineError;
use goldseam_engine::ledger::retry::RetryWindow;

/// Events per read of the store.
const PAGE: u32 = 1_000;
/// Target size of a batch in bytes.
const BATCH_BYTES: usize = 8 << 20;
/// Maximum number of runs in a batch.
const BATCH_RUNS: usize = 500;
/// Maximum number of runs buried concurrently.
const CONCURRENCY: usize = 8;

/// The result of reading a log.
enum LogReading {
    /// It can be archived.
    Whole(Box<Whole>),
    /// It ends with a tombstone: another prune was faster, or an earlier one did not finish.
    Buried(Seq),
    /// It is left unchanged.
    Stays(String),
}

/// A prune in progress.
struct Pruning<'a> {
    client: &'a Client,
    archive: &'a dyn Archive,
    by: &'a By,
    report: PruneReport,
    batch: Vec<(&'a Candidate, Whole)>,
}

impl Pruner<'_> {
    /// Archives the runs of a plan, then replaces each log by a tombstone. Runs that changed since the plan are left
    /// unchanged.
    pub async fn prune(
        &self,
        plan: &PrunePlan,
        archive: &dyn Archive,
        by: &By,
        tell: &mut (dyn FnMut(PruneProgress) + Send),
    ) -> Result<PruneReport, EngineError> {
        let report = PruneReport::default();
        let batch = Vec::new();
        let mut pruning = Pruning { client: self.client, archive, by, report, batch };
        for (run, seq) in &plan.unfinished {
            pruning.trim(run, *seq).await?;
            pruning.report.finished += 1;
        }
        let mut bytes = 0;
        let total = plan.runs.len() as u64;
        for (done, candidate) in (1..).zip(&plan.runs) {
            match pruning.look(candidate).await? {
                LogReading::Whole(whole) => {
                    bytes += whole.bytes();
                    pruning.batch.push((candidate, *whole));
                }
                LogReading::Buried(seq) => {
                    pruning.trim(&candidate.run, seq).await?;
                    pruning.report.finished += 1;
                }
                LogReading::Stays(why) => pruning.report.left.push((candidate.run.clone(), why)),
            }
            if bytes >= BATCH_BYTES || pruning.batch.len() >= BATCH_RUNS {
                pruning.flush().await?;
                bytes = 0;
            }
            tell(PruneProgress { done, total });
        }
        pruning.flush().await?;
        Ok(pruning.report)
    }
}

impl Pruning<'_> {
    /// Reads the whole current log.
    async fn look(&self, candidate: &Candidate) -> Result<LogReading, EngineError> {
        let run = &candidate.run;
        let mut texts = Vec::new();
        let mut after = Seq::ZERO;
        let damaged = |corrupt: &Corrupt| Ok(LogReading::Stays(format!("K1: {corrupt}")));
        loop {
            let read = || async { Ok(self.client.store().read(run, after, PAGE).await?) };
            let ledger = self.client.ledger();
            let page = RetryWindow::new(ledger, "reading a log").retry(ledger, read).await?;
            let Some(last) = page.last() else { break };
            if is_tombstone(last) {
                return Ok(LogReading::Buried(last.seq));
            }
            for record in page {
                if record.seq != after.next() {
                    return damaged(&Corrupt::new(after.next(), "it is missing"));
                }
                after = record.seq;
                texts.push(record.body);
            }
        }
        let whole = match Whole::new(run, texts) {
            Ok(whole) => whole,
            Err(corrupt) => return damaged(&corrupt),
        };
        let row = &whole.state.summary;
        match row.finished_at {
            Some(at) if at < candidate.before && row.status == candidate.status => {
                Ok(LogReading::Whole(Box::new(whole)))
            }
            Some(_) => Ok(LogReading::Stays("it ended again since the plan".to_owned())),
            None => Ok(LogReading::Stays(format!("it is {}", row.status))),
        }
    }

    /// Archives the gathered runs; once the archive is durable and was read back, buries each run.
    async fn flush(&mut self) -> Result<(), EngineError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (candidates, runs): (Vec<&Candidate>, Vec<Whole>) = self.batch.drain(..).unzip();
        let ledger = self.client.ledger();
        let name = format!("goldseam-{:013}-{}.jsonl", ledger.clock.now().0, ledger.entropy.write_id());
        let text = batch::write(&runs);
        let place = self.archive.place(&name);
        self.report.bytes += text.len() as u64;
        self.archive.put(&name, text.clone()).await?;
        if self.archive.get(&name).await? != text || batch::verify(&text).is_err() {
            return Err(EngineError::Store(StoreError::Refused {
                code: "GS0133",
                what: format!("archive {place} differs from what was written"),
                hint: "no log was removed; check the disk or the bucket, then prune again".into(),
            }));
        }
        let all: Vec<(&Candidate, &Whole)> = candidates.into_iter().zip(&runs).collect();
        for some in all.chunks(CONCURRENCY) {
            let buried =
                try_join_all(some.iter().map(|(candidate, whole)| self.bury(candidate, whole, &place)));
            for (outcome, (candidate, _)) in buried.await?.into_iter().zip(some) {
                match outcome {
                    Ok(pruned) => self.report.pruned.push(pruned),
                    Err(why) => self.report.left.push((candidate.run.clone(), why)),
                }
            }
        }
        self.report.batches.push(place);
        Ok(())
    }

    /// Appends the tombstone at the archived end, then removes the events before it.
    async fn bury(
        &self,
        candidate: &Candidate,
        whole: &Whole,
        place: &str,
    ) -> Result<Result<PrunedRun, String>, EngineError> {
        let run = &whole.run;
        let row = &whole.state.summary;
        let prune = Prune {
            note: self.client.note(self.by.clone()),
            archive: place.to_owned(),
            sha256: whole.sha256.clone(),
            at: row.as_of,
        };
        let gone = candidate.tasks.iter().map(|task| TaskChange::Remove { task: task.clone() }).collect();
        let committed = self
            .client
            .ledger()
            .commit_on(None, run, &Command::Prune(prune), With { extra: gone, ..With::default() })
            .await;
        let end = match committed {
            Ok(committed) => committed.end,
            Err(EngineError::Refused { refusal: refusal @ Refusal::NotPrunable { .. }, .. }) => {
                return Ok(Err(refusal.to_string()));
            }
            Err(error) => return Err(error),
        };
        self.trim(run, end).await?;
        Ok(Ok(PrunedRun {
            run: run.clone(),
            workflow: row.workflow.clone(),
            status: row.status,
            finished_at: row.finished_at.unwrap_or_default(),
            events: row.as_of.0,
            bytes: whole.bytes() as u64,
            archive: place.to_owned(),
        }))
    }

    async fn trim(&self, run: &RunId, first: Seq) -> Result<(), EngineError> {
        let ledger = self.client.ledger();
        let trim = || async { Ok(ledger.store.trim(run, first).await?) };
        RetryWindow::new(ledger, "removing an archived log").retry(ledger, trim).await
    }
}
