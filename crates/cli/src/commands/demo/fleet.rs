//! The worker processes: starts, kills, freezes and replaces them.
//!
//! **Invariant:** only processes that were started here are signalled, and none outlives the fleet.

use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use goldseam::unstable::core::NodeId;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc;

use super::witness::micros_now;

/// How to start a worker.
#[derive(Debug, Clone)]
pub(crate) struct WorkerCommand {
    /// The URL of the store.
    pub(crate) url: String,
    pub(crate) options: Vec<OsString>,
    /// The file for stderr of all workers.
    pub(crate) log: PathBuf,
}

/// A kill of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Kill {
    /// The worker's node.
    pub(crate) node: NodeId,
    /// When the signal was sent, in milliseconds since 1970.
    pub(crate) at_ms: i64,
}

/// A freeze of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Freeze {
    pub(crate) pid: u32,
    /// When it began, in microseconds since 1970.
    pub(crate) at_us: i64,
    /// When it ends.
    pub(crate) until: Instant,
}

/// The workers.
#[derive(Debug)]
pub(crate) struct Fleet {
    plan: WorkerCommand,
    workers: Vec<Child>,
    /// Every kill so far.
    pub(crate) kills: Vec<Kill>,
    /// Every freeze with a duration so far.
    pub(crate) freezes: Vec<Freeze>,
}

impl Fleet {
    /// Starts `count` workers.
    pub(crate) fn start(plan: WorkerCommand, count: usize) -> io::Result<Self> {
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
            // A URL may contain a password, and other users can read command lines.
            .env("GOLDSEAM_STORE", &self.plan.url)
            .args(&self.plan.options)
            .args(more)
            .env("GOLDSEAM_LOG", std::env::var("GOLDSEAM_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
    }

    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// The process id of a worker.
    pub(crate) fn pid(&self, at: usize) -> u32 {
        self.workers[at].id()
    }

    /// Kills a worker with SIGKILL and starts another in its place. Returns false if the worker had already ended.
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

    /// Stops a worker with SIGSTOP for a while; [`thaw`] receives the freeze and continues the worker.
    #[expect(clippy::disallowed_methods, reason = "a freeze is a span of real time")]
    pub(crate) fn freeze_for(&mut self, at: usize, span: Duration, frozen: &mpsc::UnboundedSender<Freeze>) {
        let freeze = Freeze { pid: self.pid(at), at_us: micros_now(), until: Instant::now() + span };
        self.freeze(at);
        self.freezes.push(freeze.clone());
        let _ = frozen.send(freeze);
    }

    /// Whether a worker is frozen now.
    pub(crate) fn is_frozen(&self, at: usize, now: Instant) -> bool {
        let pid = self.pid(at);
        self.freezes.iter().any(|freeze| freeze.pid == pid && now < freeze.until)
    }

    /// Starts one more worker, with additional options.
    pub(crate) fn add_worker(&mut self, more: &[&str]) -> io::Result<usize> {
        let worker = self.spawn(more)?;
        self.workers.push(worker);
        Ok(self.workers.len() - 1)
    }

    /// Kills a worker with SIGKILL without a replacement.
    pub(crate) fn kill_only(&mut self, at: usize) -> io::Result<()> {
        let mut worker = self.workers.remove(at);
        let killed = worker.kill();
        worker.wait()?;
        killed
    }

    /// Stops a worker with SIGSTOP.
    pub(crate) fn freeze(&self, at: usize) {
        self.signal(at, Signal::STOP);
    }

    /// Continues a frozen worker.
    pub(crate) fn thaw(&self, at: usize) {
        self.signal(at, Signal::CONT);
    }

    fn signal(&self, at: usize, signal: Signal) {
        send(self.workers[at].id(), signal);
    }

    /// Replaces workers that ended on their own; returns how many did.
    #[expect(clippy::disallowed_methods, reason = "a freeze is a span of real time")]
    pub(crate) fn replace_ended(&mut self) -> io::Result<usize> {
        let mut ended = 0;
        let now = Instant::now();
        for at in 0..self.workers.len() {
            // Another process must not get the id of a process that is still to be thawed.
            if !self.is_frozen(at, now) && self.workers[at].try_wait()?.is_some() {
                self.workers[at] = self.spawn(&[])?;
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// Stops every worker with SIGTERM, so that it hands over its runs and leaves the store.
    pub(crate) fn stop_all(&mut self) {
        for at in 0..self.workers.len() {
            self.signal(at, Signal::TERM);
            // A frozen worker does not handle the signal.
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

/// Continues frozen workers when their time is over. Runs concurrently with the demo, because a write to the store may
/// have to wait for a frozen worker.
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
