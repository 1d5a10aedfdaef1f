//! Remote workflows: workflows of any language that run in another process, and the protocol for them.
//!
//! A worker registers and is then a node of the store; this process acts for it. The worker claims executions (a run
//! with the history of its branch), appends what it did under the fence of its claim, and parks, releases or ends the
//! run. The pure core decides as for any owner, so a faulty worker harms only its own runs. `docs/protocol.md`
//! describes the protocol, [`wire`] its documents.
//!
//! Nothing runs here until a worker registers.

mod append;
mod holder;
mod pages;
mod token;
mod validate;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::future::join_all;
use goldseam_core::reserved::{Named, prefix};
use goldseam_core::version::UNDECIDED;
use goldseam_core::{Event, Fence, NodeId, Recorded, Refusal, RunId, Seq, WorkflowName};

use crate::client::Client;
use crate::heal::claims::staleness::node_name;
use crate::ledger::clock::{Clock, StoreTime, pause};
use crate::ledger::commit::Ledger;
use crate::ledger::config::Config;
use crate::ledger::error::EngineError;
use crate::ledger::error::refused;
use crate::ledger::process::Process;
pub use crate::ledger::refusal::RemoteRefusal;
use crate::ledger::sync::lock;
use crate::node::{Handoff, Node, NodeSetup, OfferedRun};
use crate::run::context::child;
use crate::run::live_runs::LiveRuns;
use crate::run::registry::Registry;
use pages::{Page, Room};
use token::Held;
use wire::{Beaten, Claim, Claimed, Events, Execution, Heartbeat, News, Register, Registered};

pub use append::APPEND_ID_BYTES_MAX;
pub use holder::Holder;
pub use token::{PlainTokens, Tokens};
pub use validate::{DOINGS_MAX, WANTED_MAX};

/// Default lease of a worker. Short, because a crash should be noticed within seconds; a heartbeat every third of it
/// is advised.
const LEASE_MS_DEFAULT: u64 = 10_000;
/// Shortest lease.
const LEASE_MIN: Duration = Duration::from_millis(100);
/// Longest lease.
const LEASE_MAX: Duration = Duration::from_secs(600);
/// Maximum number of workflows, queues or executions that a worker may name at once.
pub const NAMES_MAX: usize = 10_000;
/// Maximum number of executions in one response.
const CLAIM_MAX: usize = 100;

/// Options for remote workers.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How long a worker may be silent, unless it registers with another lease.
    pub lease: Duration,
    /// Maximum number of workers.
    pub workers_max: usize,
    /// Maximum number of workers per credential.
    pub workers_per_key: usize,
    /// All other settings of their nodes, such as recovery and beats.
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

/// The remote workers that this process acts for. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteWorkers {
    ledger: Ledger,
    options: Arc<RemoteOptions>,
    tokens: Arc<dyn Tokens>,
    all: Arc<Mutex<BTreeMap<NodeId, Arc<Node>>>>,
    /// The credentials of workers that are registering now.
    registering: Arc<Mutex<Vec<Option<String>>>>,
    leaving: Arc<AtomicBool>,
}

/// A reserved place among the workers, until the registration ends.
#[derive(Debug)]
struct Place {
    key: Option<String>,
    registering: Arc<Mutex<Vec<Option<String>>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut registering = lock(&self.registering);
        if let Some(at) = registering.iter().position(|key| *key == self.key) {
            registering.swap_remove(at);
        }
    }
}

/// A registered worker: its node, and the handoff of its runs.
#[derive(Debug)]
struct Served {
    node: Arc<Node>,
    handoff: Arc<Handoff>,
}

impl RemoteWorkers {
    /// Creates the workers of the store of `client`, with tokens made by `tokens`.
    pub fn new(client: &Client, options: RemoteOptions, tokens: Arc<dyn Tokens>) -> Self {
        let ledger = client.ledger().clone();
        let options = Arc::new(options);
        Self {
            ledger,
            options,
            tokens,
            all: Arc::default(),
            registering: Arc::default(),
            leaving: Arc::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<NodeId, Arc<Node>>> {
        lock(&self.all)
    }

    /// Reserves a place for a worker of this credential, if one is left.
    fn place_for(&self, key: Option<&str>) -> Result<Place, RemoteRefusal> {
        let RemoteOptions { workers_max, workers_per_key, .. } = *self.options;
        let mut all = self.all();
        all.retain(|_, node| !node.is_closed());
        let mut registering = lock(&self.registering);
        let here =
            all.values().filter_map(|node| node.handoff.as_ref()).map(|handoff| handoff.holder.as_deref());
        let own =
            here.chain(registering.iter().map(Option::as_deref)).filter(|holder| *holder == key).count();
        if own >= workers_per_key {
            return Err(RemoteRefusal::TooManyWorkers { whose: "this key has", limit: workers_per_key });
        }
        if all.len() + registering.len() >= workers_max {
            return Err(RemoteRefusal::TooManyWorkers { whose: "this server has", limit: workers_max });
        }
        registering.push(key.map(str::to_owned));
        Ok(Place { key: key.map(str::to_owned), registering: Arc::clone(&self.registering) })
    }

    /// Registers a worker, which is then a node of the store.
    pub async fn register(&self, register: Register) -> Result<Registered, EngineError> {
        self.register_for(&Holder::default(), register).await
    }

    /// Like [`RemoteWorkers::register`], with a credential that alone may act for the worker.
    pub async fn register_for(&self, holder: &Holder, register: Register) -> Result<Registered, EngineError> {
        if self.leaving.load(Ordering::Relaxed) {
            return Err(RemoteRefusal::NotNow("the server is shutting down").into());
        }
        register.queues_taken().iter().try_for_each(|queue| holder.check_queue(queue))?;
        let _place = self.place_for(holder.key.as_deref())?;
        let lease = register.lease_ms.map_or(self.options.lease, Duration::from_millis);
        let lease = lease.clamp(LEASE_MIN, LEASE_MAX);
        let registry = registry_of(&register)?;
        let handoff = Arc::new(Handoff::new(holder.key.clone(), lease, self.ledger.clock.elapsed()));
        let node = self.node(register, registry, &handoff)?;
        node.start_for_worker(&handoff).await?;
        let worker = node.id.clone();
        self.all().insert(worker.clone(), Arc::clone(&node));
        Ok(Registered { worker, lease_ms: millis(lease), now: node.ledger.clock.now() })
    }

    fn node(
        &self,
        register: Register,
        registry: Registry,
        handoff: &Arc<Handoff>,
    ) -> Result<Arc<Node>, EngineError> {
        let queues = register.queues_taken();
        let Register { name, slots, .. } = register;
        if slots == 0 || queues.len() > NAMES_MAX {
            return Err(RemoteRefusal::Malformed(
                "a worker needs at least one slot, and at most 10,000 queues".into(),
            )
            .into());
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
        Ok(Node::new(NodeSetup {
            ledger,
            live_runs,
            config: Arc::new(config),
            registry,
            id,
            time,
            handoff: Some(Arc::clone(handoff)),
        }))
    }

    /// Checks that the worker registered with this credential. If not, the error says that the worker does not exist.
    pub fn is_held_by(&self, holder: &Holder, worker: &NodeId) -> Result<(), EngineError> {
        match self.find(worker)?.handoff.holder == holder.key {
            true => Ok(()),
            false => Err(RemoteRefusal::NoSuchWorker(worker.as_str().to_owned()).into()),
        }
    }

    fn find(&self, worker: &NodeId) -> Result<Served, EngineError> {
        let found = self.all().get(worker).filter(|node| !node.is_closed()).cloned();
        let found = found.and_then(|node| node.handoff.clone().map(|handoff| Served { node, handoff }));
        Ok(found.ok_or_else(|| RemoteRefusal::NoSuchWorker(worker.as_str().to_owned()))?)
    }

    /// Finds the worker and records a sign of life.
    fn seen(&self, worker: &NodeId) -> Result<Served, EngineError> {
        let served = self.find(worker)?;
        served.handoff.worker_seen(self.ledger.clock.elapsed());
        Ok(served)
    }

    /// Opens a token, if this credential may use it.
    fn open(&self, holder: &Holder, token: &str) -> Result<Held, EngineError> {
        let held = self.tokens.open(token).and_then(|text| Held::parse(&text));
        let held = held.filter(|held| holder.may_use(held.key.as_deref()));
        Ok(held.ok_or(RemoteRefusal::NoSuchToken)?)
    }

    /// Opens `tokens`; none for each that does not belong to this worker.
    fn held<'a>(&self, worker: &NodeId, tokens: impl Iterator<Item = &'a String>) -> Vec<Option<Held>> {
        let read = |token: &String| self.tokens.open(token).and_then(|text| Held::parse(&text));
        tokens.take(NAMES_MAX).map(|token| read(token).filter(|held| held.worker == *worker)).collect()
    }

    /// The wait of a request, limited to a third of the lease: the response must come while the worker counts as
    /// alive.
    fn wait_limit(handoff: &Handoff, wait_ms: u64) -> Duration {
        Duration::from_millis(wait_ms).min(handoff.lease / 3)
    }

    /// Records that the worker is alive, and returns news of its executions as soon as there are any.
    pub async fn heartbeat(&self, worker: &NodeId, beat: Heartbeat) -> Result<Beaten, EngineError> {
        let served = self.seen(worker)?;
        let Served { node, handoff } = &served;
        let held = self.held(worker, beat.holding.iter().map(|holding| &holding.token));
        handoff.reconcile(&pairs(&held), self.ledger.clock.elapsed());
        let deadline = self.ledger.clock.elapsed() + Self::wait_limit(handoff, beat.wait_ms);
        let mut changes = handoff.subscribe();
        loop {
            changes.mark_unchanged();
            let mut news = Vec::new();
            let mut lost = Vec::new();
            let mut room = Room::new();
            for (held, holding) in held.iter().zip(&beat.holding) {
                let known = match held {
                    Some(held) => self.news_of(&served, held, holding, &mut room).await?,
                    None => None,
                };
                match known {
                    Some(new) => news.extend(new),
                    None => lost.push(holding.token.clone()),
                }
            }
            let leaving = node.live_runs().is_leaving();
            let left = deadline.saturating_sub(self.ledger.clock.elapsed());
            if !news.is_empty() || !lost.is_empty() || leaving || left.is_zero() || node.is_closed() {
                return Ok(Beaten { news, lost, leaving, now: node.ledger.clock.now() });
            }
            let _ = tokio::time::timeout(left, changes.changed()).await;
        }
    }

    /// The news of one execution; none if the worker no longer has it.
    async fn news_of(
        &self,
        served: &Served,
        held: &Held,
        holding: &wire::Holding,
        room: &mut Room,
    ) -> Result<Option<Option<News>>, EngineError> {
        let Served { node, handoff } = served;
        let Some(offer) = handoff.find(&held.run, held.fence) else { return Ok(None) };
        if !node.refresh(&offer).await? {
            node.clear(handoff, &offer).await;
            return Ok(None);
        }
        let known = offer.live.lock().state.summary.as_of;
        if known <= holding.after {
            pages::check_after(&self.ledger, &held.run, known, holding.after).await?;
            return Ok(Some(None));
        }
        let Page { events, end, more, .. } = self.page(&offer, holding.after, room).await?;
        Ok(Some(Some(News { token: holding.token.clone(), events, end, more })))
    }

    /// Gives a worker executions; waits for the first.
    pub async fn claim(&self, worker: &NodeId, claim: Claim) -> Result<Claimed, EngineError> {
        let Served { node, handoff } = self.seen(worker)?;
        let held = self.held(worker, claim.holding.iter());
        let _one_at_a_time = handoff.requesting.lock().await;
        let held = pairs(&held);
        handoff.reconcile(&held, self.ledger.clock.elapsed());
        handoff.listed(&held);
        let limit = usize::try_from(claim.limit).unwrap_or(usize::MAX).min(CLAIM_MAX);
        let deadline = self.ledger.clock.elapsed() + Self::wait_limit(&handoff, claim.wait_ms);
        let _demand = handoff.request(u32::try_from(limit).unwrap_or(u32::MAX));
        node.live_runs().ready.notify_one();
        loop {
            let arrived = handoff.arrived.notified();
            let taken = handoff.take_offered(&held, limit);
            let leaving = node.live_runs().is_leaving();
            let left = deadline.saturating_sub(self.ledger.clock.elapsed());
            if !taken.is_empty() || limit == 0 || leaving || left.is_zero() || node.is_closed() {
                let mut executions = Vec::with_capacity(taken.len());
                let mut room = Room::new();
                for offer in taken {
                    executions.push(self.execution(worker, &handoff.holder, &offer, &mut room).await?);
                }
                return Ok(Claimed { executions, leaving, now: node.ledger.clock.now() });
            }
            let _ = tokio::time::timeout(left, arrived).await;
        }
    }

    /// Reads events that an execution sees, after those that the worker knows.
    pub async fn events(&self, events: Events) -> Result<News, EngineError> {
        self.events_for(&Holder::default(), events).await
    }

    /// Like [`RemoteWorkers::events`], with a credential.
    pub async fn events_for(&self, holder: &Holder, events: Events) -> Result<News, EngineError> {
        let held = self.open(holder, &events.token)?;
        let Served { handoff, .. } = self.seen(&held.worker)?;
        let fenced = || refused(&held.run, Refusal::Fenced);
        let offer = handoff.find(&held.run, held.fence).ok_or_else(fenced)?;
        let known = offer.live.lock().state.summary.as_of;
        pages::check_after(&self.ledger, &held.run, known, events.after).await?;
        let Page { events: seen, end, more, .. } = self.page(&offer, events.after, &mut Room::new()).await?;
        Ok(News { token: events.token, events: seen, end, more })
    }

    async fn page(&self, offer: &OfferedRun, after: Seq, room: &mut Room) -> Result<Page, EngineError> {
        let (lineage, base) = {
            let inner = offer.live.lock();
            (inner.state.branches.lineage(inner.fence.branch), inner.state.summary.base)
        };
        let sees = |recorded: &Recorded| lineage.sees(recorded.branch, recorded.seq);
        let run = &offer.live.run;
        if after >= base {
            return pages::after(&self.ledger, run, after, &sees, room).await;
        }
        let (history, end) = self.history(offer).await?;
        Ok(Page::of(history, after, end, room))
    }

    /// All events that the execution sees, and the end of the log.
    async fn history(&self, offer: &OfferedRun) -> Result<(Vec<Recorded>, Seq), EngineError> {
        let (lineage, base, end) = {
            let inner = offer.live.lock();
            let summary = &inner.state.summary;
            (inner.state.branches.lineage(inner.fence.branch), summary.base, summary.as_of)
        };
        let (mut history, _) = self.ledger.history_to(&offer.live.run, base, end).await?;
        history.retain(|r| r.seq <= end && (r.event.is_mail() || lineage.sees(r.branch, r.seq)));
        Ok((history, end))
    }

    async fn execution(
        &self,
        worker: &NodeId,
        key: &Option<String>,
        offer: &OfferedRun,
        room: &mut Room,
    ) -> Result<Execution, EngineError> {
        let (history, end) = self.history(offer).await?;
        self.create_children(offer, &history).await;
        let page = Page::of(history, Seq::ZERO, end, room);
        let inner = offer.live.lock();
        let state = &inner.state;
        let branch = inner.fence.branch;
        let summary = &state.summary;
        let run = summary.run.clone();
        let fence = inner.fence;
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
            attributes: summary.attributes.clone(),
            attempt: summary.attempt,
            generation: state.branches.generation(branch),
            trace: offer.live.trace.as_ref().map(|trace| trace.within_run(&summary.run)),
            created_at: summary.created_at,
            cancel_requested: summary.cancel.is_some(),
            deadline: summary.deadline,
            other_input_until: state.other_input_until,
            base: summary.base,
            events: page.events,
            end: page.end,
            more: page.more,
        })
    }

    /// Creates children that the log has and that a crash kept from being created.
    async fn create_children(&self, offer: &OfferedRun, history: &[Recorded]) {
        for recorded in history {
            let Event::ChildStarted(child) = &recorded.event else { continue };
            let open = offer.live.lock().state.children.get(&child.run).is_some_and(|child| !child.ended);
            if open {
                child::create_for(&offer.live, child.clone()).await;
            }
        }
    }

    /// Removes a worker that leaves. Its runs are released without counting an attempt.
    pub async fn leave(&self, worker: &NodeId) -> Result<(), EngineError> {
        let Served { node, .. } = self.seen(worker)?;
        node.leave_for_worker().await;
        self.all().remove(worker);
        Ok(())
    }

    /// Ends a worker as a crash of its process would, for tests of workflows: releases nothing, and other nodes take
    /// over its runs at once.
    pub async fn crash(&self, worker: &NodeId) -> Result<(), EngineError> {
        let Served { node, handoff } = self.find(worker)?;
        self.all().remove(worker);
        node.crash_for_worker().await;
        handoff.wake_all();
        Ok(())
    }

    /// The credentials of the registered workers.
    pub fn holders(&self) -> BTreeSet<Option<String>> {
        let all = self.all();
        let handoffs = all.values().filter(|node| !node.is_closed()).filter_map(|node| node.handoff.as_ref());
        handoffs.map(|handoff| handoff.holder.clone()).collect()
    }

    /// Removes every worker of a revoked credential. Their runs are released without counting an attempt.
    pub async fn dismiss(&self, key: Option<&str>) {
        let is_theirs = |node: &Arc<Node>| {
            node.handoff.as_ref().is_some_and(|handoff| handoff.holder.as_deref() == key) && !node.is_closed()
        };
        let theirs: Vec<Arc<Node>> = self.all().values().filter(|node| is_theirs(node)).cloned().collect();
        for node in &theirs {
            self.all().remove(&node.id);
        }
        join_all(theirs.iter().map(|node| node.leave_for_worker())).await;
        theirs.iter().filter_map(|node| node.handoff.as_ref()).for_each(|handoff| handoff.wake_all());
    }

    /// The registered workers.
    pub fn workers(&self) -> Vec<NodeId> {
        self.all().iter().filter(|(_, node)| !node.is_closed()).map(|(id, _)| id.clone()).collect()
    }

    /// Stops registrations, asks every worker to release its runs, waits for them up to `drain`, then releases the
    /// rest.
    pub async fn shutdown(&self, drain: Duration) {
        self.leaving.store(true, Ordering::Relaxed);
        let all: Vec<Arc<Node>> = std::mem::take(&mut *self.all()).into_values().collect();
        for node in &all {
            node.live_runs().leave();
            if let Some(handoff) = &node.handoff {
                handoff.wake_all();
            }
        }
        let deadline = self.ledger.clock.elapsed().saturating_add(drain);
        let busy = |node: &Arc<Node>| !node.is_closed() && node.live_runs().live_count() > 0;
        while all.iter().any(busy) && self.ledger.clock.elapsed() < deadline {
            pause(Duration::from_millis(10)).await;
        }
        join_all(all.iter().map(|node| node.leave_for_worker())).await;
    }
}

/// The registry of a worker's workflows, without their code.
fn registry_of(register: &Register) -> Result<Registry, EngineError> {
    let malformed = |why: String| RemoteRefusal::Malformed(why);
    let labels = &register.workflows;
    if labels.is_empty() || labels.len() > NAMES_MAX {
        return Err(malformed("a worker needs at least one workflow".to_owned()).into());
    }
    let mut registry = Registry::default();
    for label in labels {
        let (name, version) = label.rsplit_once('@').unwrap_or((label, "1"));
        let version = version.parse().ok().filter(|version| *version != UNDECIDED);
        let Some(version) = version else {
            return Err(
                malformed(format!("{label} must be name@version, with a version of at least 1")).into()
            );
        };
        if prefix(Named::Workflow, name).is_some() {
            return Err(RemoteRefusal::Forbidden(format!("{name} is reserved for the engine")).into());
        }
        registry.add_remote(WorkflowName::new(name)?, version);
    }
    for (workflow, steps) in &register.plans {
        if registry.newest(workflow).is_none() {
            return Err(malformed(format!(
                "the plan of {workflow} does not belong to a workflow of this worker"
            ))
            .into());
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
