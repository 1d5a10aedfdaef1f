//! Every command gives the same result through a server as on the store itself.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use goldseam::unstable::engine::OsEntropy;
use goldseam_api::Caller;
use goldseam_api::credentials::keys::KeyStore;
use goldseam_api::doc::key::{NewKey, Scope};
use goldseam_server::config::Settings;
use goldseam_server::{Running, serve};

use crate::faulty::plain;
use crate::support::{Place, Ran, block, prepared};

/// A server on the store of a place, in this process.
struct Served {
    runtime: tokio::runtime::Runtime,
    running: Option<Running>,
    url: String,
}

impl Served {
    fn on(place: &Place) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let flags = BTreeMap::from([
            ("store", place.url()),
            ("listen", "127.0.0.1:0".to_owned()),
            ("finish_seconds", "1".to_owned()),
        ]);
        let config = Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
        let running = runtime.block_on(serve(config)).unwrap();
        let url = running.url();
        Self { runtime, running: Some(running), url }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown());
        }
    }
}

/// The same store twice.
fn twins() -> [Place; 2] {
    let one = prepared();
    let two = Place::new();
    // Skips the folder of liveness locks beside the database.
    for file in one.files().iter().filter(|file| one.path(file).is_file()) {
        std::fs::copy(one.path(file), two.path(file)).unwrap();
    }
    [one, two]
}

/// Exit code and output, with variable parts masked: times, command ids, the name that a server adds, and the note by
/// which it recognises a repeat.
fn output(ran: &Ran) -> (i32, String, String) {
    let same = |text: &str| {
        let text = masked(&plain(text)).replace(" via local", "");
        let note = "\"audit\":[{\"at\":MS,\"what\":\"taken by ID\"}]";
        text.replace(&format!("{note},"), "").replace(&format!(",{note}"), "")
    };
    (ran.code, same(&ran.out), same(&ran.err))
}

/// Masks timestamps in milliseconds and command ids.
fn masked(text: &str) -> String {
    let text = &text.lines().map(without_bar).collect::<Vec<_>>().join("\n");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let mut masked = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_id = |mark: &str| {
            word.strip_prefix(mark)
                .is_some_and(|id| id.len() >= 16 && id.chars().all(|c| c.is_ascii_hexdigit()))
        };
        let is_number = word.chars().all(|c| c.is_ascii_digit());
        masked.push_str(match () {
            () if is_number && (word.len() == 13 || masked.ends_with("_ms\":")) => "MS",
            () if is_id("c-") || is_id("k-") => "ID",
            () => word,
        });
        rest = after;
    }
    masked
}

/// Masks the bar of a timeline, whose length depends on the time.
fn without_bar(line: &str) -> String {
    let is_bar = |c: char| "█░╳".contains(c);
    match (line.find(is_bar), line.rfind(is_bar)) {
        (Some(from), Some(to)) => {
            format!("{} BAR {}", line[..from].trim_end(), line[to..].trim_start_matches(is_bar))
        }
        _ => line.to_owned(),
    }
}

/// Every command that works through a server, in a sensible order.
const COMMANDS: &[&[&str]] = &[
    &["ls"],
    &["ls", "--status", "failed,waiting", "--oldest", "--tag", "region=eu"],
    &["ls", "-q", "--since", "1d", "--workflow", "order"],
    &["show", "done"],
    &["show", "failed", "--width", "90"],
    &["show", "asks", "--width", "90"],
    &["show", "waits", "-q"],
    &["show", "done", "--at", "2"],
    &["show", "done", "--at", "2", "--width", "90"],
    &["show", "done", "--at", "999"],
    &["show", "done", "--branch", "b1"],
    &["show", "done", "--branch", "b9"],
    &["key", "current"],
    &["history", "done"],
    &["history", "done", "--branch", "b1", "--from", "3"],
    &["history", "done", "-f"],
    &["history", "done", "--branch", "b9"],
    &["watch", "done"],
    &["watch", "failed"],
    &["why", "waits"],
    &["why", "asks"],
    &["why", "waits", "missing", "done"],
    &["why", "--status", "failed,waiting"],
    &["workflows"],
    &["questions"],
    &["questions", "--run", "asks", "-q"],
    &["branches", "done"],
    &["doctor"],
    &["doctor", "--deep", "--rule", "A2"],
    &["doctor", "--rule", "worker-lost", "--limit", "3"],
    &["recoveries"],
    &["recoveries", "--stats"],
    &["prune", "--completed-before", "0s", "--dry-run"],
    &["prune", "--completed-before", "0s", "--dry-run", "--status", "failed", "--workflow", "order", "-q"],
    &["prune", "--completed-before", "1d", "--dry-run", "--limit", "1"],
    &["prune", "--completed-before", "0s", "--dry-run", "--workflow", "a/b"],
    &["sweeper", "--once", "--stale-after", "0"],
    &["start", "order", "--id", "new-1", "--input", "\"ship\"", "--tag", "region=eu", "--priority", "2"],
    &["start", "order", "--id", "done", "--input", "\"ship\"", "--wait"],
    &["start", "order", "--id", "failed", "--input", "\"break\"", "--wait"],
    &["start", "order", "--id", "done", "--input", "\"other\""],
    &["signal", "waits", "paid", "--data", "{\"cents\":4200}", "--id", "p-1"],
    &["signal", "done", "paid"],
    &["request", "waits", "add", "--data", "1", "--id", "r-1", "--timeout", "0s"],
    &["request", "done", "add", "--timeout", "0s"],
    &["request", "missing", "add"],
    &["published", "waits"],
    &["published", "waits", "progress"],
    &["published", "missing"],
    &["answer", "asks", "other", "x"],
    &["answer", "asks", "review", "nonsense"],
    &["answer", "asks", "review", "{\"ok\":true}", "--id", "a-1"],
    &["pause", "waits", "--reason", "stock"],
    &["resume", "waits"],
    &["requeue", "waits", "--reason", "lost"],
    &["reset", "waits"],
    &["jump", "done", "charge", "--dry-run"],
    &["jump", "done", "charge", "--reason", "paid twice"],
    &["jump", "done", "nothing"],
    &["diff", "done", "b1", "b2"],
    &["retry", "failed"],
    &["recover", "waits", "--dry-run"],
    &["recover", "waits", "--dry-run", "--each"],
    &["recover", "waits", "--rule", "A2"],
    &["recover", "waits", "--rule", "hidden-question"],
    &["recover", "waits", "--undo"],
    &["cancel", "waits", "--reason", "ordered twice"],
    &["why", "waits"],
    &["jump", "waits", "charge"],
    &["withdraw", "waits", "--reason", "not after all"],
    &["terminate", "waits", "--reason", "gone"],
    &["terminate", "waits", "--reason", "gone", "--yes"],
    &["history", "waits"],
    &["queue", "submit", "email", "--id", "t-1", "--payload", "{\"to\":\"ana\"}", "--attempts", "3"],
    &["queue", "submit", "email", "--id", "t-2", "--queue", "slow", "--delay", "1h", "--lane", "main"],
    &["queue", "ls"],
    &["tasks", "--queue", "slow", "--state", "ready"],
    &["tasks", "--run", "done"],
    &["queue", "get", "t-1"],
    &["queue", "heartbeat", "t-1", "--fence", "1"],
    &["queue", "fail", "t-1", "--fence", "9"],
    &["queue", "release", "t-1", "--fence", "9"],
    &["queue", "complete", "t-1", "--fence", "9"],
    &["queue", "reclaim", "--dry-run"],
    &["queue", "reclaim", "--older-than", "1h"],
    &["queue", "stats"],
    &["queue", "get", "nothing"],
    &["lock", "acquire", "nightly", "--holder", "ana"],
    &["lock", "ls"],
    &["lock", "get", "nightly"],
    &["lock", "extend", "nightly", "--holder", "ana", "--fence", "1"],
    &["lock", "stale"],
    &["lock", "release", "nightly", "--holder", "ana", "--fence", "1"],
    &["lock", "get", "nothing"],
    &["show", "missing"],
    &["watch", "missing"],
    &["explain", "GS0104"],
];

#[test]
fn every_command_prints_the_same_through_a_server() {
    let [here, there] = twins();
    let served = Served::on(&there);
    for command in COMMANDS {
        for form in [&[][..], &["--json"]] {
            let words = [command, form].concat();
            let on_store = here.run(&words);
            let through = there.run(&[&words[..], &["--server", &served.url]].concat());
            assert_eq!(output(&through), output(&on_store), "{words:?}");
        }
    }
    // Sent once: a server takes a second request as a repeat of the first.
    let cancel = &["queue", "cancel", "t-2"][..];
    assert_eq!(output(&there.run(&[cancel, &["--server", &served.url]].concat())), output(&here.run(cancel)));
    // The document of a server also has a token; the text is the same.
    let claim = &["queue", "claim", "--owner", "w"][..];
    let claimed = there.run(&[claim, &["--server", &served.url]].concat());
    assert_eq!(output(&claimed), output(&here.run(claim)));
}

#[test]
fn a_token_replaces_the_fence() {
    let place = prepared();
    let served = Served::on(&place);
    let run = |words: &[&str]| place.run(&[words, &["--server", &served.url]].concat());
    run(&["queue", "submit", "email", "--id", "t-1"]).ok();
    let claimed = run(&["queue", "claim", "--owner", "w", "--json"]).json();
    let token = claimed["items"][0]["token"].as_str().unwrap();
    let done = run(&["queue", "complete", "t-1", "--token", token, "--result", "1", "--json"]).json();
    assert_eq!(done["state"], "completed");
}

#[test]
fn commands_that_need_the_store_refuse_a_server() {
    let place = Place::new();
    for command in [&["demo"][..], &["drill"], &["store", "check"], &["store", "migrate"]] {
        let ran = place.run(&[command, &["--server", "http://127.0.0.1:1"]].concat());
        assert_eq!((ran.code, ran.err.contains("does not work through a server")), (2, true), "{}", ran.err);
    }
    let ran = place.run(&["ls", "--server", "http://127.0.0.1:1", "--store", "sqlite:x.db"]);
    assert_eq!((ran.code, ran.err.contains("cannot be used together")), (2, true), "{}", ran.err);
    let ran = place.run(&["ls", "--server", "goldseam"]);
    assert_eq!((ran.code, ran.err.contains("is not the address of a server")), (2, true), "{}", ran.err);
    assert_eq!(place.files(), Vec::<String>::new(), "no file was created");
}

#[test]
fn a_missing_server_is_unreachable() {
    let ran = Place::new().run(&["ls", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(
        ran.err.contains("cannot be reached") && ran.err.contains("help: check that it is running"),
        "{}",
        ran.err
    );
}

/// A key with one scope.
fn key(place: &Place, scope: Scope) -> String {
    block(async {
        let store = goldseam::open_existing_store(&place.url()).await.unwrap();
        let new = NewKey {
            name: "test".into(),
            scopes: [scope].into(),
            queues: None,
            namespace: Some("default".into()),
            valid_for_ms: None,
        };
        let made = KeyStore::new(store, Arc::new(OsEntropy)).create(new, &Caller::default()).await.unwrap();
        made.1.reveal().to_owned()
    })
}

#[test]
fn a_key_with_only_the_scope_start_can_start_runs() {
    let place = prepared();
    let credential = key(&place, Scope::Start);
    let served = Served::on(&place);
    let run = |words: &[&str]| {
        let command = [words, &["--server", &served.url]].concat();
        Ran::of(&place.command(&command).env("GOLDSEAM_KEY", &credential).output().unwrap())
    };
    let started = run(&["start", "order", "--id", "only-1"]);
    assert_eq!((started.err.as_str(), started.out.as_str()), ("", "started only-1\n"));
    started.ok();
    assert_eq!(run(&["start", "order", "--id", "only-2", "--json"]).json()["run"], "only-2");
    assert_eq!(run(&["start", "order", "--id", "only-3", "-q"]).ok(), "only-3\n");
    let waited = run(&["start", "order", "--id", "only-4", "--wait"]).fails(4, "GS0602");
    assert!(waited.contains("started run only-4") && waited.contains("omit --wait"), "{waited}");
    let refused = run(&["ls"]).fails(4, "GS0602");
    assert!(refused.contains("lacks the scope `read`"), "{refused}");
    for id in ["only-1", "only-2", "only-3", "only-4"] {
        assert_eq!(place.run(&["show", id, "--json"]).json()["run"], id);
    }
}

/// The run ids that a server completes for `a`.
fn candidates_through(place: &Place, url: &str, key_file: &str) -> String {
    let words = ["__complete", "--", "show", "--server", url, "--key-file", key_file, "a"];
    let out = place.run(&words).ok();
    out.lines().map(|line| format!("{}\n", line.split('\t').next().unwrap())).collect()
}

#[test]
fn the_key_comes_from_a_private_file_or_the_environment() {
    let place = prepared();
    let credential = key(&place, Scope::Read);
    let served = Served::on(&place);
    let file = place.path("key");
    std::fs::write(&file, format!("{credential}\n")).unwrap();
    let with_file = |words: &[&str]| {
        place.run(&[words, &["--server", &served.url, "--key-file", file.to_str().unwrap()]].concat())
    };
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    let ran = with_file(&["ls"]);
    assert_eq!((ran.code, ran.err.contains("other users can read")), (2, true), "{}", ran.err);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    assert!(with_file(&["ls", "-q"]).ok().contains("done"));
    for words in [&["workflows"][..], &["questions"], &["tasks"], &["why", "waits", "asks"]] {
        with_file(words).ok();
    }
    // Exit code 1 if `waits` was handed over before it rested: no live node takes it.
    let ran = with_file(&["nodes", "--json"]);
    let nodes: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let unserved = nodes["unserved"].as_array().unwrap();
    assert_eq!((ran.code, ran.err.as_str()), (i32::from(!unserved.is_empty()), ""), "{nodes}");
    assert_eq!((&nodes["items"][0]["alive"], &nodes["items"][0]["running"]), (&true.into(), &0.into()));
    assert_eq!(candidates_through(&place, &served.url, file.to_str().unwrap()), "asks\n");
    assert_eq!(with_file(&["pause", "waits"]).code, 4, "it may only read");
    for words in [&["nodes"][..], &["workflows"], &["questions"], &["tasks"], &["why", "waits", "asks"]] {
        place.run(&[words, &["--server", &served.url]].concat()).fails(4, "GS0601");
    }
    let without = place.run(&["ls", "--server", &served.url]).fails(4, "GS0601");
    assert!(without.contains("help: set GOLDSEAM_KEY, or pass the file"), "{without}");
    let environment =
        place.command(&["ls", "-q", "--server", &served.url]).env("GOLDSEAM_KEY", &credential).output();
    assert!(Ran::of(&environment.unwrap()).ok().contains("done"));
}
