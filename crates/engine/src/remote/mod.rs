//! Workflows that are written in another language and run in another process: the protocol by which they do.
//!
//! A worker registers and is a node of the store from then on; this process speaks for it. It asks for executions, each a
//! run with the history that its branch sees, appends what it did under the fence of its claim, and parks, gives back or
//! ends the run. The pure core decides as it does for any owner, so a worker's mistakes cost nobody else anything.
//! `docs/protocol.md` has the whole of it, [`wire`] its documents.
//!
//! Nothing here runs until a worker registers.

mod append;
mod doing;
mod holder;
mod pages;
mod token;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Event, Fence, NodeId, Recorded, Refusal, RunId, Seq, WorkflowName};

use crate::client::Client;
use crate::heal::claims::judge::node_name;
use crate::ledger::clock::{Clock, StoreTime, pause};
use crate::ledger::commit::Ledger;
use crate::ledger::config::Config;
use crate::ledger::error::EngineError;
use crate::ledger::error::refused;
use crate::ledger::process::Process;
pub use crate::ledger::refusal::RemoteRefusal;
use crate::node::{Desk, Lying, Node};
use crate::run::context::child;
use crate::run::live_runs::LiveRuns;
use crate::run::registry::Registry;
use pages::{Page, Room};
use token::Held;
use wire::{Beaten, Claim, Claimed, Events, Execution, Heartbeat, News, Register, Registered};

pub use append::APPEND_ID_BYTES_MAX;
pub use doing::{DOINGS_MAX, WANTED_MAX};
pub use holder::Holder;
pub use token::{PlainTokens, Tokens};

/// The lease of a worker that asks for none. Another worker has its runs soon after: a crash is to be noticed within seconds,
/// and a heartbeat is advised every third of it.
const LEASE_MS_DEFAULT: u64 = 10_000;
/// Shortest lease that a worker may ask for.
const LEASE_MIN: Duration = Duration::from_millis(100);
/// Longest lease that a worker may ask for.
const LEASE_MAX: Duration = Duration::from_secs(600);
/// Workflows, queues and executions that a worker may name at once.
pub const NAMES_MAX: usize = 10_000;
/// Executions in one answer.
const CLAIM_MAX: usize = 100;

/// How workers in other processes are treated.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How long a worker may be silent unless it says otherwise.
    pub lease: Duration,
    /// Workers at once.
    pub workers_max: usize,
    /// Workers at once that one credential has registered.
    pub workers_per_key: usize,
    /// Everything else: how their runs are recovered, how often their nodes beat.
    pub config: Config,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_millis(LEASE_MS_DEFAULT),
            workers_max: 256,
            workers_per_key: 128,
            config: Config::default(),
        }
    }
}

/// The workers in other processes that this one speaks for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteWorkers {
    ledger: Ledger,
    options: Arc<RemoteOptions>,
    tokens: Arc<dyn Tokens>,
    all: Arc<Mutex<BTreeMap<NodeId, Arc<Node>>>>,
    /// The credentials of workers that are being registered now.
    coming: Arc<Mutex<Vec<Option<String>>>>,
    leaving: Arc<AtomicBool>,
}

/// A place among the workers, kept until the registration ends.
#[derive(Debug)]
struct Place {
    key: Option<String>,
    coming: Arc<Mutex<Vec<Option<String>>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = coming.iter().position(|key| *key == self.key) {
            coming.swap_remove(at);
        }
    }
}

impl RemoteWorkers {
    /// Workers on the store of `client`, with tokens made by `tokens`.
    pub fn new(client: &Client, options: RemoteOptions, tokens: Arc<dyn Tokens>) -> Self {
        let (ledger, options) = (client.ledger().clone(), Arc::new(options));
        Self { ledger, options, tokens, all: Arc::default(), coming: Arc::default(), leaving: Arc::default() }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arc<Node>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more worker of this credential, if there is one left.
    fn place_for(&self, key: Option<&str>) -> Result<Place, RemoteRefusal> {
        let RemoteOptions { workers_max, workers_per_key, .. } = *self.options;
        let mut all = self.all();
        all.retain(|_, node| !node.is_closed());
        let mut coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner);
        let here = all.values().filter_map(|node| node.desk.as_ref()).map(|desk| desk.holder.as_deref());
        let own = here.chain(coming.iter().map(Option::as_deref)).filter(|holder| *holder == key).count();
        if own >= workers_per_key {
            return Err(RemoteRefusal::TooManyWorkers { whose: "this key has", limit: workers_per_key });
        }
        if all.len() + coming.len() >= workers_max {
            return Err(RemoteRefusal::TooManyWorkers { whose: "this server has", limit: workers_max });
        }
        coming.push(key.map(str::to_owned));
        Ok(Place { key: key.map(str::to_owned), coming: Arc::clone(&self.coming) })
    }

    /// Takes a worker in: a node of the store from now on.
    pub async fn register(&self, register: Register) -> Result<Registered, EngineError> {
        self.register_for(&Holder::default(), register).await
    }

    /// The same with a credential, which alone may speak for it.
    pub async fn register_for(&self, holder: &Holder, register: Register) -> Result<Registered, EngineError> {
        if self.leaving.load(Ordering::Relaxed) {
            return Err(RemoteRefusal::NotNow("the server shuts down").into());
        }
        register.queues_taken().iter().try_for_each(|queue| holder.check_queue(queue))?;
        let _place = self.place_for(holder.key.as_deref())?;
        let lease = register.lease_ms.map_or(self.options.lease, Duration::from_millis);
        let lease = lease.clamp(LEASE_MIN, LEASE_MAX);
        let registry = promised(&register)?;
        let desk = Arc::new(Desk::new(holder.key.clone(), lease, self.ledger.clock.elapsed()));
        let node = self.node(register, registry, &desk)?;
        node.start_for(&desk).await?;
        let worker = node.id.clone();
        self.all().insert(worker.clone(), Arc::clone(&node));
        Ok(Registered { worker, lease_ms: millis(lease), now: node.ledger.clock.now() })
    }

    fn node(
        &self,
        register: Register,
        registry: Registry,
        desk: &Arc<Desk>,
    ) -> Result<Arc<Node>, EngineError> {
        let queues = register.queues_taken();
        let Register { name, slots, .. } = register;
        if slots == 0 || queues.len() > NAMES_MAX {
            return Err(
                RemoteRefusal::Malformed("a worker has at least one slot, and few queues".into()).into()
            );
        }
        let name: String = name.chars().take(self.ledger.limits.text_bytes_max).collect();
        let config = Config {
            name: Some(name),
            slots,
            queues,
            sweep: None,
            beat_on_thread: false,
            limits: (*self.ledger.limits).clone(),
            ..self.options.config.clone()
        };
        let config = config.at_pace(&self.ledger.store.pace());
        config.check()?;
        let id = NodeId::new(node_name(self.ledger.entropy.next()))?;
        let time = Arc::new(StoreTime::new(Arc::clone(&self.ledger.clock)));
        let live_runs = LiveRuns::new(
            Some(id.clone()),
            registry.clone(),
            self.ledger.clock.now(),
            config.silence_max / 2,
        );
        let clock = Arc::clone(&time) as Arc<dyn Clock>;
        let live_runs = Arc::new(live_runs);
        let process = Arc::clone(&live_runs) as Arc<dyn Process>;
        let ledger = Ledger { clock, asks: None, process, ..self.ledger.clone() };
        Ok(Node::new((ledger, live_runs), Arc::new(config), registry, (id, time), Some(Arc::clone(desk))))
    }

    /// Whether a worker was registered with this credential. With any other, there is no such worker.
    pub fn is_held_by(&self, holder: &Holder, worker: &NodeId) -> Result<(), EngineError> {
        match self.find(worker)?.1.holder == holder.key {
            true => Ok(()),
            false => Err(RemoteRefusal::NoSuchWorker(worker.as_str().to_owned()).into()),
        }
    }

    fn find(&self, worker: &NodeId) -> Result<(Arc<Node>, Arc<Desk>), EngineError> {
        let found = self.all().get(worker).filter(|node| !node.is_closed()).cloned();
        let found = found.and_then(|node| node.desk.clone().map(|desk| (node, desk)));
        Ok(found.ok_or_else(|| RemoteRefusal::NoSuchWorker(worker.as_str().to_owned()))?)
    }

    /// The worker, which gives a sign of life.
    fn hear(&self, worker: &NodeId) -> Result<(Arc<Node>, Arc<Desk>), EngineError> {
        let (node, desk) = self.find(worker)?;
        desk.hear(self.ledger.clock.elapsed());
        Ok((node, desk))
    }

    /// What a token stands for, if this credential may use it.
    fn open(&self, holder: &Holder, token: &str) -> Result<Held, EngineError> {
        let held = self.tokens.open(token).and_then(|text| Held::parse(&text));
        let held = held.filter(|held| holder.may_use(held.key.as_deref()));
        Ok(held.ok_or(RemoteRefusal::NoSuchToken)?)
    }

    /// What each of `tokens` stands for; none for one that is not this worker's.
    fn held<'a>(&self, worker: &NodeId, tokens: impl Iterator<Item = &'a String>) -> Vec<Option<Held>> {
        let read = |token: &String| self.tokens.open(token).and_then(|text| Held::parse(&text));
        tokens.take(NAMES_MAX).map(|token| read(token).filter(|held| held.worker == *worker)).collect()
    }

    /// No longer than a third of the lease: an answer must not come when the worker is taken for gone.
    fn patience(desk: &Desk, wait_ms: u64) -> Duration {
        Duration::from_millis(wait_ms).min(desk.lease / 3)
    }

    /// The worker is alive; tells what is new in the logs of its executions, as soon as something is.
    pub async fn heartbeat(&self, worker: &NodeId, beat: Heartbeat) -> Result<Beaten, EngineError> {
        let (node, desk) = self.hear(worker)?;
        let held = self.held(worker, beat.holding.iter().map(|holding| &holding.token));
        desk.compare(&pairs(&held), self.ledger.clock.elapsed());
        let deadline = self.ledger.clock.elapsed() + Self::patience(&desk, beat.wait_ms);
        let mut bell = desk.listen();
        loop {
            bell.mark_unchanged();
            let (mut news, mut lost, mut room) = (Vec::new(), Vec::new(), Room::new());
            for (held, holding) in held.iter().zip(&beat.holding) {
                let known = match held {
                    Some(held) => self.news((&node, &desk), held, holding, &mut room).await?,
                    None => None,
                };
                match known {
                    Some(news_of_it) => news.extend(news_of_it),
                    None => lost.push(holding.token.clone()),
                }
            }
            let leaving = node.live_runs().is_leaving();
            let left = deadline.saturating_sub(self.ledger.clock.elapsed());
            if !news.is_empty() || !lost.is_empty() || leaving || left.is_zero() || node.is_closed() {
                return Ok(Beaten { news, lost, leaving, now: node.ledger.clock.now() });
            }
            let _ = tokio::time::timeout(left, bell.changed()).await;
        }
    }

    /// What is new in one execution; none if it is not the worker's any more.
    async fn news(
        &self,
        (node, desk): (&Node, &Desk),
        held: &Held,
        holding: &wire::Holding,
        room: &mut Room,
    ) -> Result<Option<Option<News>>, EngineError> {
        let Some(lying) = desk.find(&held.run, held.fence) else { return Ok(None) };
        if !node.look(&lying).await? {
            node.clear_away(desk, &lying).await;
            return Ok(None);
        }
        let known = lying.live.lock().state.summary.as_of;
        if known <= holding.after {
            pages::check_after(&self.ledger, &held.run, (known, holding.after)).await?;
            return Ok(Some(None));
        }
        let Page { events, end, more, .. } = self.page(&lying, holding.after, room).await?;
        Ok(Some(Some(News { token: holding.token.clone(), events, end, more })))
    }

    /// Gives a worker executions, waiting for the first.
    pub async fn claim(&self, worker: &NodeId, claim: Claim) -> Result<Claimed, EngineError> {
        let (node, desk) = self.hear(worker)?;
        let held = self.held(worker, claim.holding.iter());
        let _one_at_a_time = desk.asking.lock().await;
        let held = pairs(&held);
        desk.compare(&held, self.ledger.clock.elapsed());
        let limit = usize::try_from(claim.limit).unwrap_or(usize::MAX).min(CLAIM_MAX);
        let deadline = self.ledger.clock.elapsed() + Self::patience(&desk, claim.wait_ms);
        let _asking = desk.ask(u32::try_from(limit).unwrap_or(u32::MAX));
        node.live_runs().ready.notify_one();
        loop {
            let arrived = desk.arrived.notified();
            let taken = desk.take_offered(&held, limit);
            let leaving = node.live_runs().is_leaving();
            let left = deadline.saturating_sub(self.ledger.clock.elapsed());
            if !taken.is_empty() || limit == 0 || leaving || left.is_zero() || node.is_closed() {
                let (mut executions, mut room) = (Vec::with_capacity(taken.len()), Room::new());
                for lying in taken {
                    executions.push(self.execution((worker, &desk.holder), &lying, &mut room).await?);
                }
                return Ok(Claimed { executions, leaving, now: node.ledger.clock.now() });
            }
            let _ = tokio::time::timeout(left, arrived).await;
        }
    }

    /// What an execution sees of its log, after what the worker knows.
    pub async fn events(&self, events: Events) -> Result<News, EngineError> {
        self.events_for(&Holder::default(), events).await
    }

    /// The same with a credential.
    pub async fn events_for(&self, holder: &Holder, events: Events) -> Result<News, EngineError> {
        let held = self.open(holder, &events.token)?;
        let (_, desk) = self.hear(&held.worker)?;
        let fenced = || refused(&held.run, Refusal::Fenced);
        let lying = desk.find(&held.run, held.fence).ok_or_else(fenced)?;
        let known = lying.live.lock().state.summary.as_of;
        pages::check_after(&self.ledger, &held.run, (known, events.after)).await?;
        let Page { events: seen, end, more, .. } = self.page(&lying, events.after, &mut Room::new()).await?;
        Ok(News { token: events.token, events: seen, end, more })
    }

    async fn page(&self, lying: &Lying, after: Seq, room: &mut Room) -> Result<Page, EngineError> {
        let (lineage, base) = {
            let inner = lying.live.lock();
            (inner.state.branches.lineage(inner.fence.branch), inner.state.summary.base)
        };
        let sees = |recorded: &Recorded| lineage.sees(recorded.branch, recorded.seq);
        let run = &lying.live.run;
        if after >= base {
            return pages::after(&self.ledger, run, after, (&sees, room)).await;
        }
        let (history, end) = self.history(lying).await?;
        Ok(Page::of(history, (after, end), room))
    }

    /// Everything that the execution sees, and where the log ends.
    async fn history(&self, lying: &Lying) -> Result<(Vec<Recorded>, Seq), EngineError> {
        let (lineage, base, end) = {
            let inner = lying.live.lock();
            let summary = &inner.state.summary;
            (inner.state.branches.lineage(inner.fence.branch), summary.base, summary.as_of)
        };
        let (mut history, _) = self.ledger.history_to(&lying.live.run, base, end).await?;
        history.retain(|r| r.seq <= end && (r.event.is_mail() || lineage.sees(r.branch, r.seq)));
        Ok((history, end))
    }

    async fn execution(
        &self,
        (worker, key): (&NodeId, &Option<String>),
        lying: &Lying,
        room: &mut Room,
    ) -> Result<Execution, EngineError> {
        let (history, end) = self.history(lying).await?;
        self.create_children(lying, &history).await;
        let page = Page::of(history, (Seq::ZERO, end), room);
        let inner = lying.live.lock();
        let (state, branch) = (&inner.state, inner.fence.branch);
        let summary = &state.summary;
        let (run, fence) = (summary.run.clone(), inner.fence);
        let held = Held { worker: worker.clone(), run, fence, key: key.clone() };
        Ok(Execution {
            token: self.tokens.seal(&held.sealed()),
            run: summary.run.clone(),
            branch,
            epoch: inner.fence.epoch,
            workflow: summary.workflow.clone(),
            version: summary.version,
            input: state.queued.input.clone(),
            tags: summary.tags.clone(),
            attempt: summary.attempt,
            generation: state.branches.generation(branch),
            created_at: summary.created_at,
            cancel_requested: summary.cancel.is_some(),
            other_input_until: state.other_input_until,
            base: summary.base,
            events: page.events,
            end: page.end,
            more: page.more,
        })
    }

    /// Children that are wanted in the log and that a crash kept from being created.
    async fn create_children(&self, lying: &Lying, history: &[Recorded]) {
        for recorded in history {
            let Event::ChildStarted(child) = &recorded.event else { continue };
            let open = lying.live.lock().state.children.get(&child.run).is_some_and(|child| !child.ended);
            if open {
                child::create_for(&lying.live, child.clone()).await;
            }
        }
    }

    /// The worker goes: what it has is given back, and no attempt is counted for it.
    pub async fn leave(&self, worker: &NodeId) -> Result<(), EngineError> {
        let (node, _) = self.hear(worker)?;
        node.send_off().await;
        self.all().remove(worker);
        Ok(())
    }

    /// The credentials that workers of this process are registered with.
    pub fn holders(&self) -> BTreeSet<Option<String>> {
        let all = self.all();
        let desks = all.values().filter(|node| !node.is_closed()).filter_map(|node| node.desk.as_ref());
        desks.map(|desk| desk.holder.clone()).collect()
    }

    /// Ends every worker of a credential that is not valid any more: their runs are given back, and no attempt is counted.
    pub async fn dismiss(&self, key: Option<&str>) {
        let is_theirs = |node: &Arc<Node>| {
            node.desk.as_ref().is_some_and(|desk| desk.holder.as_deref() == key) && !node.is_closed()
        };
        let theirs: Vec<Arc<Node>> = self.all().values().filter(|node| is_theirs(node)).cloned().collect();
        for node in &theirs {
            self.all().remove(&node.id);
        }
        join_all(theirs.iter().map(|node| node.send_off())).await;
        theirs.iter().filter_map(|node| node.desk.as_ref()).for_each(|desk| desk.tell_all());
    }

    /// The workers that this process speaks for now.
    pub fn workers(&self) -> Vec<NodeId> {
        self.all().iter().filter(|(_, node)| !node.is_closed()).map(|(id, _)| id.clone()).collect()
    }

    /// Takes nobody in any more, asks every worker to give back what it has, waits for it as long as `drain`, then
    /// gives the rest back.
    pub async fn shutdown(&self, drain: Duration) {
        self.leaving.store(true, Ordering::Relaxed);
        let all: Vec<Arc<Node>> = std::mem::take(&mut *self.all()).into_values().collect();
        for node in &all {
            node.live_runs().leave();
            if let Some(desk) = &node.desk {
                desk.tell_all();
            }
        }
        let deadline = self.ledger.clock.elapsed() + drain;
        let busy = |node: &Arc<Node>| !node.is_closed() && node.live_runs().hot_count() > 0;
        while all.iter().any(busy) && self.ledger.clock.elapsed() < deadline {
            pause(Duration::from_millis(10)).await;
        }
        join_all(all.iter().map(|node| node.send_off())).await;
    }
}

/// The workflows that a worker has.
fn promised(register: &Register) -> Result<Registry, EngineError> {
    let malformed = |why: String| RemoteRefusal::Malformed(why);
    let labels = &register.workflows;
    if labels.is_empty() || labels.len() > NAMES_MAX {
        return Err(malformed("a worker has at least one workflow".to_owned()).into());
    }
    let mut registry = Registry::default();
    for label in labels {
        let (name, version) = label.rsplit_once('@').unwrap_or((label, "1"));
        let version = version.parse().ok().filter(|version| *version != UNDECIDED);
        let Some(version) = version else {
            return Err(malformed(format!("{label} is not name@version, with versions from 1 on")).into());
        };
        registry.promise(WorkflowName::new(name)?, version);
    }
    for (workflow, steps) in &register.plans {
        if registry.newest(workflow).is_none() {
            return Err(
                malformed(format!("the plan of {workflow} belongs to no workflow of this worker")).into()
            );
        }
        if steps.len() > NAMES_MAX {
            return Err(malformed(format!("the plan of {workflow} has more than {NAMES_MAX} steps")).into());
        }
        registry.declare(workflow.clone(), steps.clone());
    }
    Ok(registry)
}

fn pairs(held: &[Option<Held>]) -> Vec<(RunId, Fence)> {
    held.iter().flatten().map(|held| (held.run.clone(), held.fence)).collect()
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
