//! A server is removed however its owner ends.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use goldseam_testbed::pgbouncer::Pooler;
use goldseam_testbed::postgres::{Cluster, ClusterOptions};
use goldseam_testbed::{moto, rclone, seaweedfs};

/// Makes a test binary play the owner, and says how it ends.
const OWNER: &str = "GOLDSEAM_TEST_OWNER";

/// The folder and the process of a server.
#[derive(Debug)]
struct Traces {
    folder: PathBuf,
    process: String,
}

impl Traces {
    fn of(folder: &Path) -> Self {
        let files = ["data/postmaster.pid", "pid"].map(|file| fs::read_to_string(folder.join(file)));
        let pid = files.into_iter().find_map(Result::ok).unwrap();
        Self { folder: folder.to_owned(), process: pid.lines().next().unwrap().to_owned() }
    }

    fn are_gone(&self) -> bool {
        // An ended process has no command line, even if it was not waited for.
        let line = fs::read(format!("/proc/{}/cmdline", self.process)).unwrap_or_default();
        line.is_empty() && !self.folder.exists()
    }
}

/// Whether a process has this working folder, even if the folder was removed.
fn is_worked_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut places = processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    places.any(|place| place.to_string_lossy().starts_with(&*folder.to_string_lossy()))
}

/// The sockets of SeaweedFS outside its folder.
fn sockets(ports: &str) -> Vec<PathBuf> {
    let names = fs::read_dir("/tmp").unwrap().flatten().map(|entry| entry.path());
    let is_of = |path: &PathBuf, port: &str| path.to_string_lossy().ends_with(&format!("-grpc-{port}.sock"));
    names.filter(|path| ports.split_whitespace().any(|port| is_of(path, port))).collect()
}

/// Polls a condition until it holds.
fn eventually(condition: impl Fn() -> bool) -> bool {
    for _ in 0..3_000 {
        if condition() {
            return true;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    false
}

/// The code of the owner; does nothing without [`OWNER`].
#[test]
fn play_the_owner() {
    let Ok(end) = std::env::var(OWNER) else { return };
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    let pooler = Pooler::start(&cluster.url()).unwrap();
    let store = rclone::start().unwrap();
    for folder in [cluster.folder(), pooler.folder(), store.folder()] {
        println!("\nowns {}", folder.display());
    }
    if end == "exit" {
        std::process::exit(0);
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Starts an owner of a cluster, a pooler and an object store. Returns its further output, and the folders.
fn start_owner(end: &str) -> (Child, BufReader<ChildStdout>, [PathBuf; 3]) {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "gone::play_the_owner", "--nocapture"])
        .env(OWNER, end)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(owner.stdout.take().unwrap());
    let mut lines = output.by_ref().lines().map_while(Result::ok);
    let mut folder =
        || lines.find_map(|line| line.strip_prefix("owns ").map(PathBuf::from)).expect("the owner failed");
    let folders = [folder(), folder(), folder()];
    (owner, output, folders)
}

#[test]
fn servers_end_when_they_are_dropped() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    let pooler = Pooler::start(&cluster.url()).unwrap();
    let traces = [cluster.folder(), pooler.folder()].map(Traces::of);
    assert!(traces.iter().all(|traces| !traces.are_gone()));
    drop((cluster, pooler));
    assert!(traces.iter().all(Traces::are_gone), "{traces:?}");
}

#[test]
fn object_stores_end_when_they_are_dropped() {
    for start in [seaweedfs::start, moto::start, rclone::start] {
        let server = start().unwrap();
        let folder = server.folder().to_owned();
        let ports = fs::read_to_string(folder.join("ports")).unwrap_or_default();
        assert!(is_worked_in(&folder));
        drop(server);
        assert!(!is_worked_in(&folder) && !folder.exists(), "{folder:?}");
        assert_eq!(sockets(&ports), Vec::<PathBuf>::new());
    }
}

#[test]
fn servers_end_when_their_owner_is_killed() {
    let (mut owner, _output, folders) = start_owner("be killed");
    let [cluster, pooler, store] = folders;
    let traces = [cluster, pooler].map(|folder| Traces::of(&folder));
    assert!(traces.iter().all(|traces| !traces.are_gone()) && is_worked_in(&store));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(eventually(|| traces.iter().all(Traces::are_gone)), "{traces:?}");
    assert!(eventually(|| !is_worked_in(&store) && !store.exists()), "{store:?}");
}

#[test]
fn servers_end_when_their_owner_exits() {
    let (mut owner, mut output, folders) = start_owner("exit");
    owner.wait().unwrap();
    output.read_to_end(&mut Vec::new()).unwrap();
    assert!(eventually(|| folders.iter().all(|folder| !folder.exists())), "{folders:?}");
}

#[test]
fn servers_keep_no_file_of_their_owner_open() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    let server = Traces::of(cluster.folder()).process;
    let ours: Vec<PathBuf> = pipes("self").into_iter().map(|(_, pipe)| pipe).collect();
    let shared = |process: &str| -> Vec<String> {
        let mut theirs = pipes(process);
        // A shell can only close descriptors with one digit.
        theirs.retain(|(number, pipe)| number.len() == 1 && ours.contains(pipe));
        theirs.into_iter().map(|(number, _)| number).collect()
    };
    assert_eq!(shared(&parent(&server)), ["0", "1"], "orders and answers");
    assert_eq!(shared(&server), Vec::<String>::new());
}

/// The open pipes of a process, by descriptor.
fn pipes(process: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    let link = |entry: fs::DirEntry| {
        Some((entry.file_name().into_string().ok()?, fs::read_link(entry.path()).ok()?))
    };
    let mut links: Vec<_> = entries.filter_map(link).collect();
    links.retain(|(_, path)| path.to_string_lossy().starts_with("pipe:"));
    links.sort();
    links
}

fn parent(process: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().to_owned()
}
