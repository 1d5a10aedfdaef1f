//! The real server process.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Place, prepared};

/// A server process.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
}

/// Sends a request without headers of a browser and returns the whole response.
fn fetch(url: &str, path: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

impl Server {
    pub(crate) fn begin(place: &Place, args: &[&str]) -> Self {
        let all = [args, &["--listen", "127.0.0.1:0", "--jsonl"]].concat();
        let mut command = place.command(&all);
        // Tests have no load balancer to wait for.
        command.env("GOLDSEAM_DRAIN_SECONDS", "0");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let document: Value = serde_json::from_str(&line).unwrap();
        Self { child, url: document["url"].as_str().unwrap().to_owned() }
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().unwrap().code()
    }

    fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// The response of /readyz, on a new connection.
    fn readiness(&self) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn a_server_requires_keys_and_stops_on_sigterm() {
    let place = prepared();
    let made = place.run(&["key", "create", "ops", "--scope", "admin,read", "--json"]).json();
    let key = made["credential"].as_str().unwrap();
    let server = Server::begin(&place, &["serve"]);
    let ask = |args: &[&str], key: Option<&str>| {
        let mut command = place.command(&[args, &["--server", &server.url]].concat());
        command.env_remove("GOLDSEAM_KEY").envs(key.map(|key| ("GOLDSEAM_KEY", key)));
        crate::support::Ran::of(&command.output().unwrap())
    };
    ask(&["ls"], None).fails(4, "GS0601");
    let listed = ask(&["ls", "-q"], Some(key)).ok();
    assert_eq!(listed, place.run(&["ls", "-q"]).ok());
    ask(&["pause", "waits"], Some(key)).fails(4, "GS0602");
    let made = ask(&["key", "create", "temporary", "--scope", "read", "--json"], Some(key)).json();
    ask(&["ls"], made["credential"].as_str()).ok();
    let id = made["id"].as_str().unwrap();
    ask(&["key", "revoke", id], Some(key)).ok();
    ask(&["ls"], made["credential"].as_str()).fails(4, "GS0601");
    let keys = ask(&["key", "list", "--json"], Some(key)).json();
    assert_eq!(keys["items"].as_array().unwrap().len(), 2);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn sigterm_drains_and_a_second_signal_ends_immediately() {
    let place = prepared();
    let server = Server::begin(&place, &["serve", "--set", "drain_seconds=3600"]);
    assert!(server.readiness().ends_with("ok\n"));
    server.terminate();
    while !server.readiness().starts_with("HTTP/1.1 503") {
        std::thread::yield_now();
    }
    assert!(server.readiness().ends_with("shutting down, send requests elsewhere\n"));
    place.run(&["start", "order", "--id", "late", "--server", &server.url]).ok();
    assert_eq!(server.end(), Some(0));
    assert!(place.run(&["ls", "-q"]).ok().lines().any(|run| run == "late"), "acknowledged runs are kept");
}

#[test]
fn passes_work_with_the_store_and_with_its_server() {
    let place = prepared();
    let made =
        place.run(&["pass", "create", "asks", "--answer", "review", "--expires", "2d", "--json"]).json();
    place.run(&["pass", "create", "asks", "--answer", "nothing"]).fails(3, "GS0107");
    place.run(&["pass", "create", "missing", "--signal", "go"]).fails(3, "GS0104");
    assert_eq!(place.run(&["pass", "create", "asks"]).code, 2, "neither answer nor signal");
    let key = place.run(&["key", "create", "ops", "--scope", "admin,signal", "-q"]).ok();
    let server = Server::begin(&place, &["serve"]);
    let ask = |args: &[&str], key: &str| {
        let mut command = place.command(&[args, &["--server", &server.url]].concat());
        crate::support::Ran::of(&command.env("GOLDSEAM_KEY", key.trim()).output().unwrap())
    };
    ask(&["ls"], made["pass"].as_str().unwrap()).fails(4, "GS0602");
    let made = ask(&["pass", "create", "waits", "--signal", "go", "--json"], &key).json();
    assert!(made["callback"].as_str().unwrap().starts_with("/v1/callbacks/"));
    assert!(ask(&["pass", "rotate", "--json"], &key).json()["rotated_at"].is_u64());
    assert!(place.run(&["pass", "create", "asks", "--answer", "review"]).ok().contains("secret    "));
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_server_prunes_into_its_own_archive() {
    let place = prepared();
    let server = Server::begin(&place, &["serve", "--archive", "kept"]);
    let prune = |args: &[&str]| {
        place.run(&[&["prune", "--completed-before", "0s", "--server", &server.url], args].concat())
    };
    let refused = prune(&["--archive", "mine", "--yes"]);
    assert_eq!((refused.code, refused.err.contains("its own archive")), (2, true), "{}", refused.err);
    let refused = prune(&[]);
    assert_eq!((refused.code, refused.err.contains("--yes")), (2, true), "{}", refused.err);
    assert!(prune(&["--dry-run"]).ok().contains("2 runs would be pruned"));
    assert_eq!(prune(&["--yes", "--limit", "1", "-q"]).ok().lines().count(), 1);
    let pruned = prune(&["--yes", "--json", "--reason", "tidying"]).json();
    assert_eq!((pruned["pruned"].as_array().unwrap().len(), pruned["more"].as_bool()), (1, None), "{pruned}");
    let file = pruned["archives"][0].as_str().unwrap();
    assert!(file.starts_with(place.path("kept").to_str().unwrap()), "{file}");
    assert!(place.run(&["prune", "--verify", file]).ok().contains("1 run"));
    assert!(place.run(&["history", "failed"]).ok().contains("run.pruned"));
    assert!(place.run(&["history", "waits"]).ok().contains("run.queued"));
    assert!(prune(&["--yes"]).ok().contains("0 runs pruned"));
    assert_eq!(server.end(), Some(0));
    let server = Server::begin(&place, &["serve"]);
    let refused = place.run(&["prune", "--completed-before", "0s", "--server", &server.url, "--yes"]);
    refused.fails(6, "GS0614");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn dev_leaves_no_files_behind() {
    let place = Place::new();
    // `dev` ignores the settings file in the working directory.
    let scratch = place.path("scratch");
    std::fs::create_dir(&scratch).unwrap();
    let project = "listen = \"127.0.0.1:1\"\n[namespaces]\nshop = \"sqlite:production.db\"\n";
    std::fs::write(place.path("goldseam.toml"), project).unwrap();
    let mut server = place.command(&["dev", "--listen", "127.0.0.1:0", "--jsonl"]);
    let mut child =
        server.env("TMPDIR", &scratch).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
    place.run(&["start", "order", "--id", "o-1", "--server", &url]).ok();
    let page = fetch(&url, "/runs/o-1");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<title>Goldseam</title>"), "{page}");
    let folders = || std::fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap()).collect::<Vec<_>>();
    let [folder] = &folders()[..] else { panic!("the scratch store: {:?}", folders()) };
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(Server { child, url }.end(), Some(0));
    assert!(folders().is_empty());
    assert!(!place.path("production.db").exists(), "{:?}", place.files());
}

#[test]
fn a_server_on_a_public_address_needs_a_key() {
    let place = prepared();
    let refused = place.run(&["serve", "--listen", "0.0.0.0:0"]);
    let hint = "goldseam key create ops --scope admin";
    assert!(refused.err.contains(hint), "{}", refused.err);
    refused.fails(4, "GS0604");
    let words: Vec<&str> = hint.split(' ').skip(1).collect();
    place.run(&words).ok();
}

#[test]
fn serve_warns_about_store_files_that_other_users_can_read() {
    let place = prepared();
    let store = place.path("goldseam.db");
    for (mode, warns) in [(0o600, false), (0o644, true)] {
        std::fs::set_permissions(&store, std::fs::Permissions::from_mode(mode)).unwrap();
        let log = place.path("stderr.txt");
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--jsonl"]);
        command.env("GOLDSEAM_DRAIN_SECONDS", "0");
        let stderr = std::fs::File::create(&log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(Server { child, url: String::new() }.end(), Some(0));
        let log = std::fs::read_to_string(&log).unwrap();
        assert_eq!(log.contains("warning: other users may read or write"), warns, "{log}");
        assert_eq!(log.contains("run chmod 600"), warns, "{log}");
    }
}

/// Secrets, which all contain `sesame`.
const BANK_KEY: &str = "sesame/bank+key";
const COLLECTOR: &str = "sesame-collector";

#[test]
fn a_server_never_logs_secrets() {
    for format in ["text", "json"] {
        let place = prepared();
        let log = place.path("stderr.txt");
        let otlp = format!("http://ada:{COLLECTOR}@127.0.0.1:1");
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0", "--jsonl", "--otlp", &otlp]);
        command.env("GOLDSEAM_LOG", "trace").env("GOLDSEAM_LOG_FORMAT", format);
        command.env("BANK_KEY", BANK_KEY).env("GOLDSEAM_SECRETS_FROM_ENV", "BANK_KEY");
        command.env("GOLDSEAM_DRAIN_SECONDS", "0");
        let stderr = std::fs::File::create(&log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap()["url"].as_str().unwrap().to_owned();
        let server = Server { child, url };
        let ask = |args: &[&str]| place.run(&[args, &["--server", &server.url]].concat());
        let input =
            serde_json::json!({ "password": "hush", "n": 1.50, "url": format!("https://bank/{BANK_KEY}") });
        ask(&["start", "order", "--id", "o-1", "--input", &input.to_string()]).ok();
        ask(&["signal", "o-1", "go", "--data", &format!("\"{BANK_KEY}\"")]).ok();
        ask(&["cancel", "o-1", "--reason", &format!("{BANK_KEY} is spent")]).ok();
        for (command, own) in [("show", false), ("history", false), ("show", true), ("history", true)] {
            let shown =
                if own { place.run(&[command, "o-1", "--json"]) } else { ask(&[command, "o-1", "--json"]) };
            let shown = shown.ok();
            assert_eq!(shown.contains("hush"), own, "only the store itself shows secrets in data: {shown}");
            assert_eq!(shown.contains(BANK_KEY), own, "{shown}");
            assert!(!shown.contains("sesame/bank+key is spent"), "notes never contain a secret: {shown}");
        }
        let history = ask(&["history", "o-1"]).ok();
        assert!(history.contains("[secret] is spent"), "{history}");
        assert_eq!(server.end(), Some(0));
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(log.contains("goldseam::audit") && log.contains("DEBUG"), "{log}");
        assert!(log.contains("payload contains a registered secret"), "{log}");
        assert!(!log.contains("sesame"), "{log}");
    }
}

#[test]
fn startup_errors_contain_no_secrets() {
    let place = Place::new();
    let fails = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = place.command(args);
        let command = command.env("GOLDSEAM_LOG", "trace").envs(env.iter().copied());
        let ran = crate::support::Ran::of(&command.output().unwrap());
        assert_ne!(ran.code, 0);
        assert!(!ran.err.contains("sesame") && !ran.out.contains("sesame"), "{} {}", ran.out, ran.err);
        ran.err
    };
    let store = "postgres://ada:open%2Fsesame@127.0.0.1:1/d?connect_timeout=1";
    fails(&["serve", "--store", store, "--json"], &[]);
    fails(&["ls", "--store", store], &[]);
    fails(&["ls", "--server", "http://127.0.0.1:1"], &[("GOLDSEAM_KEY", "sesame-of-a-key")]);
    let bank = ("BANK_KEY", "opensesame");
    let error = fails(&["serve", "--set", "secrets_from_env=BANK_KEY,BNAK_KEY"], &[bank]);
    assert!(error.contains("GS0610") && error.contains("BNAK_KEY"), "{error}");
    let error = fails(&["config", "show", "--set", "secrets_from_env=BNAK_KEY"], &[bank]);
    assert!(error.contains("BNAK_KEY"), "{error}");
}

#[test]
fn every_setting_is_shown_with_its_origin() {
    let place = Place::new();
    std::fs::write(place.path("goldseam.toml"), "followers_max = 7\n").unwrap();
    let mut command = place.command(&["config", "show", "--listen", "127.0.0.1:1"]);
    let ran = crate::support::Ran::of(&command.env("GOLDSEAM_DRAIN_SECONDS", "3").output().unwrap());
    insta::assert_snapshot!(ran.ok());
    assert_eq!(place.run(&["config", "show", "--set", "folowers_max=7"]).code, 2);
    std::fs::write(place.path("goldseam.toml"), "folowers_max = 7\n").unwrap();
    place.run(&["config", "show"]).fails(2, "GS0320");
}
