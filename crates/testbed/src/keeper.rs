//! The process that owns a server and its folder, and ends both when its owner is gone.
//!
//! It is in a process group of its own, so that Ctrl-C in a terminal reaches the owner only, and it holds
//! nothing of the owner but its end of the pipe: a test runner that waits for a test's output to be closed
//! does not wait for the server.

use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::programs::{command, drop_root, is_root, last_lines};

const SCRIPT: &str = include_str!("keeper.sh");
/// The longest folder for temporary files in which a socket still has a path that is not too long.
const FOLDER_LEN_MAX: usize = 50;
/// How many ports are tried until one is free.
const PORT_TRIES: u32 = 8;
/// How many times a server that runs is asked for its first answer, 20 ms apart.
const ANSWER_TRIES: u32 = 3_000;

/// What a keeper runs, as shell commands inside its folder.
#[derive(Debug)]
pub(crate) struct Job {
    /// Names the server in errors and its folder in the file system.
    pub(crate) name: &'static str,
    /// Runs once, before the first start.
    pub(crate) prepare: &'static str,
    /// Becomes the server; `$arg` is its ports.
    pub(crate) serve: &'static str,
    /// Holds once the server `$server` is ready, as far as its folder shows.
    pub(crate) ready: &'static str,
    /// The signal that ends the server at once.
    pub(crate) end: &'static str,
    /// Removes what it leaves outside its folder, once it has ended.
    pub(crate) clean: &'static str,
    /// How many ports it listens on; the first is the one that clients use.
    pub(crate) ports: usize,
    /// Holds once a server on these ports answers.
    pub(crate) answers: fn(&[u16]) -> bool,
    /// Whether it refuses to run as root.
    pub(crate) refuses_root: bool,
}

/// Owns one server and its folder; both are gone once it is dropped, or once this process is.
#[derive(Debug)]
pub(crate) struct Keeper {
    job: &'static Job,
    ports: Vec<u16>,
    folder: PathBuf,
    lines: Mutex<Lines>,
    process: Child,
}

/// Both ends of the talk with the process.
#[derive(Debug)]
struct Lines {
    /// `None` once the keeper is to leave.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// Prepares a server and starts it on free ports of the loopback device. The commands of its job see
    /// `values`, and `$DIR` is its folder.
    pub(crate) fn start(job: &'static Job, values: &[(&str, String)]) -> Result<Self, Error> {
        let mut keeper = Self::new(job, values)?;
        for _ in 1..PORT_TRIES {
            // Somebody may take one between our look and the server's.
            match keeper.start_again() {
                Err(error) if error.to_string().contains("in use") => keeper.ports = free_ports(job.ports),
                outcome => return outcome.map(|()| keeper),
            }
        }
        keeper.start_again().map(|()| keeper)
    }

    fn new(job: &'static Job, values: &[(&str, String)]) -> Result<Self, Error> {
        let what = format!("preparing {}", job.name);
        let folder = base().join(format!("goldseam-{}-{:012x}", job.name, random() >> 16));
        let mut shell = command("sh");
        if job.refuses_root {
            drop_root(&mut shell);
        }
        shell.args(["-c", SCRIPT]).current_dir("/").process_group(0);
        shell.env("DIR", &folder).env("END", job.end).env("CLEAN", job.clean);
        shell.env("PREPARE", job.prepare).env("SERVE", job.serve).env("READY", job.ready);
        shell.envs(values.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = shell.spawn().map_err(|error| Error::failed(&what, error))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::failed(what, "the keeper process has no pipes"));
        };
        let lines = Mutex::new(Lines { orders: Some(orders), answers: BufReader::new(answers) });
        let keeper = Self { job, ports: free_ports(job.ports), folder, lines, process };
        keeper.order("prepare").map_err(|error| Error::failed(what, error))?;
        Ok(keeper)
    }

    /// The folder that everything of the server is in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The port that clients use.
    pub(crate) fn port(&self) -> u16 {
        self.ports.first().copied().unwrap_or_default()
    }

    /// Starts the server, which does not run, on its ports.
    pub(crate) fn start_again(&self) -> Result<(), Error> {
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let started = self.order(&format!("start {ports}")).and_then(|()| self.wait_for_answers());
        started.map_err(|error| {
            // It may run all the same, and listen on some of its ports.
            let _ = self.order("stop KILL");
            Error::failed(format!("starting {} on port {ports}", self.job.name), error)
        })
    }

    fn wait_for_answers(&self) -> Result<(), String> {
        for _ in 0..ANSWER_TRIES {
            if (self.job.answers)(&self.ports) {
                return Ok(());
            }
            // Its keeper pauses before it looks.
            self.order("watch")?;
        }
        Err(format!("the server does not answer\n{}", self.log()))
    }

    /// Ends the server by a signal, and returns once it is gone.
    pub(crate) fn stop(&self, signal: &str) -> Result<(), Error> {
        self.order(&format!("stop {signal}"))
            .map_err(|error| Error::failed(format!("stopping {}", self.job.name), error))
    }

    fn order(&self, order: &str) -> Result<(), String> {
        let mut answer = String::new();
        let mut lines = self.lines();
        let asked = match &mut lines.orders {
            Some(orders) => writeln!(orders, "{order}"),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        asked.and_then(|()| lines.answers.read_line(&mut answer)).map_err(|error| error.to_string())?;
        match answer.trim() {
            "done" => Ok(()),
            "failed" => Err(self.log()),
            other => Err(format!("the keeper of {} has ended: {other}", self.folder.display())),
        }
    }

    fn log(&self) -> String {
        last_lines(&fs::read_to_string(self.folder.join("log")).unwrap_or_default())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.lines().orders = None;
        // It leaves by itself; whoever drops it may rely on the server and the folder being gone.
        let _ = self.process.wait();
    }
}

/// Where folders are made: for temporary files; but where everybody may, if the path of a socket would be too
/// long there, or if we are root, which the server is not.
fn base() -> PathBuf {
    let folder = env::temp_dir();
    let fits = folder.as_os_str().len() <= FOLDER_LEN_MAX && !is_root();
    if fits { folder } else { PathBuf::from("/tmp") }
}

/// Ports that nobody listens on, below those that the system gives to outgoing connections: a client that
/// tries again while its server is down could otherwise be given the server's port, and connect to itself.
fn free_ports(count: usize) -> Vec<u16> {
    let candidate = || 15_000 + u16::try_from(random() % 15_000).unwrap_or_default();
    let bound = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    // Each stays bound until all are found, so that no two are the same.
    let found: Vec<_> =
        (0..1_000).map(|_| candidate()).filter_map(|port| Some((port, bound(port)?))).take(count).collect();
    found.into_iter().map(|(port, _)| port).collect()
}

/// A number that no other process has: the standard library seeds its hash maps from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
