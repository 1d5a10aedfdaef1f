//! A store with orders on a simulated disk, and its processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use goldseam_testbed::disk::{Disk, DiskJournal};
use rusqlite::{Connection, OpenFlags};

use crate::support::{Ran, eventually};

/// How long a worker may be silent.
const SILENCE: &str = "500ms";
/// How often a watcher reads the database.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The stored events of each run.
pub(crate) type Logs = BTreeMap<String, Vec<String>>;

/// A folder with one database and its files.
pub(crate) struct Site {
    dir: tempfile::TempDir,
    options: &'static str,
}

impl Site {
    /// Creates a folder, in memory if possible.
    pub(crate) fn new(options: &'static str) -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self { dir: dir.unwrap(), options }
    }

    /// Creates a folder within `folder`.
    pub(crate) fn within(folder: &Path) -> Self {
        Self { dir: tempfile::tempdir_in(folder).unwrap(), options: "" }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("gold.db")
    }

    pub(crate) fn url(&self) -> String {
        format!("sqlite:{}{}", self.database().display(), self.options)
    }

    fn command(&self, disk: Option<&Disk>, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_goldseam"));
        command.args(args).env("GOLDSEAM_STORE", self.url()).current_dir(self.dir.path());
        command.env_remove("NO_COLOR").stdin(Stdio::null());
        if let Some(disk) = disk {
            disk.put_under(&mut command).unwrap();
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, disk: Option<&Disk>, args: &[&str]) -> Ran {
        Ran::of(&self.command(disk, args).output().unwrap())
    }

    /// Starts an order with a customer name of this length.
    pub(crate) fn order(&self, disk: Option<&Disk>, run: &str, length: usize) {
        let customer = "x".repeat(length);
        let input = serde_json::json!({"customer": customer, "lines": ["a", "b"], "cents": 7, "step_ms": 1});
        self.run(disk, &["start", "order", "--id", run, "--input", &input.to_string()]).ok();
    }

    /// Starts a worker that executes orders.
    pub(crate) fn worker(&self, disk: Option<&Disk>) -> Worker {
        let log = std::fs::File::create(self.path("worker.log")).unwrap();
        let witness = self.path("witness.tsv");
        let args = ["demo-worker", "--silence", SILENCE, "--witness", witness.to_str().unwrap()];
        let mut command = self.command(disk, &args);
        Worker(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// The log of the last worker.
    pub(crate) fn worker_log(&self) -> String {
        std::fs::read_to_string(self.path("worker.log")).unwrap()
    }

    /// Whether a process has the database open. Only then may tests read it; otherwise they would create files that the
    /// simulated disk does not see.
    pub(crate) fn is_open(&self) -> bool {
        std::fs::metadata(self.path("gold.db-wal")).is_ok_and(|wal| wal.len() > 0)
    }

    /// The statuses of all runs; empty while no process has the database open.
    fn statuses(&self) -> BTreeMap<String, String> {
        if self.is_open() { statuses(&reader(&self.database())) } else { BTreeMap::new() }
    }

    /// Whether every order has reached its question.
    pub(crate) fn is_asking(&self) -> bool {
        let statuses = self.statuses();
        !statuses.is_empty() && statuses.values().all(|status| status == "waiting" || status == "completed")
    }

    /// Every event of every run.
    pub(crate) fn logs(&self) -> Logs {
        logs(&self.database())
    }

    /// Answers every question and waits until every order has ended.
    pub(crate) fn finish(&self, disk: Option<&Disk>) {
        let mut answered = Vec::new();
        eventually("every order ends", || {
            let statuses = self.statuses();
            for (run, _) in statuses.iter().filter(|(_, status)| *status == "waiting") {
                if !answered.contains(run) && self.run(None, &["show", run, "--json"]).out.contains("release")
                {
                    let word = if answered.len() % 3 == 2 { "decline" } else { "ship" };
                    // The question may have been answered before the power loss.
                    let ran = self.run(disk, &["answer", run, "release", &format!("\"{word}\"")]);
                    assert!([0, 3, 6].contains(&ran.code), "{}", ran.err);
                    answered.push(run.clone());
                }
            }
            let is_over = |status: &String| status == "completed" || status == "failed";
            (!statuses.is_empty() && statuses.values().all(is_over)).then_some(())
        });
    }

    /// Checks that no effect began again after a later one had begun.
    pub(crate) fn repeats_nothing(&self) -> Result<(), String> {
        let witness = std::fs::read_to_string(self.path("witness.tsv")).unwrap_or_default();
        let mut furthest: BTreeMap<&str, usize> = BTreeMap::new();
        for line in witness.lines() {
            let words: Vec<&str> = line.split('\t').collect();
            let [word, run, path, ..] = words[..] else { return Err(format!("torn witness: {line}")) };
            let stage =
                ["reserve", "pick:", "charge", "ship"].iter().position(|stage| path.starts_with(stage));
            let (Some(stage), "begin") = (stage, word) else { continue };
            let furthest = furthest.entry(run).or_default();
            if stage < *furthest {
                return Err(format!("{path} of {run} was executed again"));
            }
            *furthest = stage;
        }
        Ok(())
    }
}

/// A worker process, killed on drop.
pub(crate) struct Worker(Child);

impl Worker {
    /// Stops the worker with SIGTERM and waits.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap()
    }

    /// The exit status, if the worker has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads a database that a worker has open, and marks visible results in the journal: they must be durable from then
/// on.
pub(crate) struct Watcher {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start(database: &Path, journal: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let database = database.to_owned();
        let journal = journal.to_owned();
        let watch = move || {
            let conn = reader(&database);
            let mut known: BTreeMap<String, i64> = BTreeMap::new();
            while !seen.load(Ordering::Relaxed) {
                for (run, end) in ends(&conn) {
                    if known.insert(run.clone(), end) != Some(end) {
                        DiskJournal::mark(&journal, &format!("{run} {end}")).unwrap();
                    }
                }
                std::thread::park_timeout(POLL_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("watcher".to_owned()).spawn(watch).unwrap();
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the watcher could not read");
        }
    }
}

fn reader(database: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(database, flags).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    conn
}

fn ends(conn: &Connection) -> Vec<(String, i64)> {
    let sql = "SELECT r.id, max(e.seq) FROM events AS e JOIN runs AS r ON r.rid = e.rid GROUP BY r.id";
    let mut ends = conn.prepare_cached(sql).unwrap();
    let rows = ends.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

fn statuses(conn: &Connection) -> BTreeMap<String, String> {
    let mut rows = conn.prepare("SELECT id, status FROM runs").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<rusqlite::Result<_>>().unwrap()
}

/// Every event of every run of a database.
pub(crate) fn logs(database: &Path) -> Logs {
    let conn = reader(database);
    let sql = "SELECT r.id, e.body FROM events AS e JOIN runs AS r ON r.rid = e.rid ORDER BY r.id, e.seq";
    let mut rows = conn.prepare(sql).unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut logs = Logs::new();
    for row in rows {
        let (run, body): (String, String) = row.unwrap();
        logs.entry(run).or_default().push(body);
    }
    logs
}
