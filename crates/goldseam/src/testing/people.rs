//! Those who answer, signal and do remote steps while the workflow runs.

use std::collections::BTreeSet;
use std::fmt;

use goldseam_core::task::Task;
use goldseam_core::{Failure, Path, Payload, QueueName, RunId, Summary};
use goldseam_engine::client::By;
use goldseam_engine::queue::Want;
use goldseam_engine::{Client, EngineError};

use super::case::Dice;
use super::failed::Flaw;
use super::report::Mail;
use super::world::World;

/// What somebody says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Says {
    /// A signal of this name.
    Signal(String),
    /// The answer to the question of this name.
    Answer(String),
}

/// One thing that somebody says, once the workflow waits for it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) says: Says,
    pub(super) value: Payload,
}

impl Message {
    fn answers(&self, question: &Path) -> bool {
        matches!(&self.says, Says::Answer(name) if question.name() == name || question.as_str() == name)
    }

    fn signal_of<'a>(&'a self, names: &[String]) -> Option<&'a str> {
        match &self.says {
            Says::Signal(name) if names.contains(name) => Some(name),
            Says::Signal(_) | Says::Answer(_) => None,
        }
    }
}

/// What is done with a task of a remote step.
pub(super) type Work = dyn Fn(&World, &Task) -> Result<Payload, Failure> + Send + Sync;

/// Somebody who does the remote steps of one queue.
pub(super) struct Worker {
    pub(super) queue: QueueName,
    pub(super) work: Box<Work>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The people of one case.
#[derive(Debug)]
pub(super) struct People<'a> {
    script: &'a [Message],
    workers: &'a [Worker],
    /// Who got each message.
    got: Vec<Option<RunId>>,
    /// Who got it when nothing went wrong: a message that comes early goes there.
    expected: Vec<Option<RunId>>,
    /// Waits that were served: one message each.
    served: BTreeSet<(RunId, Path, i64)>,
    /// Turns that a lost message is not sent again.
    lost: u64,
    /// What became of messages on their way.
    mail: Mail,
    dice: Option<Dice>,
}

impl<'a> People<'a> {
    pub(super) fn new(script: &'a [Message], workers: &'a [Worker], dice: Option<Dice>) -> Self {
        let got = vec![None; script.len()];
        let (expected, served, mail) = (got.clone(), BTreeSet::new(), Mail::default());
        Self { script, workers, expected, got, served, lost: 0, mail, dice }
    }

    /// The same people, who know where each message belongs.
    pub(super) fn knowing(mut self, expected: &[Option<RunId>]) -> Self {
        self.expected = expected.to_vec();
        self
    }

    pub(super) fn got(&self) -> &[Option<RunId>] {
        &self.got
    }

    pub(super) fn mail(&self) -> Mail {
        self.mail
    }

    /// Does what people would do now; says whether something is still on its way.
    pub(super) async fn act(&mut self, client: &Client, runs: &[Summary]) -> Result<bool, Flaw> {
        if self.lost > 0 {
            self.lost -= 1;
            return Ok(true);
        }
        let mut busy = self.come_early(client, runs).await?;
        for run in runs.iter().filter(|run| !run.status.is_terminal()) {
            for (wait, path, since) in needs(run) {
                let key = (run.run.clone(), path, since);
                if self.served.contains(&key) {
                    continue;
                }
                let fits = |message: &Message| wait.is_met_by(message);
                let next = (0..self.script.len()).find(|i| self.got[*i].is_none() && fits(&self.script[*i]));
                let Some(index) = next else { continue };
                busy = true;
                if self.is_lost() {
                    return Ok(true);
                }
                if self.send(client, (&run.run, &key.1), index).await? {
                    self.served.insert(key);
                }
            }
        }
        Ok(busy)
    }

    /// Sometimes a message gets lost on its way, and is sent again later.
    fn is_lost(&mut self) -> bool {
        let Some(dice) = &self.dice else { return false };
        if dice.percent(25) {
            self.lost = 1 + dice.below(5);
            self.mail.lost += 1;
        }
        self.lost > 0
    }

    /// Sometimes a signal comes before anybody waits for it.
    async fn come_early(&mut self, client: &Client, runs: &[Summary]) -> Result<bool, Flaw> {
        let Some(dice) = &self.dice else { return Ok(false) };
        if !dice.percent(10) {
            return Ok(false);
        }
        let Some(index) = self.got.iter().position(Option::is_none) else { return Ok(false) };
        let Some(run) = self.expected[index].clone() else { return Ok(false) };
        let there = runs.iter().any(|row| row.run == run && !row.status.is_terminal());
        if !there || !matches!(self.script[index].says, Says::Signal(_)) {
            return Ok(false);
        }
        let mut awaited = runs.iter().flat_map(needs);
        let is_early = !awaited.any(|(need, _, _)| need.is_met_by(&self.script[index]));
        let sent = self.send(client, (&run, &Path::root()), index).await?;
        self.mail.early += u64::from(sent && is_early);
        Ok(sent)
    }

    /// Sends a message under an id of its own; sometimes twice.
    async fn send(
        &mut self,
        client: &Client,
        (run, question): (&RunId, &Path),
        index: usize,
    ) -> Result<bool, Flaw> {
        let twice = self.dice.as_ref().is_some_and(|dice| dice.percent(30));
        let Message { says, value } = &self.script[index];
        for _ in 0..1 + u32::from(twice) {
            let id = Some(format!("message-{}", index + 1));
            let sent = match says {
                Says::Signal(name) => client.signal(run, name, value.clone(), id).await,
                Says::Answer(_) => {
                    client.answer(run, question, value.clone(), By { id, ..By::default() }).await
                }
            };
            match sent {
                Ok(_) => {
                    self.mail.twice += u64::from(self.got[index].is_some());
                    self.got[index] = Some(run.clone());
                }
                Err(error) => {
                    if !is_over(client, run).await {
                        return Err(Flaw::Refused(error.to_string()));
                    }
                }
            }
        }
        Ok(self.got[index].is_some())
    }

    /// Does the remote steps that are to be done now.
    pub(super) async fn work(&self, client: &Client, world: &World) -> Result<(), EngineError> {
        let queue = client.queue();
        for worker in self.workers {
            let owner = "tester".to_owned();
            let want = Want { owner, queue: worker.queue.clone(), kind: None, limit: 100 };
            for task in queue.claim(want).await? {
                match (worker.work)(world, &task) {
                    Ok(value) => queue.complete(&task.id, task.fence, value).await?,
                    Err(failure) => queue.fail(&task.id, task.fence, failure).await?,
                };
            }
        }
        Ok(())
    }
}

/// A run that ended meanwhile takes no more mail; that is nobody's fault.
async fn is_over(client: &Client, run: &RunId) -> bool {
    client.get(run).await.is_ok_and(|summary| summary.status.is_terminal())
}

/// Something that people can do for a run.
pub(super) enum Need {
    /// One of these signals.
    Signals(Vec<String>),
    /// An answer to this question.
    Answer(Path),
}

impl Need {
    fn is_met_by(&self, message: &Message) -> bool {
        match self {
            Self::Signals(names) => message.signal_of(names).is_some(),
            Self::Answer(question) => message.answers(question),
        }
    }
}

/// What people can do for this run, by the wait's identity.
pub(super) fn needs(run: &Summary) -> Vec<(Need, Path, i64)> {
    let signals = run.waits.iter().filter(|wait| !wait.signals.is_empty()).map(|wait| {
        let names = wait.signals.iter().map(|name| name.as_str().to_owned()).collect();
        (Need::Signals(names), wait.path.clone(), wait.since.0)
    });
    let answers =
        run.inputs.iter().map(|open| (Need::Answer(open.path.clone()), open.path.clone(), open.since.0));
    signals.chain(answers).collect()
}
