//! People and programs outside: they start, signal, answer, cancel, pause, jump, retry, terminate and withdraw, through a
//! faulty connection of their own, and write down what they were promised.

use std::sync::Arc;

use goldseam_core::decide::Refusal;
use goldseam_core::state::OpKind;
use goldseam_core::{Path, Payload, RunId, Seq, codec};
use goldseam_engine::client::{By, Jump};
use goldseam_engine::{Client, EngineError, StartOptions};
use goldseam_store::{Record, Store};

use crate::book::{Ack, Answer, Book};
use crate::dice::Dice;
use crate::flows::FLOWS;
use crate::world::limits;

/// One of those outside. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Person {
    /// Their client.
    pub client: Client,
    /// What was really done.
    pub book: Arc<Book>,
    /// The store beneath everything, to check what was promised.
    pub truth: Arc<dyn Store>,
}

/// Something to be done from outside, all numbers drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// Start the run with this number; perhaps again, perhaps with other input.
    Start(u64),
    /// Send it a signal.
    Signal(u64),
    /// Answer whatever it asks.
    Answer(u64),
    /// Ask it to stop.
    Cancel(u64),
    /// Stop it for a while.
    Pause(u64),
    /// Let it go on.
    Resume(u64),
    /// Go back to one of its steps.
    Jump(u64),
    /// Try it again if it failed.
    Retry(u64),
    /// End it without its code.
    Terminate(u64),
    /// Take back whatever waits.
    Withdraw(u64),
}

/// A value as payload.
pub fn payload(value: &serde_json::Value) -> Payload {
    Payload::of(value, &limits()).unwrap_or_else(|_| Payload::null())
}

/// The id of the run with this number.
pub fn run_id(number: u64) -> RunId {
    RunId::new(format!("r{number}")).unwrap_or_else(|_| unreachable!("a literal that is an id"))
}

/// The workflow and input of the run with this number.
pub fn plan_of(seed: u64, number: u64) -> (&'static str, u64) {
    let mut dice = Dice::new(seed.wrapping_mul(31).wrapping_add(number));
    let flow = dice.pick(FLOWS).copied().unwrap_or("steps");
    (flow, dice.below(50))
}

/// Whether the fleet of this seed has several versions of every workflow.
pub fn is_mixed(seed: u64) -> bool {
    seed % 10 == 7
}

/// What the run with this number is started with besides its input. In mixed fleets some ask for a version, and the client
/// looks up the newest for the others; elsewhere all ask for the only one, so that those seeds stay as they were.
fn options_of(seed: u64, number: u64) -> StartOptions {
    let options = StartOptions::default();
    if !is_mixed(seed) {
        return options.version(1);
    }
    match Dice::new(seed.wrapping_mul(37).wrapping_add(number) ^ 0x7e25).below(4) {
        version @ 1..3 => options.version(u32::try_from(version).unwrap_or(1)),
        _ => options,
    }
}

impl Person {
    /// Does it; the dice say the rest.
    pub async fn act(self, deed: Deed, seed: u64, mut dice: Dice) {
        let id = format!("d{:x}", dice.draw());
        match deed {
            Deed::Start(number) => self.start(number, seed, &mut dice).await,
            Deed::Signal(number) => {
                let drawn = dice.below(1_000);
                // Some send what no wait of these workflows accepts: refused at the door, or left unread.
                let value =
                    if drawn % 16 == 5 { serde_json::json!("five") } else { serde_json::json!(drawn) };
                let value = payload(&value);
                let sent = self.client.signal(&run_id(number), "go", value.clone(), Some(id.clone())).await;
                self.promised(&run_id(number), &id, sent.is_ok()).await;
                if dice.percent(30) {
                    // A careful client repeats itself under the same id.
                    let again = self.client.signal(&run_id(number), "go", value, Some(id.clone())).await;
                    self.promised(&run_id(number), &id, again.is_ok()).await;
                }
            }
            Deed::Answer(number) => self.answer(&run_id(number), &id, &mut dice).await,
            Deed::Cancel(number) => {
                let done = self.client.cancel(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Deed::Pause(number) => {
                let done = self.client.pause(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Deed::Resume(number) => {
                let done = self.client.resume(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok_and(|resumed| resumed.rested)).await;
            }
            Deed::Jump(number) => self.jump(&run_id(number), &id, &mut dice).await,
            Deed::Retry(number) => {
                let done = match dice.percent(30) {
                    true => self.client.retry_dropping_cancel(&run_id(number), by(&id)).await,
                    false => self.client.retry(&run_id(number), by(&id)).await,
                };
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Deed::Terminate(number) => {
                let done = self.client.terminate(&run_id(number), by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
            Deed::Withdraw(number) => {
                let done = self.client.withdraw(&run_id(number), None, by(&id)).await;
                self.promised(&run_id(number), &id, done.is_ok()).await;
            }
        }
    }

    async fn start(&self, number: u64, seed: u64, dice: &mut Dice) {
        let (flow, input) = plan_of(seed, number);
        let run = run_id(number);
        for _ in 0..=dice.below(2) {
            let value = payload(&serde_json::json!(input));
            let started = self.client.start(flow, &run, value, options_of(seed, number)).await;
            if started.is_ok() {
                self.book.told(Ack::Started(run.clone(), input.to_string()));
                let held = self.truth.head(&run).await.is_ok_and(|head| head.is_some());
                let held = held && self.sees(&run, Seq(1)).await;
                self.book.told(Ack::Read(run.clone(), "start".to_owned(), held));
            }
        }
        if dice.percent(20) {
            let other = payload(&serde_json::json!(input + 1_000));
            let there = self.truth.head(&run).await.is_ok_and(|head| head.is_some());
            let answer = match self.client.start(flow, &run, other, options_of(seed, number)).await {
                Ok(_) => Answer::Taken,
                Err(EngineError::Refused { refusal: Refusal::OtherInput { .. }, .. }) => Answer::Refused,
                Err(_) => Answer::Unknown,
            };
            if there {
                self.book.told(Ack::OtherInput(run, answer));
            }
        }
    }

    /// Answers the first open question, if there is one.
    pub async fn answer(&self, run: &RunId, id: &str, dice: &mut Dice) {
        let Ok(summary) = self.client.get(run).await else { return };
        let Some(open) = summary.inputs.first() else { return };
        let word = if dice.percent(80) { "yes" } else { "perhaps" };
        let answer = payload(&serde_json::json!(word));
        let done = self.client.answer(run, &open.path, answer, by(id)).await;
        self.promised(run, id, done.is_ok()).await;
    }

    async fn jump(&self, run: &RunId, id: &str, dice: &mut Dice) {
        let Ok(state) = self.client.state(run).await else { return };
        let mut steps: Vec<Path> = state
            .ops
            .iter()
            .filter(|(path, op)| path.arm().is_empty() && matches!(op.kind, OpKind::Step(_)))
            .map(|(path, _)| path.clone())
            .collect();
        steps.sort();
        let Some(to) = dice.pick(&steps) else { return };
        let (drop_mail, compensate, drop_cancel) = (dice.percent(20), dice.percent(50), dice.percent(30));
        let jump = Jump { input: None, drop_mail, compensate, drop_cancel, by: by(id) };
        let done = self.client.jump(run, to, jump).await;
        self.promised(run, id, done.is_ok()).await;
    }

    /// Whether a read as users do it, if it is answered, knows what stands at this position.
    async fn sees(&self, run: &RunId, seq: Seq) -> bool {
        match self.client.get(run).await {
            Ok(summary) => summary.as_of >= seq,
            Err(EngineError::Refused { .. }) => false,
            Err(_) => true,
        }
    }

    /// Writes down an acknowledgement, and whether the log and whoever asks knew it at once.
    async fn promised(&self, run: &RunId, id: &str, taken: bool) {
        if !taken {
            return;
        }
        self.book.told(Ack::Mail(run.clone(), id.to_owned()));
        let log = self.truth.read(run, Seq::ZERO, u32::MAX).await.unwrap_or_default();
        let needle = format!("\"{id}\"");
        let is_it = |record: &&Record| {
            record.body.contains(&needle) && codec::decode(record.seq, &record.body).is_ok()
        };
        let held = match log.iter().find(is_it) {
            Some(record) => self.sees(run, record.seq).await,
            None => false,
        };
        self.book.told(Ack::Read(run.clone(), id.to_owned(), held));
    }
}

/// The name of a command.
pub fn by(id: &str) -> By {
    By { who: None, reason: "simulated".to_owned(), id: Some(id.to_owned()) }
}
