//! The process that owns a server and its folder, and removes both when its owner ends.
//!
//! It has its own process group, so Ctrl-C in a terminal reaches only the owner. It keeps no file of the owner open
//! except the pipe: a test runner that waits until a test's output is closed does not wait for the server.

use std::env;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TestbedError;
use crate::programs::{command, drop_root, is_root, last_lines};

const SCRIPT: &str = include_str!("keeper.sh");
/// Longest temporary folder in which the path of a socket is short enough.
const FOLDER_LEN_MAX: usize = 50;
/// Most attempts to find free ports.
const PORT_ATTEMPTS: u32 = 8;
/// Most attempts to get the first response of a running server, 20 ms apart.
const RESPONSE_ATTEMPTS: u32 = 3_000;

/// The shell commands that a keeper runs inside its folder.
#[derive(Debug)]
pub(crate) struct ServerScript {
    /// The name of the server, in errors and in the name of its folder.
    pub(crate) name: &'static str,
    /// Runs once, before the first start.
    pub(crate) prepare: &'static str,
    /// Becomes the server; `$arg` holds its ports.
    pub(crate) serve: &'static str,
    /// Succeeds once the server process `$server` is ready, as far as its folder shows.
    pub(crate) ready: &'static str,
    /// The signal that ends the server at once.
    pub(crate) end: &'static str,
    /// Removes files outside its folder, after the server has ended.
    pub(crate) clean: &'static str,
    /// The number of its ports; clients use the first.
    pub(crate) ports: usize,
    /// Whether a server on these ports responds.
    pub(crate) answers: fn(&[u16]) -> bool,
    /// Whether the server refuses to run as root.
    pub(crate) refuses_root: bool,
}

/// Owns one server and its folder. Both are removed when it is dropped, or when this process ends.
#[derive(Debug)]
pub(crate) struct Keeper {
    script: &'static ServerScript,
    ports: Vec<u16>,
    folder: PathBuf,
    lines: Mutex<KeeperPipes>,
    process: Child,
}

/// The pipes to and from the process.
#[derive(Debug)]
struct KeeperPipes {
    /// `None` once the keeper must end.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Keeper {
    /// Prepares a server and starts it on free loopback ports. The commands of its script see `values` as variables, and
    /// its folder as `$DIR`.
    pub(crate) fn start(
        script: &'static ServerScript,
        values: &[(&str, String)],
    ) -> Result<Self, TestbedError> {
        let mut keeper = Self::new(script, values)?;
        for _ in 1..PORT_ATTEMPTS {
            // Another process may take a port between the check and the start.
            match keeper.start_again() {
                Err(error) if error.to_string().contains("in use") => keeper.ports = free_ports(script.ports),
                outcome => return outcome.map(|()| keeper),
            }
        }
        keeper.start_again().map(|()| keeper)
    }

    fn new(script: &'static ServerScript, values: &[(&str, String)]) -> Result<Self, TestbedError> {
        let what = format!("preparing {}", script.name);
        let folder = base().join(format!("goldseam-{}-{:012x}", script.name, random() >> 16));
        let mut shell = command("sh");
        if script.refuses_root {
            drop_root(&mut shell);
        }
        shell.args(["-c", SCRIPT]).current_dir("/").process_group(0);
        shell.env("DIR", &folder).env("END", script.end).env("CLEAN", script.clean);
        shell.env("PREPARE", script.prepare).env("SERVE", script.serve).env("READY", script.ready);
        shell.envs(values.iter().map(|(name, value)| (name, value)));
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = shell.spawn().map_err(|error| TestbedError::failed(&what, error))?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(TestbedError::failed(what, "the keeper process has no pipes"));
        };
        let lines = Mutex::new(KeeperPipes { orders: Some(orders), answers: BufReader::new(answers) });
        let keeper = Self { script, ports: free_ports(script.ports), folder, lines, process };
        keeper.order("prepare").map_err(|error| TestbedError::failed(what, error))?;
        Ok(keeper)
    }

    /// The folder of the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The port that clients use.
    pub(crate) fn port(&self) -> u16 {
        self.ports.first().copied().unwrap_or_default()
    }

    /// Starts the stopped server on its ports.
    pub(crate) fn start_again(&self) -> Result<(), TestbedError> {
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let started = self.order(&format!("start {ports}")).and_then(|()| self.wait_for_answers());
        started.map_err(|error| {
            // The server may still run, and listen on some of its ports.
            let _ = self.order("stop KILL");
            TestbedError::failed(format!("starting {} on port {ports}", self.script.name), error)
        })
    }

    fn wait_for_answers(&self) -> Result<(), String> {
        for _ in 0..RESPONSE_ATTEMPTS {
            if (self.script.answers)(&self.ports) {
                return Ok(());
            }
            // The keeper pauses before it checks.
            self.order("watch")?;
        }
        Err(format!("the server does not answer\n{}", self.log()))
    }

    /// Ends the server by a signal. Returns once it has ended.
    pub(crate) fn stop(&self, signal: &str) -> Result<(), TestbedError> {
        self.order(&format!("stop {signal}"))
            .map_err(|error| TestbedError::failed(format!("stopping {}", self.script.name), error))
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

    fn lines(&self) -> MutexGuard<'_, KeeperPipes> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.lines().orders = None;
        // The keeper ends without a signal. After this, server and folder are removed.
        let _ = self.process.wait();
    }
}

/// The parent of all folders: the temporary folder, or `/tmp` if the path of a socket would be too long, or if this
/// process is root and the server is not.
fn base() -> PathBuf {
    let folder = env::temp_dir();
    let fits = folder.as_os_str().len() <= FOLDER_LEN_MAX && !is_root();
    if fits { folder } else { PathBuf::from("/tmp") }
}

/// Free ports below the range of outgoing connections: otherwise a client that retries while its server is down could
/// get the server's port, and connect to itself.
fn free_ports(count: usize) -> Vec<u16> {
    let candidate = || 15_000 + u16::try_from(random() % 15_000).unwrap_or_default();
    let bound = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    // All stay bound until the last is found, so that no two are equal.
    let found: Vec<_> =
        (0..1_000).map(|_| candidate()).filter_map(|port| Some((port, bound(port)?))).take(count).collect();
    found.into_iter().map(|(port, _)| port).collect()
}

/// A random number: the standard library seeds its hashers randomly.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
