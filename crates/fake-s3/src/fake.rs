//! The handle of a test: scripts, modes, stored objects, the log of requests.

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

use crate::clock::ServerClock;
use crate::fault::{self, FaultRule, Match, RequestFault};
use crate::objects::Objects;
use crate::request::{RequestKind, S3Request};
use crate::serve;

/// The only bucket.
pub(crate) const BUCKET: &str = "goldseam";
/// How long a test waits for requests.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// An S3 server on a loopback port. It ends when it is dropped.
pub struct FakeS3 {
    shared: Arc<FakeState>,
    address: SocketAddr,
    /// Ends the server: the sender is dropped before the thread is joined.
    running: Option<(oneshot::Sender<Infallible>, JoinHandle<()>)>,
}

/// How the server treats conditions of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conditions {
    /// Like S3: check and write are atomic.
    Kept,
    /// Ignored.
    Ignored,
    /// Two concurrent writers both succeed. A write without a rival takes a moment longer.
    Racy,
}

/// How the server lists keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// The number of latest changes that lists do not show.
    pub behind: usize,
    /// Most keys of a page.
    pub keys_max: usize,
}

/// A request and its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// The request.
    pub request: S3Request,
    /// The status of the response, if there was one.
    pub status: Option<u16>,
}

/// The state that test and server share.
pub(crate) struct FakeState {
    state: Mutex<FakeControls>,
    objects: Mutex<Objects>,
    /// Writers that have checked a key and not yet written it, on a racy server.
    races: Mutex<BTreeMap<String, Arc<Notify>>>,
    /// Notified of each request and each response.
    changed: Condvar,
    cut_off: watch::Sender<bool>,
}

struct FakeControls {
    modes: Modes,
    rules: Vec<FaultRule>,
    requests: u64,
    log: Vec<Logged>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    pub(crate) conditions: Conditions,
    pub(crate) listing: Listing,
    pub(crate) read_only: bool,
    clock: ServerClock,
}

impl FakeS3 {
    /// Starts an empty server that behaves like S3.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let shared = Arc::new(FakeState::new());
        let (end, ended) = oneshot::channel();
        let served = serve::serve(listener, shared.clone(), ended);
        let thread = thread::Builder::new().name("fake-s3".to_owned());
        let thread = thread.spawn(move || runtime.block_on(served))?;
        Ok(Self { shared, address, running: Some((end, thread)) })
    }

    /// The store URL of a prefix: `s3://goldseam/PREFIX?endpoint=…` with a region and keys. The server accepts any
    /// keys.
    pub fn url(&self, prefix: &str) -> String {
        self.url_for("anyone", prefix)
    }

    /// The store URL with this access key id, which tells requests of several clients apart.
    pub fn url_for(&self, name: &str, prefix: &str) -> String {
        let access = format!("access_key_id={name}&secret_access_key=anything");
        format!("s3://{BUCKET}/{prefix}?endpoint={}&region=us-east-1&{access}", self.endpoint())
    }

    /// The address of the server.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Applies a fault to matching requests. If several faults match, the first one counts.
    pub fn fail(&self, which: Match, fault: RequestFault) {
        self.shared.state().rules.push(fault::rule(which, fault));
    }

    /// Applies the fault that `script` returns for a request.
    pub fn script(&self, script: impl FnMut(&S3Request) -> Option<RequestFault> + Send + 'static) {
        self.shared.state().rules.push(Box::new(script));
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.shared.state().rules.clear();
    }

    /// Cuts the network: requests are logged, but are neither done nor passed to scripts.
    pub fn cut_network(&self) {
        self.shared.cut_off.send_replace(true);
    }

    /// Repairs the network. Connections from before are closed.
    pub fn repair_network(&self) {
        self.shared.cut_off.send_replace(false);
    }

    /// Sets how the server treats conditions of writes.
    pub fn set_conditions(&self, conditions: Conditions) {
        self.shared.state().modes.conditions = conditions;
    }

    /// Sets how the server lists keys.
    pub fn set_listing(&self, listing: Listing) {
        self.shared.state().modes.listing = listing;
    }

    /// Sets whether the server refuses writes.
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.state().modes.read_only = read_only;
    }

    /// Sets the clock of the server.
    pub fn set_clock(&self, clock: ServerClock) {
        self.shared.state().modes.clock = clock;
    }

    /// The stored objects, by key.
    pub fn objects(&self) -> BTreeMap<String, Bytes> {
        let objects = self.shared.objects();
        objects.all().iter().map(|(key, object)| (key.clone(), object.bytes.clone())).collect()
    }

    /// Writes an object directly, without a request.
    pub fn put_raw(&self, key: &str, bytes: impl Into<Bytes>) {
        let now = self.shared.now();
        self.shared.objects().put(key, bytes.into(), now);
    }

    /// Removes an object directly, without a request.
    pub fn delete_raw(&self, key: &str) {
        self.shared.objects().delete(key);
    }

    /// The requests since the start or since [`forget_log`](Self::forget_log), in order of arrival.
    pub fn log(&self) -> Vec<Logged> {
        self.shared.state().log.clone()
    }

    /// Clears the log.
    pub fn forget_log(&self) {
        self.shared.state().log.clear();
    }

    /// The number of logged requests of each kind.
    pub fn counts(&self) -> BTreeMap<RequestKind, usize> {
        let mut counts = BTreeMap::new();
        for logged in &self.shared.state().log {
            *counts.entry(logged.request.op).or_default() += 1;
        }
        counts
    }

    /// The number of logged requests for which the predicate holds.
    pub fn count(&self, is_such: impl Fn(&S3Request) -> bool) -> usize {
        self.shared.state().log.iter().filter(|logged| is_such(&logged.request)).count()
    }

    /// Blocks until the predicate holds for the log, at most half a minute. Returns whether it holds.
    pub fn wait_for_log(&self, mut is_such: impl FnMut(&[Logged]) -> bool) -> bool {
        let waits = |state: &mut FakeControls| !is_such(&state.log);
        let waited = self.shared.changed.wait_timeout_while(self.shared.state(), WAIT_MAX, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for FakeS3 {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.running.take() {
            drop(end);
            // A panicked server has ended too.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for FakeS3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeS3").field("endpoint", &self.endpoint()).finish_non_exhaustive()
    }
}

impl FakeState {
    fn new() -> Self {
        let modes = Modes {
            conditions: Conditions::Kept,
            listing: Listing { behind: 0, keys_max: usize::MAX },
            read_only: false,
            clock: ServerClock::Running { ahead: 0 },
        };
        Self {
            state: Mutex::new(FakeControls { modes, rules: Vec::new(), requests: 0, log: Vec::new() }),
            objects: Mutex::default(),
            races: Mutex::default(),
            changed: Condvar::new(),
            cut_off: watch::Sender::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, FakeControls> {
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

    /// Numbers and logs a request. Returns its fault; none if the network is cut.
    pub(crate) fn arrived(&self, request: S3Request) -> (S3Request, Option<RequestFault>) {
        let mut state = self.state();
        // Under the lock: a test that sees the request in the log knows whether the network was cut.
        let is_cut_off = self.is_cut_off();
        state.requests += 1;
        let request = S3Request { number: state.requests, ..request };
        state.log.push(Logged { request: request.clone(), status: None });
        self.changed.notify_all();
        if is_cut_off {
            return (request, None);
        }
        // Every rule sees every request, because rules count them.
        let faults: Vec<RequestFault> = state.rules.iter_mut().filter_map(|rule| rule(&request)).collect();
        (request, Some(faults.into_iter().next().unwrap_or_else(RequestFault::none)))
    }

    pub(crate) fn answered(&self, request: &S3Request, status: u16) {
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
        // The sender lives as long as `self`.
        let _ = self.cut_off.subscribe().wait_for(|is_cut_off| !is_cut_off).await;
    }
}
