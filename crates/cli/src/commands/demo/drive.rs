//! Drives the demo: starts runs, answers their questions, and kills and freezes workers at random times.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use goldseam::client::{By, StartOptions};
use goldseam::unstable::core::NodeId;
use goldseam::unstable::engine::{Entropy, Seeded};
use goldseam::unstable::store::{RunFilter, StoreError};
use goldseam::{Client, EngineError, Limits, Path, Payload, RunId, Status, Summary};
use tokio::sync::mpsc;

use super::DemoArgs;
use super::account::Acknowledged;
use super::fleet::{Fleet, Freeze, thaw};
use super::order::{ANSWERS, DemoOrder, QUESTION, WORKFLOW};
use super::progress::ProgressLine;
use crate::error::CliError;

/// How often the store is read.
const POLL_INTERVAL: Duration = Duration::from_millis(15);
/// Active runs for each worker.
const PER_WORKER: usize = 8;
/// Minimum number of active runs, while there are runs left to start.
const IN_FLIGHT_MIN: usize = 2;
/// One of this many orders is declined.
const DECLINE_ONE_OF: u64 = 6;
/// How long the demo waits for progress before it gives up.
const STALL_MAX: Duration = Duration::from_secs(90);
/// Durations of freezes, in percent of the silence after which other nodes take over: one half ends before, one after.
const SHORT_PERCENT: Range<u64> = 10..70;
const LONG_PERCENT: Range<u64> = 130..200;

/// The running demo.
pub(crate) struct Course<'a> {
    args: &'a DemoArgs,
    client: &'a Client,
    fleet: &'a mut Fleet,
    progress: &'a ProgressLine,
    seed: u64,
    random: Seeded,
    acknowledged: Acknowledged,
    nodes: HashMap<u32, NodeId>,
    next: NextFaults,
}

/// The times of the next kill and the next freeze.
struct NextFaults {
    kill: Instant,
    freeze: Instant,
}

/// Counts that show progress: ends, starts, answers, kills and freezes.
type ProgressCounts = (usize, usize, usize, usize, usize);

impl<'a> Course<'a> {
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    pub(crate) fn new(
        args: &'a DemoArgs,
        seed: u64,
        client: &'a Client,
        fleet: &'a mut Fleet,
        progress: &'a ProgressLine,
    ) -> Self {
        let now = Instant::now();
        let mut course = Self {
            args,
            client,
            fleet,
            progress,
            seed,
            random: Seeded::new(seed),
            acknowledged: Acknowledged::default(),
            nodes: HashMap::new(),
            next: NextFaults { kill: now, freeze: now },
        };
        course.next = NextFaults { kill: now + course.pause(), freeze: now + course.pause() };
        course
    }

    /// Runs until every run has ended and every kill and freeze is over, or until nothing moves for too long.
    pub(crate) async fn run(mut self) -> Result<Acknowledged, CliError> {
        let (freezer, frozen) = mpsc::unbounded_channel();
        tokio::select! {
            biased;
            never = thaw(frozen) => match never {},
            outcome = self.go(&freezer) => outcome?,
        }
        Ok(self.acknowledged)
    }

    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    async fn go(&mut self, freezer: &mpsc::UnboundedSender<Freeze>) -> Result<(), CliError> {
        let mut moved = Instant::now();
        let mut mark = ProgressCounts::default();
        while moved.elapsed() < STALL_MAX {
            // If the store is unavailable, or a frozen worker blocks it, try again.
            if let Some(runs) = if_available(self.runs().await)? {
                let ended = runs.iter().filter(|run| run.status.is_terminal()).count();
                self.progress.at(ended, self.fleet.kills.len(), &runs);
                if ended == self.args.runs && self.is_calm() {
                    break;
                }
                self.act(&runs, ended, freezer).await?;
                let now = self.mark(ended);
                if now != mark {
                    moved = Instant::now();
                    mark = now;
                }
            }
            self.fleet.replace_ended().map_err(worker_error)?;
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        while if_available(self.read_nodes().await)?.is_none() && moved.elapsed() < STALL_MAX * 2 {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    fn mark(&self, ended: usize) -> ProgressCounts {
        let Acknowledged { starts, answers, .. } = &self.acknowledged;
        (ended, starts.len(), answers.len(), self.fleet.kills.len(), self.fleet.freezes.len())
    }

    /// Whether every kill and every freeze is over.
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    fn is_calm(&self) -> bool {
        let fleet = &self.fleet;
        let now = Instant::now();
        let done = fleet.kills.len() >= self.args.kills && fleet.freezes.len() >= self.args.freezes;
        done && !(0..fleet.len()).any(|at| fleet.is_frozen(at, now))
    }

    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    async fn act(
        &mut self,
        runs: &[Summary],
        ended: usize,
        freezer: &mpsc::UnboundedSender<Freeze>,
    ) -> Result<(), CliError> {
        self.start_some(ended).await?;
        self.answer_some(runs).await?;
        if self.fleet.kills.len() < self.args.kills
            && Instant::now() >= self.next.kill
            && self.kill_one(runs).await?
        {
            self.next.kill = Instant::now() + self.pause();
        }
        if self.fleet.freezes.len() < self.args.freezes
            && Instant::now() >= self.next.freeze
            && let Some(at) = self.victim(runs).await?
        {
            let span = self.span();
            self.fleet.freeze_for(at, span, freezer);
            // Some freezes overlap.
            self.next.freeze = Instant::now() + self.share(span * 2, 0..100);
        }
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<Summary>, EngineError> {
        let limit = u32::try_from(self.args.runs).unwrap_or(u32::MAX).max(1);
        let page = self.client.list(RunFilter { limit, ..RunFilter::default() }).await?;
        Ok(page.items.into_iter().map(|row| row.summary).collect())
    }

    /// The pause until the next kill.
    fn pause(&self) -> Duration {
        self.share(self.args.every, 50..150)
    }

    /// The duration of a freeze.
    fn span(&self) -> Duration {
        let is_long = self.random.next().is_multiple_of(2);
        let silence = self.args.silence().max(self.client.store().pace().silence_max);
        self.share(silence, if is_long { LONG_PERCENT } else { SHORT_PERCENT })
    }

    /// A random part of `whole`, within a range of percent.
    fn share(&self, whole: Duration, range: Range<u64>) -> Duration {
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
        let percent = |part: u64| micros / 100 * part;
        let width = percent(range.end - range.start).max(1);
        Duration::from_micros(percent(range.start) + self.random.next() % width)
    }

    /// Starts runs, spread over the kills so that every kill hits work in progress.
    async fn start_some(&mut self, ended: usize) -> Result<(), CliError> {
        let started = self.acknowledged.starts.len();
        let share = self.args.runs * (self.fleet.kills.len() + 1) / (self.args.kills + 1);
        let most = ended + self.fleet.len() * PER_WORKER;
        let allowed = share.max(ended + IN_FLIGHT_MIN).min(most).min(self.args.runs);
        for number in started..allowed.max(started) {
            let run = RunId::new(format!("ord-{:04}", number + 1))?;
            let order = self.order(number);
            let input = Payload::of(&order, &Limits::default())?;
            let options = StartOptions::default().tag("customer", order.customer.clone());
            // If the response was lost, the start is repeated: the same id and input are the same run.
            if if_available(self.client.start_with(WORKFLOW, &run, &input, options).await)?.is_none() {
                break;
            }
            self.acknowledged.starts.push(run);
        }
        Ok(())
    }

    fn order(&self, number: usize) -> DemoOrder {
        let draw = |salt: u64| Seeded::new(self.seed ^ (number as u64) << 8 ^ salt).next();
        let goods = ["lamp", "rope", "kettle", "map", "tent"];
        let count = 2 + draw(1) % 3;
        DemoOrder {
            customer: ["ana", "ben", "chi", "dora", "emil", "fay"][(draw(2) % 6) as usize].to_owned(),
            lines: goods.iter().take(count as usize).map(|line| (*line).to_owned()).collect(),
            cents: 500 + draw(3) % 9_500,
            step_ms: self.step_ms() + draw(4) % (self.every_ms() / 10).max(1),
        }
    }

    /// The duration of a step: longer with more kills per run, so that kills hit work in progress and leave time for
    /// some.
    fn step_ms(&self) -> u64 {
        let every = self.every_ms();
        let step = every * self.args.kills as u64 * self.fleet.len() as u64 / self.args.runs as u64 / 8;
        step.clamp(every / 16, every / 4)
    }

    fn every_ms(&self) -> u64 {
        u64::try_from(self.args.every.as_millis()).unwrap_or(u64::MAX).clamp(16, 10_000)
    }

    async fn answer_some(&mut self, runs: &[Summary]) -> Result<(), CliError> {
        let asking = runs.iter().filter(|run| !run.status.is_terminal() && !run.inputs.is_empty());
        for run in asking.filter(|run| !self.acknowledged.answers.contains_key(&run.run)).collect::<Vec<_>>()
        {
            let draw = Seeded::new(self.seed ^ run.input_hash.leading()).next();
            let declined = draw.is_multiple_of(DECLINE_ONE_OF);
            let answer = Payload::of(ANSWERS[usize::from(declined)], &Limits::default())?;
            let id = format!("answer-{}", run.run);
            let by = By { who: Some("demo".to_owned()), reason: String::new(), id: Some(id.clone()) };
            let question = Path::new(QUESTION)?;
            if if_available(self.client.answer(&run.run, &question, answer, by).await)?.is_some() {
                self.acknowledged.answers.insert(run.run.clone(), id);
            }
        }
        Ok(())
    }

    /// Reads which nodes the workers are.
    async fn read_nodes(&mut self) -> Result<(), EngineError> {
        for seen in self.client.store().nodes().await? {
            let pid = seen.record.name.rsplit_once(':').and_then(|(_, pid)| pid.parse().ok());
            if let Some(pid) = pid {
                self.acknowledged.pids.insert(seen.record.id.clone(), pid);
                self.nodes.insert(pid, seen.record.id);
            }
        }
        Ok(())
    }

    /// Picks a worker that owns a run; any worker if every run has ended.
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    async fn victim(&mut self, runs: &[Summary]) -> Result<Option<usize>, CliError> {
        if if_available(self.read_nodes().await)?.is_none() {
            return Ok(None);
        }
        let now = Instant::now();
        let known =
            |at: &usize| self.nodes.contains_key(&self.fleet.pid(*at)) && !self.fleet.is_frozen(*at, now);
        let joined: Vec<usize> = (0..self.fleet.len()).filter(known).collect();
        let owns = |at: &&usize| {
            let node = self.nodes.get(&self.fleet.pid(**at));
            runs.iter().any(|run| run.owner.is_some() && run.owner.as_ref() == node)
        };
        let busy: Vec<usize> = joined.iter().filter(owns).copied().collect();
        let idle = runs.len() >= self.args.runs && runs.iter().all(|run| run.status.is_terminal());
        let choice = if busy.is_empty() && idle { joined } else { busy };
        if choice.is_empty() {
            return Ok(None);
        }
        // At any time between two polls, not right after one.
        tokio::time::sleep(Duration::from_micros(self.random.next() % 15_000)).await;
        Ok(Some(choice[(self.random.next() % choice.len() as u64) as usize]))
    }

    /// Kills a worker; returns whether it did.
    async fn kill_one(&mut self, runs: &[Summary]) -> Result<bool, CliError> {
        let Some(at) = self.victim(runs).await? else { return Ok(false) };
        let Some(node) = self.nodes.get(&self.fleet.pid(at)).cloned() else { return Ok(false) };
        self.fleet.kill(at, node).map_err(worker_error)
    }
}

/// Returns `None` if the store is unavailable or busy, or its response was lost.
pub(crate) fn if_available<T>(outcome: Result<T, EngineError>) -> Result<Option<T>, CliError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(
            EngineError::Store(StoreError::Busy { .. } | StoreError::Unknown { .. })
            | EngineError::TimedOut { .. }
            | EngineError::Contended { .. },
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Counts runs with this status.
pub(crate) fn count(runs: &[Summary], status: Status) -> usize {
    runs.iter().filter(|run| run.status == status).count()
}

fn worker_error(error: io::Error) -> CliError {
    CliError::plain(format!("cannot start or kill a worker: {error}"))
}
