//! A server on loopback that ends with this process.

use std::cell::OnceCell;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use goldseam_testbed::postgres::{Cluster, ClusterOptions};

use super::tools::{self, Tools};
use crate::tree;

/// Kills the server when its input closes, also if this process is killed. Raises the limit of open files.
const KEEPER: &str = r#"ulimit -S -n "$(ulimit -H -n)"; "$@" & echo $!; cat > /dev/null; kill -KILL $!"#;
/// Every scope of a key.
pub(super) const ALL_SCOPES: &str = "read,start,signal,operate,worker,admin";

/// The kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The environment of all parts.
pub(super) struct Ground {
    /// Folder of the scripts and lists.
    pub(super) scripts: PathBuf,
    /// The folder for intermediate files, which are kept.
    pub(super) scratch: PathBuf,
    pub(super) tools: Tools,
    binary: PathBuf,
    cluster: OnceCell<Cluster>,
}

impl Ground {
    /// Uses the binary of this profile.
    pub(super) fn new(root: &Path, profile: &str) -> Result<Self, String> {
        let target = tree::target(root);
        let scripts = root.join("xtask/hostile");
        Ok(Self {
            tools: Tools::install(&scripts)?,
            scripts,
            scratch: target.join("hostile"),
            binary: target.join(profile).join("goldseam"),
            cluster: OnceCell::new(),
        })
    }

    /// An empty folder below the scratch folder.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.scratch.join(name);
        let with_path = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(with_path)?;
        }
        fs::create_dir_all(&folder).map_err(with_path)?;
        Ok(folder)
    }

    fn cluster(&self) -> Result<&Cluster, String> {
        if self.cluster.get().is_none() {
            let cluster = Cluster::start(&ClusterOptions::default()).map_err(|error| error.to_string())?;
            let _ = self.cluster.set(cluster);
        }
        self.cluster.get().ok_or_else(|| "Postgres did not start".to_owned())
    }

    /// An empty store with this name.
    fn store(&self, store: Store, folder: &Path, name: &str) -> Result<String, String> {
        Ok(match store {
            Store::Sqlite => format!("sqlite:{}", folder.join(format!("{name}.db")).display()),
            Store::Postgres => format!("{}?schema={}", self.cluster()?.url(), name.replace('-', "_")),
        })
    }

    fn goldseam(&self, store: &str) -> Command {
        let mut command = Command::new(&self.binary);
        // The developer's environment must not configure the server.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("GOLDSEAM_")) {
            command.env_remove(name);
        }
        command.args(["--store", store]);
        command
    }

    /// Starts a server on an empty store with a namespace `other`, and a key with all scopes for each namespace.
    /// `name` is its folder; `settings` are passed by `--set`.
    pub(super) fn serve(&self, store: Store, name: &str, settings: &[&str]) -> Result<Served, String> {
        let folder = self.folder(name)?;
        let main = self.store(store, &folder, name)?;
        let other = self.store(store, &folder, &format!("{name}-other"))?;
        let key = |namespace: &str| {
            let mut create = self.goldseam(&main);
            create.args(["key", "create", namespace, "--scope", ALL_SCOPES, "--namespace", namespace, "-q"]);
            tools::run(&mut create).map(|said| said.trim().to_owned())
        };
        let other_key = key("other")?;
        let key = key("default")?;
        let log = folder.join("server.log");
        let with_path = |error: std::io::Error| format!("{}: {error}", self.binary.display());
        let mut serve = self.goldseam(&main);
        serve.args(["serve", "-q", "--listen", "127.0.0.1:0", "--namespace", &format!("other={other}")]);
        serve.args(["--archive", &folder.join("archive").display().to_string()]);
        serve.args(settings.iter().flat_map(|setting| ["--set", setting]));
        let mut keeper = Command::new("sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(serve.get_program()).args(serve.get_args());
        keeper.current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        for (name, _) in serve.get_envs() {
            keeper.env_remove(name);
        }
        let mut keeper =
            keeper.stderr(fs::File::create(&log).map_err(with_path)?).spawn().map_err(with_path)?;
        let mut lines = keeper.stdout.take().into_iter().flat_map(|out| BufReader::new(out).lines());
        let mut next = || lines.next().and_then(Result::ok);
        let pid = next().and_then(|line| line.parse().ok());
        let url = next();
        let served = |(pid, url)| Served { url, pid, key, other_key, keeper };
        pid.zip(url).map(served).ok_or_else(|| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            format!("the server did not start: {said}")
        })
    }
}

/// A running server.
pub(super) struct Served {
    pub(super) url: String,
    /// The server's process.
    pub(super) pid: u32,
    /// A key with all scopes for the namespace `default`.
    pub(super) key: String,
    /// The same for the namespace `other`.
    pub(super) other_key: String,
    keeper: Child,
}

impl Served {
    /// The environment variables that the scripts read.
    pub(super) fn variables(&self) -> [(&'static str, String); 4] {
        [
            ("GOLDSEAM_URL", self.url.clone()),
            ("GOLDSEAM_KEY", self.key.clone()),
            ("GOLDSEAM_OTHER_KEY", self.other_key.clone()),
            ("GOLDSEAM_PID", self.pid.to_string()),
        ]
    }

    /// The body of a response with status 200.
    pub(super) fn get(&self, path: &str) -> Result<String, String> {
        let address = self.url.trim_start_matches("http://");
        let with_path = |error: std::io::Error| format!("GET {path}: {error}");
        let mut stream = TcpStream::connect(address).map_err(with_path)?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).map_err(with_path)?;
        let key = &self.key;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).map_err(with_path)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(with_path)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
            _ => Err(format!("GET {path}: {answer}")),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}
