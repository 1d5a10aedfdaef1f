//! The demo's course: start runs, answer their questions, kill workers at random moments, until all is over.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use goldseam::client::{By, StartOptions};
use goldseam::core::NodeId;
use goldseam::engine::{Entropy, Seeded};
use goldseam::store::RunFilter;
use goldseam::{Client, Limits, Path, Payload, RunId, Status, Summary};

use super::DemoArgs;
use super::account::Acknowledged;
use super::fleet::Fleet;
use super::order::{ANSWERS, Order, QUESTION, WORKFLOW};
use super::progress::Progress;
use crate::fail::Fail;

/// Pause between two looks at the store.
const LOOK: Duration = Duration::from_millis(15);
/// Shortest and longest time between two kills.
const KILL_MS: (u64, u64) = (120, 380);
/// Runs in flight for each worker.
const PER_WORKER: usize = 8;
/// Runs in flight at least, while there are some left to start.
const IN_FLIGHT_MIN: usize = 2;
/// One order of so many is declined.
const DECLINE_ONE_OF: u64 = 6;
/// When the demo is given up.
const PATIENCE: Duration = Duration::from_secs(180);

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
}

impl<'a> Course<'a> {
    /// A course that is about to begin.
    pub(crate) fn new(
        (args, seed): (&'a DemoArgs, u64),
        client: &'a Client,
        fleet: &'a mut Fleet,
        progress: &'a Progress,
    ) -> Self {
        let random = Seeded::new(seed);
        let (acknowledged, nodes) = (Acknowledged::default(), HashMap::new());
        Self { args, seed, client, fleet, progress, random, acknowledged, nodes }
    }

    /// Goes on until every run has ended and every kill has happened, or patience ends.
    #[expect(clippy::disallowed_methods, reason = "the demo measures real time")]
    pub(crate) async fn run(mut self) -> Result<Acknowledged, Fail> {
        let began = Instant::now();
        let mut kill_at = began + self.pause();
        while began.elapsed() < PATIENCE {
            let runs = self.runs().await?;
            let ended = runs.iter().filter(|run| run.status.is_terminal()).count();
            self.progress.at(ended, self.fleet.kills.len(), &runs);
            let killed_all = self.fleet.kills.len() >= self.args.kills;
            if ended == self.args.runs && killed_all {
                break;
            }
            self.start_some(runs.len(), ended).await?;
            self.answer_some(&runs).await?;
            self.fleet.mend().map_err(trouble)?;
            if !killed_all && Instant::now() >= kill_at && self.kill_one(&runs).await? {
                kill_at = Instant::now() + self.pause();
            }
            tokio::time::sleep(LOOK).await;
        }
        self.meet().await?;
        Ok(self.acknowledged)
    }

    async fn runs(&self) -> Result<Vec<Summary>, Fail> {
        let limit = u32::try_from(self.args.runs).unwrap_or(u32::MAX).max(1);
        let page = self.client.list(RunFilter { limit, ..RunFilter::default() }).await?;
        Ok(page.items.into_iter().map(|row| row.summary).collect())
    }

    fn pause(&self) -> Duration {
        Duration::from_millis(KILL_MS.0 + self.random.next() % (KILL_MS.1 - KILL_MS.0))
    }

    /// Starts are spread over the kills, so that every kill finds work in progress.
    async fn start_some(&mut self, started: usize, ended: usize) -> Result<(), Fail> {
        let share = self.args.runs * (self.fleet.kills.len() + 1) / (self.args.kills + 1);
        let most = ended + self.fleet.len() * PER_WORKER;
        let allowed = share.max(ended + IN_FLIGHT_MIN).min(most).min(self.args.runs);
        for number in started..allowed.max(started) {
            let run = RunId::new(format!("ord-{:04}", number + 1))?;
            let order = self.order(number);
            let input = Payload::of(&order, &Limits::default())?;
            let options = StartOptions::default().tag("customer", order.customer.clone());
            self.client.start(WORKFLOW, &run, input, options).await?;
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
            step_ms: self.step_ms() + draw(4) % 25,
        }
    }

    /// The more kills for each run, the longer its steps: kills must find work in progress.
    fn step_ms(&self) -> u64 {
        (30 * self.args.kills as u64 * self.fleet.len() as u64 / self.args.runs as u64).clamp(15, 60)
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
            self.client.answer(&run.run, &Path::new(QUESTION)?, answer, by).await?;
            self.acknowledged.answers.insert(run.run.clone(), id);
        }
        Ok(())
    }

    /// Learns which nodes the workers are.
    async fn meet(&mut self) -> Result<(), Fail> {
        for seen in self.client.store().nodes().await? {
            let pid = seen.record.name.rsplit_once(':').and_then(|(_, pid)| pid.parse().ok());
            if let Some(pid) = pid {
                self.acknowledged.pids.insert(seen.record.id.clone(), pid);
                self.nodes.insert(pid, seen.record.id);
            }
        }
        Ok(())
    }

    /// Kills a worker that has work, unless there is none to be had. Says whether it did.
    async fn kill_one(&mut self, runs: &[Summary]) -> Result<bool, Fail> {
        self.meet().await?;
        let known = |at: &usize| self.nodes.contains_key(&self.fleet.pid(*at));
        let joined: Vec<usize> = (0..self.fleet.len()).filter(known).collect();
        let owns = |at: &&usize| {
            let node = self.nodes.get(&self.fleet.pid(**at));
            runs.iter().any(|run| run.owner.is_some() && run.owner.as_ref() == node)
        };
        let busy: Vec<usize> = joined.iter().filter(owns).copied().collect();
        let idle = runs.len() >= self.args.runs && runs.iter().all(|run| run.status.is_terminal());
        let choice = if busy.is_empty() && idle { joined } else { busy };
        if choice.is_empty() {
            return Ok(false);
        }
        // Not at the moment of a look, but at any moment between two.
        tokio::time::sleep(Duration::from_micros(self.random.next() % 15_000)).await;
        let at = choice[(self.random.next() % choice.len() as u64) as usize];
        let Some(node) = self.nodes.get(&self.fleet.pid(at)).cloned() else { return Ok(false) };
        self.fleet.kill(at, node).map_err(trouble)?;
        Ok(true)
    }
}

/// How many runs are in this status.
pub(crate) fn count(runs: &[Summary], status: Status) -> usize {
    runs.iter().filter(|run| run.status == status).count()
}

fn trouble(error: io::Error) -> Fail {
    Fail::plain(format!("a worker could not be started or killed: {error}"))
}
