//! Outside clients: they start, signal, answer, cancel, pause, jump, retry, terminate and withdraw over a faulty
//! connection, and record the acknowledgements.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::decide::Refusal;
use goldseam_core::state::OpKind;
use goldseam_core::{Path, Payload, RunId, Seq, codec};
use goldseam_engine::client::{By, Jump, RequestOptions, Requested};
use goldseam_engine::{Client, EngineError, StartOptions};
use goldseam_store::{Record, Store};

use crate::cluster::limits;
use crate::journal::{Ack, Journal, StartReply};
use crate::random::Random;
use crate::workflows::{ADD, BASKET, KIN, WORKFLOWS};

/// An outside client. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OutsideClient {
    /// The client of the engine's interface.
    pub client: Client,
    /// The record of acknowledgements.
    pub journal: Arc<Journal>,
    /// The store without faults, to check acknowledgements.
    pub truth: Arc<dyn Store>,
}

/// An action from outside on the run with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start it; at random again, and at random with other input.
    Start(u64),
    /// Send it a signal.
    Signal(u64),
    /// Answer its open question.
    Answer(u64),
    /// Cancel it.
    Cancel(u64),
    /// Pause it.
    Pause(u64),
    /// Resume it.
    Resume(u64),
    /// Jump to one of its steps.
    Jump(u64),
    /// Retry it.
    Retry(u64),
    /// Terminate it.
    Terminate(u64),
    /// Withdraw its pending requests.
    Withdraw(u64),
}

/// Encodes a value as a payload.
pub fn payload(value: &serde_json::Value) -> Payload {
    Payload::of(value, &limits()).unwrap_or_else(|_| Payload::null())
}

/// Returns the id of the run with this number.
pub fn run_id(number: u64) -> RunId {
    RunId::new(format!("r{number}")).unwrap_or_else(|_| unreachable!("a literal that is an id"))
}

/// Returns the workflow and input of the run with this number.
pub fn plan_of(seed: u64, number: u64) -> (&'static str, u64) {
    let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(number));
    let flow = random.pick(WORKFLOWS).copied().unwrap_or("steps");
    let flow = match number.is_multiple_of(2) {
        true if is_talking(seed) => BASKET,
        true if is_kin(seed) => KIN,
        _ => flow,
    };
    (flow, random.below(50))
}

/// Returns whether people send requests in this seed. All other seeds keep their traces.
pub fn is_talking(seed: u64) -> bool {
    seed % 10 == 4
}

/// Kept seeds that failed before there were such runs: they keep the runs with which they failed.
const KEPT: [u64; 2] = [201_279, 5_001_909];

/// Returns whether runs of this seed have children of every kind and signal each other.
pub fn is_kin(seed: u64) -> bool {
    seed % 10 == 9 && !KEPT.contains(&seed)
}

/// Returns whether the nodes of this seed have several versions of each workflow.
pub fn is_mixed(seed: u64) -> bool {
    seed % 10 == 7
}

/// Returns whether runs of this seed have deadlines, delayed starts and lanes.
pub fn is_timed(seed: u64) -> bool {
    seed % 16 == 11
}

/// Adds the times and the lane of a run of a timed seed.
fn timed(options: StartOptions, mut random: Random) -> StartOptions {
    let span = |ms: u64| Duration::from_millis(ms);
    let options = match random.below(3) {
        0 => options.timeout(span(200 + random.below(20_000))),
        _ => options,
    };
    let options = match random.below(4) {
        0 => options.delay(span(random.below(4_000))),
        _ => options,
    };
    match random.below(3) {
        0 => options.lane(format!("lane-{}", random.below(2))),
        _ => options,
    }
}

/// Returns the start options of the run with this number. In mixed seeds, some runs ask for a version and the others
/// get the newest. In all other seeds, each run asks for version 1, so that those seeds keep their traces.
fn options_of(seed: u64, number: u64) -> StartOptions {
    let options = StartOptions::default();
    if is_timed(seed) {
        return timed(options.version(1), Random::new(seed.wrapping_mul(41).wrapping_add(number) ^ 0x71e3));
    }
    if !is_mixed(seed) {
        return options.version(1);
    }
    match Random::new(seed.wrapping_mul(37).wrapping_add(number) ^ 0x7e25).below(4) {
        version @ 1..3 => options.version(u32::try_from(version).unwrap_or(1)),
        _ => options,
    }
}

impl OutsideClient {
    /// Performs an action.
    pub async fn act(self, action: Action, seed: u64, mut random: Random) {
        let id = format!("d{:x}", random.draw());
        match action {
            Action::Start(number) => self.start(number, seed, &mut random).await,
            Action::Signal(number) if plan_of(seed, number).0 == BASKET && is_talking(seed) => {
                self.request(&run_id(number), &id, &mut random).await;
            }
            Action::Signal(number) => {
                let drawn = random.below(1_000);
                // Some signals do not fit the schema of the wait: they are refused or stay unread.
                let value =
                    if drawn % 16 == 5 { serde_json::json!("five") } else { serde_json::json!(drawn) };
                let value = payload(&value);
                let sent = self.client.signal(&run_id(number), "go", value.clone(), Some(id.clone())).await;
                self.promised(&run_id(number), &id, sent.is_ok()).await;
                if random.percent(30) {
                    // A repeated signal with the same id must be harmless.
                    let again = self.client.signal(&run_id(number), "go", value, Some(id.clone())).await;
                    self.promised(&run_id(number), &id, again.is_ok()).await;
                }
            }
            Action::Answer(number) => self.answer(&run_id(number), &id, &mut random).await,
            Action::Cancel(number) => {
                let done = self.client.cancel(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Action::Pause(number) => {
                let done = self.client.pause(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Action::Resume(number) => {
                let done = self.client.resume(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok_and(|resumed| resumed.rested)).await;
            }
            Action::Jump(number) => self.jump(&run_id(number), &id, &mut random).await,
            Action::Retry(number) => {
                let done = if random.percent(30) {
                    self.client.retry_dropping_cancel(&run_id(number), by(&id)).await
                } else {
                    self.client.retry(&run_id(number), by(&id)).await
                };
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Action::Terminate(number) => {
                let done = self.client.terminate(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Action::Withdraw(number) => {
                let done = self.client.withdraw(&run_id(number), None, by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
        }
    }

    async fn start(&self, number: u64, seed: u64, random: &mut Random) {
        let (flow, input) = plan_of(seed, number);
        let run = run_id(number);
        for _ in 0..=random.below(2) {
            let value = payload(&serde_json::json!(input));
            let started = self.client.start_with(flow, &run, &value, options_of(seed, number)).await;
            if started.is_ok() {
                self.journal.acknowledged(Ack::Started(run.clone(), input.to_string()));
                let held = self.truth.head(&run).await.is_ok_and(|head| head.is_some());
                let held = held && self.sees(&run, Seq(1)).await;
                self.journal.acknowledged(Ack::Read(run.clone(), "start".to_owned(), held));
            }
        }
        if random.percent(20) {
            let other = payload(&serde_json::json!(input + 1_000));
            let there = self.truth.head(&run).await.is_ok_and(|head| head.is_some());
            let answer = match self.client.start_with(flow, &run, &other, options_of(seed, number)).await {
                Ok(_) => StartReply::Taken,
                Err(EngineError::Refused { refusal: Refusal::OtherInput { .. }, .. }) => StartReply::Refused,
                Err(_) => StartReply::Unknown,
            };
            if there {
                self.journal.acknowledged(Ack::OtherInput(run, answer));
            }
        }
    }

    /// Sends a request, at random again, and records the replies.
    pub async fn request(&self, run: &RunId, id: &str, random: &mut Random) {
        let drawn = random.below(1_000);
        // The content of some requests does not fit: they are refused, or stay unread.
        let value = if drawn % 16 == 5 { serde_json::json!("five") } else { serde_json::json!(drawn) };
        let timeout = Duration::from_millis(random.below(3_000));
        for _ in 0..=random.below(2) {
            let options = RequestOptions { id: Some(id.to_owned()), timeout };
            let sent = self.client.request(run, ADD, payload(&value), options).await;
            self.promised(run, id, sent.is_ok()).await;
            if let Ok(Requested { reply, .. }) = sent {
                self.journal.acknowledged(Ack::Replied(run.clone(), id.to_owned(), reply));
            }
        }
    }

    /// Answers the first open question, if any.
    pub async fn answer(&self, run: &RunId, id: &str, random: &mut Random) {
        let Ok(summary) = self.client.get(run).await else { return };
        let Some(open) = summary.inputs.first() else { return };
        let word = if random.percent(80) { "yes" } else { "perhaps" };
        let answer = payload(&serde_json::json!(word));
        let done = self.client.answer(run, &open.path, answer, by(id)).await;
        self.promised(run, id, done.is_ok()).await;
    }

    async fn jump(&self, run: &RunId, id: &str, random: &mut Random) {
        let Ok(state) = self.client.state(run).await else { return };
        let mut steps: Vec<Path> = state
            .ops
            .iter()
            .filter(|(path, op)| path.arm().is_empty() && matches!(op.kind, OpKind::Step(_)))
            .map(|(path, _)| path.clone())
            .collect();
        steps.sort();
        let Some(to) = random.pick(&steps) else { return };
        let jump = Jump {
            input: None,
            drop_mail: random.percent(20),
            compensate: random.percent(50),
            drop_cancel: random.percent(30),
            by: by(id),
        };
        let done = self.client.jump(run, to, jump).await;
        self.promised(run, id, done.is_ok()).await;
    }

    /// Returns whether a read through the client reflects the event at this position. A failed read counts as yes.
    async fn sees(&self, run: &RunId, seq: Seq) -> bool {
        match self.client.get(run).await {
            Ok(summary) => summary.as_of >= seq,
            Err(EngineError::Refused { .. }) => false,
            Err(_) => true,
        }
    }

    /// Records an acknowledgement, and whether the log and a read through the client reflect it at once.
    async fn promised(&self, run: &RunId, id: &str, taken: bool) {
        if !taken {
            return;
        }
        self.journal.acknowledged(Ack::Mail(run.clone(), id.to_owned()));
        let log = self.truth.read(run, Seq::ZERO, u32::MAX).await.unwrap_or_default();
        let needle = format!("\"{id}\"");
        let is_it = |record: &&Record| {
            record.body.contains(&needle) && codec::decode(record.seq, &record.body).is_ok()
        };
        let held = match log.iter().find(is_it) {
            Some(record) => self.sees(run, record.seq).await,
            None => false,
        };
        self.journal.acknowledged(Ack::Read(run.clone(), id.to_owned(), held));
    }
}

/// Returns the author of a command with this id.
pub fn by(id: &str) -> By {
    By { who: None, reason: "simulated".to_owned(), id: Some(id.to_owned()) }
}
