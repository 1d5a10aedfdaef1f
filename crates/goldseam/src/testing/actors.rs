//! Scripted actors: they send signals and answers and execute remote steps while the workflow runs.

use std::collections::BTreeSet;
use std::fmt;

use goldseam_core::task::Task;
use goldseam_core::{BranchId, Failure, Path, Payload, QueueName, RunId, Summary};
use goldseam_engine::client::By;
use goldseam_engine::queue::Want;
use goldseam_engine::{Client, EngineError};

use super::case::Random;
use super::failed::Flaw;
use super::report::Mail;
use super::world::World;

/// The kind of a scripted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// A signal of this name.
    Signal(String),
    /// The answer to the question of this name.
    Answer(String),
}

/// A scripted message, sent once the workflow waits for it.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: MessageKind,
    pub(super) value: Payload,
}

impl Message {
    fn answers(&self, question: &Path) -> bool {
        matches!(&self.kind, MessageKind::Answer(name) if question.name() == name || question.as_str() == name)
    }

    fn signal_of<'a>(&'a self, names: &[String]) -> Option<&'a str> {
        match &self.kind {
            MessageKind::Signal(name) if names.contains(name) => Some(name),
            MessageKind::Signal(_) | MessageKind::Answer(_) => None,
        }
    }
}

/// The code that executes a task of a remote step.
pub(super) type Work = dyn Fn(&World, &Task) -> Result<Payload, Failure> + Send + Sync;

/// A worker that executes the remote steps of one queue.
pub(super) struct Worker {
    pub(super) queue: QueueName,
    pub(super) work: Box<Work>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// The actors of one case.
#[derive(Debug)]
pub(super) struct Actors<'a> {
    script: &'a [Message],
    workers: &'a [Worker],
    /// The run that received each message.
    recipients: Vec<Option<RunId>>,
    /// The recipients without faults: an early message goes to its expected recipient.
    expected: Vec<Option<RunId>>,
    /// Waits that received their one message, each with its run and branch: after `continue_as_new` a wait may have
    /// the path and the time of one before.
    served: BTreeSet<(RunId, BranchId, Path, i64)>,
    /// Number of turns until the lost message is sent again.
    turns_lost: u64,
    mail: Mail,
    random: Option<Random>,
}

impl<'a> Actors<'a> {
    pub(super) fn new(script: &'a [Message], workers: &'a [Worker], random: Option<Random>) -> Self {
        Self {
            script,
            workers,
            recipients: vec![None; script.len()],
            expected: vec![None; script.len()],
            served: BTreeSet::new(),
            turns_lost: 0,
            mail: Mail::default(),
            random,
        }
    }

    /// Sets the expected recipient of each message.
    pub(super) fn with_recipients(mut self, expected: &[Option<RunId>]) -> Self {
        self.expected = expected.to_vec();
        self
    }

    pub(super) fn recipients(&self) -> &[Option<RunId>] {
        &self.recipients
    }

    pub(super) fn mail(&self) -> Mail {
        self.mail
    }

    /// Sends the messages that runs wait for; returns whether any was sent or is still on its way.
    pub(super) async fn act(&mut self, client: &Client, runs: &[Summary]) -> Result<bool, Flaw> {
        if self.turns_lost > 0 {
            self.turns_lost -= 1;
            return Ok(true);
        }
        let mut busy = self.send_early(client, runs).await?;
        for run in runs.iter().filter(|run| !run.status.is_terminal()) {
            for (wait, path, since) in needs(run) {
                let key = (run.run.clone(), run.branch, path, since);
                if self.served.contains(&key) {
                    continue;
                }
                let fits = |message: &Message| wait.is_met_by(message);
                let next =
                    (0..self.script.len()).find(|i| self.recipients[*i].is_none() && fits(&self.script[*i]));
                let Some(index) = next else { continue };
                busy = true;
                if self.loses_message() {
                    return Ok(true);
                }
                if self.send(client, Recipient { run: &run.run, question: &key.2 }, index).await? {
                    self.served.insert(key);
                }
            }
        }
        Ok(busy)
    }

    /// Decides at random whether the next message is lost. A lost message is sent again later.
    fn loses_message(&mut self) -> bool {
        let Some(random) = &self.random else { return false };
        if random.percent(25) {
            self.turns_lost = 1 + random.below(5);
            self.mail.lost += 1;
        }
        self.turns_lost > 0
    }

    /// Decides at random whether to send the next signal early, before a run waits for it.
    async fn send_early(&mut self, client: &Client, runs: &[Summary]) -> Result<bool, Flaw> {
        let Some(random) = &self.random else { return Ok(false) };
        if !random.percent(10) {
            return Ok(false);
        }
        let Some(index) = self.recipients.iter().position(Option::is_none) else { return Ok(false) };
        let Some(run) = self.expected[index].clone() else { return Ok(false) };
        let is_open = runs.iter().any(|row| row.run == run && !row.status.is_terminal());
        if !is_open || !matches!(self.script[index].kind, MessageKind::Signal(_)) {
            return Ok(false);
        }
        let mut awaited = runs.iter().flat_map(needs);
        let is_early = !awaited.any(|(need, _, _)| need.is_met_by(&self.script[index]));
        let sent = self.send(client, Recipient { run: &run, question: &Path::root() }, index).await?;
        self.mail.early += u64::from(sent && is_early);
        Ok(sent)
    }

    /// Sends a message with its own id, at random twice; returns whether the run received it.
    async fn send(&mut self, client: &Client, to: Recipient<'_>, index: usize) -> Result<bool, Flaw> {
        let Recipient { run, question } = to;
        let twice = self.random.as_ref().is_some_and(|random| random.percent(30));
        let Message { kind, value } = &self.script[index];
        for _ in 0..1 + u32::from(twice) {
            let id = Some(format!("message-{}", index + 1));
            let sent = match kind {
                MessageKind::Signal(name) => client.signal(run, name, value.clone(), id).await,
                MessageKind::Answer(_) => {
                    client.answer(run, question, value.clone(), By { id, ..By::default() }).await
                }
            };
            match sent {
                Ok(_) => {
                    self.mail.twice += u64::from(self.recipients[index].is_some());
                    self.recipients[index] = Some(run.clone());
                }
                Err(error) => {
                    if !is_over(client, run).await {
                        return Err(Flaw::Refused(error.to_string()));
                    }
                }
            }
        }
        Ok(self.recipients[index].is_some())
    }

    /// Executes the remote steps that are ready.
    pub(super) async fn run_workers(&self, client: &Client, world: &World) -> Result<(), EngineError> {
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

/// The run of a message and, for an answer, its question.
#[derive(Clone, Copy)]
struct Recipient<'a> {
    run: &'a RunId,
    question: &'a Path,
}

/// Returns whether the run has ended: an ended run refuses mail, which is not a flaw.
async fn is_over(client: &Client, run: &RunId) -> bool {
    client.get(run).await.is_ok_and(|summary| summary.status.is_terminal())
}

/// A message that a run waits for.
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

/// Returns the messages that this run waits for, each with the path and the start of its wait.
pub(super) fn needs(run: &Summary) -> Vec<(Need, Path, i64)> {
    let signals = run.waits.iter().filter(|wait| !wait.signals.is_empty()).map(|wait| {
        let names = wait.signals.iter().map(|name| name.as_str().to_owned()).collect();
        (Need::Signals(names), wait.path.clone(), wait.since.0)
    });
    let answers =
        run.inputs.iter().map(|open| (Need::Answer(open.path.clone()), open.path.clone(), open.since.0));
    signals.chain(answers).collect()
}
