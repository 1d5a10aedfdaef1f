//! The worker processes: started, killed without warning, and replaced.
//!
//! Invariant: only processes that were started here are ever signalled, and none outlives the fleet.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use goldseam::core::NodeId;
use rustix::process::{Pid, Signal, kill_process};

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

/// The workers.
#[derive(Debug)]
pub(crate) struct Fleet {
    plan: Plan,
    workers: Vec<Child>,
    /// Every kill so far.
    pub(crate) kills: Vec<Kill>,
}

impl Fleet {
    /// Starts `count` workers.
    pub(crate) fn start(plan: Plan, count: usize) -> io::Result<Self> {
        let mut fleet = Self { plan, workers: Vec::new(), kills: Vec::new() };
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

    /// Kills a worker with SIGKILL and starts another in its place.
    pub(crate) fn kill(&mut self, at: usize, node: NodeId) -> io::Result<()> {
        let worker = &mut self.workers[at];
        let at_ms = micros_now() / 1_000;
        worker.kill()?;
        worker.wait()?;
        self.kills.push(Kill { node, at_ms });
        self.workers[at] = self.spawn(&[])?;
        Ok(())
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
        if let Some(pid) = i32::try_from(self.workers[at].id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Workers that ended by themselves are replaced; returns how many did.
    pub(crate) fn mend(&mut self) -> io::Result<usize> {
        let mut ended = 0;
        for at in 0..self.workers.len() {
            if self.workers[at].try_wait()?.is_some() {
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
