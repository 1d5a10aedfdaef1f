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

/// What a keeper runs, as shell commands inside its folder.
pub(crate) struct Job {
    /// Names the server in errors and its folder in the file system.
    pub(crate) name: &'static str,
    /// Runs once, before the first start.
    pub(crate) prepare: &'static str,
    /// Becomes the server; `$arg` is its port.
    pub(crate) serve: &'static str,
    /// Holds once the server `$server` answers.
    pub(crate) ready: &'static str,
    /// The signal that ends the server at once.
    pub(crate) end: &'static str,
}

/// Owns one server and its folder; both are gone once it is dropped, or once this process is.
#[derive(Debug)]
pub(crate) struct Keeper {
    name: &'static str,
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
    /// A keeper whose job is prepared; its commands see `values`, and `$DIR` is its folder.
    pub(crate) fn new(job: &Job, values: &[(&str, String)]) -> Result<Self, Error> {
        let what = format!("preparing {}", job.name);
        let folder = base().join(format!("goldseam-{}-{:012x}", job.name, random() >> 16));
        let mut shell = command("sh");
        drop_root(&mut shell);
        shell.args(["-c", SCRIPT]).current_dir("/").process_group(0);
        shell.env("DIR", &folder).env("END", job.end);
        shell.env("PREPARE", job.prepare).env("SERVE", job.serve).env("READY", job.ready);
        shell.envs(values.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = shell.spawn().map_err(|error| Error::failed(&what, error))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::failed(what, "it has no pipes"));
        };
        let lines = Mutex::new(Lines { orders: Some(orders), answers: BufReader::new(answers) });
        let keeper = Self { name: job.name, folder, lines, process };
        keeper.order("prepare").map_err(|error| Error::failed(what, error))?;
        Ok(keeper)
    }

    /// The folder that everything of the server is in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the server on a free port of the loopback device.
    pub(crate) fn start_anywhere(&self) -> Result<u16, Error> {
        let mut port = free_port();
        for _ in 1..PORT_TRIES {
            // Somebody may take it between our look and the server's.
            match self.start(port) {
                Err(error) if error.to_string().contains("in use") => port = free_port(),
                outcome => return outcome.map(|()| port),
            }
        }
        self.start(port).map(|()| port)
    }

    /// Starts the server, which has not been started or was stopped, on `port`.
    pub(crate) fn start(&self, port: u16) -> Result<(), Error> {
        self.order(&format!("start {port}"))
            .map_err(|error| Error::failed(format!("starting {} on port {port}", self.name), error))
    }

    /// Ends the server by a signal, and returns once it is gone.
    pub(crate) fn stop(&self, signal: &str) -> Result<(), Error> {
        self.order(&format!("stop {signal}"))
            .map_err(|error| Error::failed(format!("stopping {}", self.name), error))
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
            "failed" => Err(last_lines(&fs::read_to_string(self.folder.join("log")).unwrap_or_default())),
            other => Err(format!("the keeper of {} is gone: {other}", self.folder.display())),
        }
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

/// A port that nobody listens on, below those that the system gives to outgoing connections: a client that
/// tries again while its server is down could otherwise be given the server's port, and connect to itself.
fn free_port() -> u16 {
    let candidate = || 15_000 + u16::try_from(random() % 15_000).unwrap_or_default();
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..1_000).map(|_| candidate()).find(is_free).unwrap_or_else(candidate)
}

/// A number that no other process has: the standard library seeds its hash maps from the system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
