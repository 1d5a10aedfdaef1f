//! The handle of a test: scripts, modes, what is stored, what was asked.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, oneshot, watch};

use crate::clock::Clock;
use crate::fault::{self, Fault, Match, Rule};
use crate::objects::Objects;
use crate::request::{Op, Request};
use crate::serve;

/// The one bucket that there is.
pub(crate) const BUCKET: &str = "goldseam";
/// How long a test waits for something to be asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// An object store on a port of the loopback device and a thread of its own. Ends when it is dropped.
pub struct FakeS3 {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Dropped first, so that the server ends.
    running: Option<(oneshot::Sender<Infallible>, JoinHandle<()>)>,
}

/// How conditions of writes are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    /// As S3 does: looking and writing are one.
    Kept,
    /// As if they had not been said.
    Ignored,
    /// Two that look at the same time both write. A write without a rival takes a moment longer.
    Racy,
}

/// How keys are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// How many changes are not seen yet.
    pub behind: usize,
    /// How many keys a page has at most.
    pub keys_max: usize,
}

/// A request that came, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// What was asked.
    pub request: Request,
    /// The status that was answered, if there was an answer.
    pub status: Option<u16>,
}

/// What test and server share.
pub(crate) struct Shared {
    state: Mutex<State>,
    objects: Mutex<Objects>,
    /// Who has looked at a key and not yet written, on a racy server.
    races: Mutex<BTreeMap<String, Arc<Notify>>>,
    /// Told of each request and each answer.
    changed: Condvar,
    cut_off: watch::Sender<bool>,
}

struct State {
    modes: Modes,
    rules: Vec<Rule>,
    requests: u64,
    log: Vec<Logged>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) conditions: Conditions,
    pub(crate) listing: Listing,
    pub(crate) read_only: bool,
    clock: Clock,
}

impl FakeS3 {
    /// Starts one that is empty and does as S3 does.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(Shared::new());
        let (end, ended) = oneshot::channel();
        let served = serve::serve(listener, shared.clone(), ended);
        let thread = thread::Builder::new().name("fake-s3".to_owned());
        let thread = thread.spawn(move || runtime.block_on(served))?;
        Ok(Self { shared, address, running: Some((end, thread)) })
    }

    /// The address of what begins with `prefix` in its bucket: `s3://goldseam/PREFIX?endpoint=…` with a region and
    /// keys. Any keys do.
    pub fn url(&self, prefix: &str) -> String {
        self.url_for("anybody", prefix)
    }

    /// The same for somebody by name: requests tell who asks.
    pub fn url_for(&self, name: &str, prefix: &str) -> String {
        let access = format!("access_key_id={name}&secret_access_key=anything");
        format!("s3://{BUCKET}/{prefix}?endpoint={}&region=us-east-1&{access}", self.endpoint())
    }

    /// The address of the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Those requests that fit have this fault. Of several faults that fit, the one that was said first counts.
    pub fn fail(&self, which: Match, fault: Fault) {
        self.shared.state().rules.push(fault::rule(which, fault));
    }

    /// Every request has the fault that `script` names, if it names one.
    pub fn script(&self, script: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.shared.state().rules.push(Box::new(script));
    }

    /// Forgets all faults that were said before.
    pub fn clear_faults(&self) {
        self.shared.state().rules.clear();
    }

    /// Nothing comes through any more, nor back: what comes is in the log, but is not done, and no script sees it.
    pub fn cut_off(&self) {
        self.shared.cut_off.send_replace(true);
    }

    /// What comes from now on comes through. Connections from before are closed.
    pub fn heal(&self) {
        self.shared.cut_off.send_replace(false);
    }

    /// How conditions of writes are treated from now on.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.shared.state().modes.conditions = conditions;
    }

    /// How keys are listed from now on.
    pub fn set_listing(&self, listing: Listing) {
        self.shared.state().modes.listing = listing;
    }

    /// Whether writes are refused from now on.
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.state().modes.read_only = read_only;
    }

    /// The time that the server believes in from now on.
    pub fn set_clock(&self, clock: Clock) {
        self.shared.state().modes.clock = clock;
    }

    /// What is stored, by key.
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        let objects = self.shared.objects();
        objects.all().iter().map(|(key, object)| (key.clone(), object.bytes.clone())).collect()
    }

    /// Writes an object without asking anybody; this is no request.
    pub fn put_raw(&self, key: &str, bytes: impl Into<Bytes>) {
        let now = self.shared.now();
        self.shared.objects().put(key, bytes.into(), now);
    }

    /// Removes an object without asking anybody; this is no request.
    pub fn delete_raw(&self, key: &str) {
        self.shared.objects().delete(key);
    }

    /// What was asked since the start or since the log was forgotten, in the order of arrival.
    pub fn log(&self) -> Vec<Logged> {
        self.shared.state().log.clone()
    }

    /// Forgets what was asked.
    pub fn forget_log(&self) {
        self.shared.state().log.clear();
    }

    /// How many requests of each kind are in the log.
    pub fn counts(&self) -> BTreeMap<Op, usize> {
        let mut counts = BTreeMap::new();
        for logged in &self.shared.state().log {
            *counts.entry(logged.request.op).or_default() += 1;
        }
        counts
    }

    /// How many requests in the log are such.
    pub fn count(&self, is_such: impl Fn(&Request) -> bool) -> usize {
        self.shared.state().log.iter().filter(|logged| is_such(&logged.request)).count()
    }

    /// Blocks until the log is such, and returns whether it is; a test that waits in vain is told after half a
    /// minute.
    pub fn wait_for_log(&self, mut is_such: impl FnMut(&[Logged]) -> bool) -> bool {
        let waits = |state: &mut State| !is_such(&state.log);
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), PATIENCE, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.running.take() {
            drop(end);
            // A server that panicked has ended as well.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for FakeS3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeS3").field("endpoint", &self.endpoint()).finish_non_exhaustive()
    }
}

impl Shared {
    fn new() -> Self {
        let modes = Modes {
            conditions: Conditions::Kept,
            listing: Listing { behind: 0, keys_max: usize::MAX },
            read_only: false,
            clock: Clock::Running { ahead: 0 },
        };
        Self {
            state: Mutex::new(State { modes, rules: Vec::new(), requests: 0, log: Vec::new() }),
            objects: Mutex::default(),
            races: Mutex::default(),
            changed: Condvar::new(),
            cut_off: watch::Sender::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn races(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Notify>>> {
        self.races.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn modes(&self) -> Modes {
        self.state().modes
    }

    pub(crate) fn now(&self) -> u64 {
        self.modes().clock.now()
    }

    /// Numbers a request, and says what goes wrong with it; nothing if it does not come through.
    pub(crate) fn arrived(&self, request: Request) -> (Request, Option<Fault>) {
        let mut state = self.state();
        // Whoever sees it in the log knows whether it came through.
        let is_cut_off = self.is_cut_off();
        state.requests += 1;
        let request = Request { number: state.requests, ..request };
        state.log.push(Logged { request: request.clone(), status: None });
        self.changed.notify_all();
        if is_cut_off {
            return (request, None);
        }
        // Each rule sees each request, so that it can count them.
        let faults: Vec<Fault> = state.rules.iter_mut().filter_map(|rule| rule(&request)).collect();
        (request, Some(faults.into_iter().next().unwrap_or_else(Fault::none)))
    }

    pub(crate) fn answered(&self, request: &Request, status: u16) {
        let mut state = self.state();
        if let Some(logged) =
            state.log.iter_mut().rev().find(|logged| logged.request.number == request.number)
        {
            logged.status = Some(status);
        }
        self.changed.notify_all();
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        *self.cut_off.borrow()
    }

    pub(crate) async fn healed(&self) {
        // The sender is ours, so it is not gone.
        let _ = self.cut_off.subscribe().wait_for(|is_cut_off| !is_cut_off).await;
    }
}
