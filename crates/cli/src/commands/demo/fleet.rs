//! The worker processes: started, killed or frozen without warning, and replaced.
//!
//! Invariant: only processes that were started here are ever signalled, and none outlives the fleet.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use goldseam::core::NodeId;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;

use super::witness::micros_now;

/// How to start a worker.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The store.
    pub(crate) url: String,
    /// Further options of every worker.
    pub(crate) options: Vec<OsString>,
    /// Where what workers say goes.
    pub(crate) log: PathBuf,
}

/// A kill: who, and when.
#[derive(Debug, Clone)]
pub(crate) struct Kill {
    /// The engine in that process.
    pub(crate) node: NodeId,
    /// Milliseconds since 1970 when the signal was sent.
    pub(crate) at_ms: i64,
}

/// A freeze: whom, and from when until when.
#[derive(Debug, Clone)]
pub(crate) struct Freeze {
    /// The process.
    pub(crate) pid: u32,
    /// Microseconds since 1970 when it was stopped.
    pub(crate) at_us: i64,
    /// When it goes on.
    pub(crate) until: Instant,
}

/// The workers.
#[derive(Debug)]
pub(crate) struct Fleet {
    plan: Plan,
    workers: Vec<Child>,
    /// Every kill so far.
    pub(crate) kills: Vec<Kill>,
    /// Every freeze for a time so far.
    pub(crate) freezes: Vec<Freeze>,
}

impl Fleet {
    /// Starts `count` workers.
    pub(crate) fn start(plan: Plan, count: usize) -> io::Result<Self> {
        let mut fleet = Self { plan, workers: Vec::new(), kills: Vec::new(), freezes: Vec::new() };
        for _ in 0..count {
            let worker = fleet.spawn(&[])?;
            fleet.workers.push(worker);
        }
        Ok(fleet)
    }

    fn spawn(&self, more: &[&str]) -> io::Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(&self.plan.log)?;
        Command::new(std::env::current_exe()?)
            .args(["demo-worker", "--parent", &std::process::id().to_string()])
            // Everybody may read a command line; a URL may hold a password.
            .env("GOLDSEAM_STORE", &self.plan.url)
            .args(&self.plan.options)
            .args(more)
            .env("GOLDSEAM_LOG", std::env::var("GOLDSEAM_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
    }

    /// How many workers there are.
    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// The process id of a worker.
    pub(crate) fn pid(&self, at: usize) -> u32 {
        self.workers[at].id()
    }

    /// Kills a worker with SIGKILL and starts another in its place; one that has ended by itself is no kill. Says
    /// whether it was one.
    pub(crate) fn kill(&mut self, at: usize, node: NodeId) -> io::Result<bool> {
        let worker = &mut self.workers[at];
        if worker.try_wait()?.is_some() {
            return Ok(false);
        }
        let at_ms = micros_now() / 1_000;
        worker.kill()?;
        worker.wait()?;
        self.kills.push(Kill { node, at_ms });
        self.workers[at] = self.spawn(&[])?;
        Ok(true)
    }

    /// Stops a worker in the middle of whatever it does. It goes on after a while by [`thaw`], at the other end of
    /// `frozen`.
    #[expect(clippy::disallowed_methods, reason = "a freeze is a span of real time")]
    pub(crate) fn freeze_for(&mut self, at: usize, span: Duration, frozen: &mpsc::UnboundedSender<Freeze>) {
        let (pid, at_us, until) = (self.pid(at), micros_now(), Instant::now() + span);
        self.freeze(at);
        let freeze = Freeze { pid, at_us, until };
        self.freezes.push(freeze.clone());
        let _ = frozen.send(freeze);
    }

    /// Whether a worker is frozen for a time that is not over.
    pub(crate) fn is_frozen(&self, at: usize, now: Instant) -> bool {
        let pid = self.pid(at);
        self.freezes.iter().any(|freeze| freeze.pid == pid && now < freeze.until)
    }

    /// Starts one more worker, with further options.
    pub(crate) fn hire(&mut self, more: &[&str]) -> io::Result<usize> {
        let worker = self.spawn(more)?;
        self.workers.push(worker);
        Ok(self.workers.len() - 1)
    }

    /// Kills a worker with SIGKILL; nobody takes its place.
    pub(crate) fn lose(&mut self, at: usize) -> io::Result<()> {
        let mut worker = self.workers.remove(at);
        let killed = worker.kill();
        worker.wait()?;
        killed
    }

    /// Stops a worker in the middle of whatever it does.
    pub(crate) fn freeze(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    /// Lets a frozen worker go on, as if nothing had happened.
    pub(crate) fn thaw(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        send(self.workers[at].id(), signal);
    }

    /// Workers that ended by themselves are replaced; returns how many did.
    #[expect(clippy::disallowed_methods, reason = "a freeze is a span of real time")]
    pub(crate) fn mend(&mut self) -> io::Result<usize> {
        let (mut ended, now) = (0, Instant::now());
        for at in 0..self.workers.len() {
            // The name of a process that is to be thawed must not become another's.
            if !self.is_frozen(at, now) && self.workers[at].try_wait()?.is_some() {
                self.workers[at] = self.spawn(&[])?;
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// Asks every worker to stop, so that it hands over what it has and leaves the store.
    pub(crate) fn dismiss(&mut self) {
        for at in 0..self.workers.len() {
            self.signal(at, Signal::TERM);
            // One that is frozen would not hear it.
            self.thaw(at);
        }
        for worker in &mut self.workers {
            let _ = worker.wait();
        }
        self.workers.clear();
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Lets frozen workers go on when their time is over. It goes beside everything else: whoever writes to a store may
/// have to wait for a frozen writer.
pub(crate) async fn thaw(mut frozen: mpsc::UnboundedReceiver<Freeze>) -> Infallible {
    let mut sleeping = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(freeze) = frozen.recv() => sleeping.push(async move {
                tokio::time::sleep_until(freeze.until.into()).await;
                freeze.pid
            }),
            Some(pid) = sleeping.next() => send(pid, Signal::CONT),
            else => std::future::pending::<()>().await,
        }
    }
}
