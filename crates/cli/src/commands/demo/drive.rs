//! The demo's course: start runs, answer their questions, kill and freeze workers at random moments, until all is over.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use goldseam::client::{By, StartOptions};
use goldseam::core::NodeId;
use goldseam::engine::{Entropy, Seeded};
use goldseam::store::{RunFilter, StoreError};
use goldseam::{Client, EngineError, Limits, Path, Payload, RunId, Status, Summary};
use tokio::sync::mpsc;

use super::DemoArgs;
use super::account::Acknowledged;
use super::fleet::{Fleet, Freeze, thaw};
use super::order::{ANSWERS, Order, QUESTION, WORKFLOW};
use super::progress::Progress;
use crate::fail::Fail;

/// Pause between two looks at the store.
const LOOK: Duration = Duration::from_millis(15);
/// Runs in flight for each worker.
const PER_WORKER: usize = 8;
/// Runs in flight at least, while there are some left to start.
const IN_FLIGHT_MIN: usize = 2;
/// One order of so many is declined.
const DECLINE_ONE_OF: u64 = 6;
/// How long nothing may move before the demo is given up.
const PATIENCE: Duration = Duration::from_secs(90);
/// Freezes, in percent of the silence after which others take over: one half of them end before, one after.
const SHORT_PERCENT: (u64, u64) = (10, 70);
const LONG_PERCENT: (u64, u64) = (130, 200);

/// The demo while it goes on.
pub(crate) struct Course<'a> {
    args: &'a DemoArgs,
    client: &'a Client,
    fleet: &'a mut Fleet,
    progress: &'a Progress,
    seed: u64,
    random: Seeded,
    acknowledged: Acknowledged,
    nodes: HashMap<u32, NodeId>,
    next: Next,
}

/// When the next kill and the next freeze are due.
struct Next {
    kill: Instant,
    freeze: Instant,
}

/// Whatever moves: ends, starts, answers, kills and freezes.
type Mark = (usize, usize, usize, usize, usize);

impl<'a> Course<'a> {
    /// A course that is about to begin.
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    pub(crate) fn new(
        (args, seed): (&'a DemoArgs, u64),
        client: &'a Client,
        fleet: &'a mut Fleet,
        progress: &'a Progress,
    ) -> Self {
        let random = Seeded::new(seed);
        let (acknowledged, nodes) = (Acknowledged::default(), HashMap::new());
        let now = Instant::now();
        let next = Next { kill: now, freeze: now };
        let mut course = Self { args, client, fleet, progress, seed, random, acknowledged, nodes, next };
        course.next = Next { kill: now + course.pause(), freeze: now + course.pause() };
        course
    }

    /// Goes on until every run has ended and every kill and every freeze is over, or patience ends.
    pub(crate) async fn run(mut self) -> Result<Acknowledged, Fail> {
        let (freezer, frozen) = mpsc::unbounded_channel();
        tokio::select! {
            biased;
            never = thaw(frozen) => match never {},
            outcome = self.go(&freezer) => outcome?,
        }
        Ok(self.acknowledged)
    }

    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    async fn go(&mut self, freezer: &mpsc::UnboundedSender<Freeze>) -> Result<(), Fail> {
        let (mut moved, mut mark) = (Instant::now(), Mark::default());
        while moved.elapsed() < PATIENCE {
            // A store that is away, or whose writer is frozen, is asked again.
            if let Some(runs) = passing(self.runs().await)? {
                let ended = runs.iter().filter(|run| run.status.is_terminal()).count();
                self.progress.at(ended, self.fleet.kills.len(), &runs);
                if ended == self.args.runs && self.is_calm() {
                    break;
                }
                self.act(&runs, ended, freezer).await?;
                let now = self.mark(ended);
                if now != mark {
                    (moved, mark) = (Instant::now(), now);
                }
            }
            self.fleet.mend().map_err(trouble)?;
            tokio::time::sleep(LOOK).await;
        }
        while passing(self.meet().await)?.is_none() && moved.elapsed() < PATIENCE * 2 {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    fn mark(&self, ended: usize) -> Mark {
        let Acknowledged { starts, answers, .. } = &self.acknowledged;
        (ended, starts.len(), answers.len(), self.fleet.kills.len(), self.fleet.freezes.len())
    }

    /// Whether every kill and every freeze is over.
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    fn is_calm(&self) -> bool {
        let (fleet, now) = (&self.fleet, Instant::now());
        let done = fleet.kills.len() >= self.args.kills && fleet.freezes.len() >= self.args.freezes;
        done && !(0..fleet.len()).any(|at| fleet.is_frozen(at, now))
    }

    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    async fn act(
        &mut self,
        runs: &[Summary],
        ended: usize,
        freezer: &mpsc::UnboundedSender<Freeze>,
    ) -> Result<(), Fail> {
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
            // Some begin while another one lasts.
            self.next.freeze = Instant::now() + self.share(span * 2, (0, 100));
        }
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<Summary>, EngineError> {
        let limit = u32::try_from(self.args.runs).unwrap_or(u32::MAX).max(1);
        let page = self.client.list(RunFilter { limit, ..RunFilter::default() }).await?;
        Ok(page.items.into_iter().map(|row| row.summary).collect())
    }

    /// From one kill to the next.
    fn pause(&self) -> Duration {
        self.share(self.args.every, (50, 150))
    }

    /// How long a freeze lasts.
    fn span(&self) -> Duration {
        let is_long = self.random.next().is_multiple_of(2);
        let silence = self.args.silence().max(self.client.store().pace().silence_max);
        self.share(silence, if is_long { LONG_PERCENT } else { SHORT_PERCENT })
    }

    /// A part of `whole`, between so many percent of it.
    fn share(&self, whole: Duration, (low, high): (u64, u64)) -> Duration {
        let micros = u64::try_from(whole.as_micros()).unwrap_or(u64::MAX);
        let percent = |part: u64| micros / 100 * part;
        Duration::from_micros(percent(low) + self.random.next() % percent(high - low).max(1))
    }

    /// Starts are spread over the kills, so that every kill finds work in progress.
    async fn start_some(&mut self, ended: usize) -> Result<(), Fail> {
        let started = self.acknowledged.starts.len();
        let share = self.args.runs * (self.fleet.kills.len() + 1) / (self.args.kills + 1);
        let most = ended + self.fleet.len() * PER_WORKER;
        let allowed = share.max(ended + IN_FLIGHT_MIN).min(most).min(self.args.runs);
        for number in started..allowed.max(started) {
            let run = RunId::new(format!("ord-{:04}", number + 1))?;
            let order = self.order(number);
            let input = Payload::of(&order, &Limits::default())?;
            let options = StartOptions::default().tag("customer", order.customer.clone());
            // If the reply was lost, the same start is tried again: the same id and input are the same run.
            if passing(self.client.start(WORKFLOW, &run, input, options).await)?.is_none() {
                break;
            }
            self.acknowledged.starts.push(run);
        }
        Ok(())
    }

    fn order(&self, number: usize) -> Order {
        let draw = |salt: u64| Seeded::new(self.seed ^ (number as u64) << 8 ^ salt).next();
        let goods = ["lamp", "rope", "kettle", "map", "tent"];
        let count = 2 + draw(1) % 3;
        Order {
            customer: ["ana", "ben", "chi", "dora", "emil", "fay"][(draw(2) % 6) as usize].to_owned(),
            lines: goods.iter().take(count as usize).map(|line| (*line).to_owned()).collect(),
            cents: 500 + draw(3) % 9_500,
            step_ms: self.step_ms() + draw(4) % (self.every_ms() / 10).max(1),
        }
    }

    /// The more kills for each run, the longer its steps: kills must find work in progress, and leave time for some.
    fn step_ms(&self) -> u64 {
        let every = self.every_ms();
        let step = every * self.args.kills as u64 * self.fleet.len() as u64 / self.args.runs as u64 / 8;
        step.clamp(every / 16, every / 4)
    }

    fn every_ms(&self) -> u64 {
        u64::try_from(self.args.every.as_millis()).unwrap_or(u64::MAX).clamp(16, 10_000)
    }

    async fn answer_some(&mut self, runs: &[Summary]) -> Result<(), Fail> {
        let asking = runs.iter().filter(|run| !run.status.is_terminal() && !run.inputs.is_empty());
        for run in asking.filter(|run| !self.acknowledged.answers.contains_key(&run.run)).collect::<Vec<_>>()
        {
            let draw = Seeded::new(self.seed ^ run.input_hash.leading()).next();
            let declined = draw.is_multiple_of(DECLINE_ONE_OF);
            let answer = Payload::of(ANSWERS[usize::from(declined)], &Limits::default())?;
            let id = format!("answer-{}", run.run);
            let by = By { who: Some("demo".to_owned()), reason: String::new(), id: Some(id.clone()) };
            let question = Path::new(QUESTION)?;
            if passing(self.client.answer(&run.run, &question, answer, by).await)?.is_some() {
                self.acknowledged.answers.insert(run.run.clone(), id);
            }
        }
        Ok(())
    }

    /// Learns which nodes the workers are.
    async fn meet(&mut self) -> Result<(), EngineError> {
        for seen in self.client.store().nodes().await? {
            let pid = seen.record.name.rsplit_once(':').and_then(|(_, pid)| pid.parse().ok());
            if let Some(pid) = pid {
                self.acknowledged.pids.insert(seen.record.id.clone(), pid);
                self.nodes.insert(pid, seen.record.id);
            }
        }
        Ok(())
    }

    /// A worker that has work, unless there is none to be had.
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    async fn victim(&mut self, runs: &[Summary]) -> Result<Option<usize>, Fail> {
        if passing(self.meet().await)?.is_none() {
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
        // Not at the moment of a look, but at any moment between two.
        tokio::time::sleep(Duration::from_micros(self.random.next() % 15_000)).await;
        Ok(Some(choice[(self.random.next() % choice.len() as u64) as usize]))
    }

    /// Kills a worker; says whether it did.
    async fn kill_one(&mut self, runs: &[Summary]) -> Result<bool, Fail> {
        let Some(at) = self.victim(runs).await? else { return Ok(false) };
        let Some(node) = self.nodes.get(&self.fleet.pid(at)).cloned() else { return Ok(false) };
        self.fleet.kill(at, node).map_err(trouble)
    }
}

/// What came of it, or nothing where the store did not say: it is away, busy, or its answer was lost.
pub(crate) fn passing<T>(outcome: Result<T, EngineError>) -> Result<Option<T>, Fail> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(
            EngineError::Store(StoreError::Busy { .. } | StoreError::Unknown { .. })
            | EngineError::Patience { .. },
        ) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// How many runs are in this status.
pub(crate) fn count(runs: &[Summary], status: Status) -> usize {
    runs.iter().filter(|run| run.status == status).count()
}

fn trouble(error: io::Error) -> Fail {
    Fail::plain(format!("a worker could not be started or killed: {error}"))
}
