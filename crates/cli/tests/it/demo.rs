//! The demo: workers are killed, and nothing is lost.

use std::process::{Command, Stdio};

use goldseam::RunId;
use goldseam::unstable::core::Event;
use goldseam_store_postgres::testing::Schema;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Guarded, Place, block, eventually};

#[track_caller]
fn is_well(account: &Value) {
    assert_eq!((&account["lost"], &account["repeated"]), (&json!(0), &json!(0)), "{account}");
    let ended = account["completed"].as_u64().unwrap() + account["failed"].as_u64().unwrap();
    assert_eq!(account["runs"], ended, "{account}");
}

#[test]
fn a_small_demo_loses_and_repeats_nothing() {
    let place = Place::new();
    let account = place
        .run(&["demo", "--runs", "12", "--kills", "4", "--workers", "2", "--seed", "7", "--json"])
        .json();
    is_well(&account);
    assert_eq!((&account["runs"], &account["kills"]), (&json!(12), &json!(4)));
    for key in ["p50", "p99", "max"] {
        assert!(account["recovery_ms"][key].is_i64(), "{account}");
    }
    assert!(account["seconds"].as_f64().unwrap() > 0.0);
    assert!(place.files().is_empty());
}

#[test]
fn a_demo_with_freezes_loses_and_repeats_nothing() {
    let place = Place::new();
    let args = ["demo", "--runs", "10", "--kills", "2", "--freezes", "4", "--workers", "2", "--seed", "7"];
    let silence = ["--silence", "600ms", "--json"];
    let account = place.run(&[&args[..], &silence].concat()).json();
    is_well(&account);
    assert_eq!((&account["kills"], &account["freezes"]), (&json!(2), &json!(4)), "{account}");
    assert!(account["superseded"].is_u64() && account["steps"].as_u64() >= Some(50), "{account}");
}

#[test]
fn kills_the_real_binary_a_hundred_times() {
    let place = Place::new();
    let account = place.run(&["demo", "--runs", "150", "--kills", "100", "--workers", "3", "--json"]).json();
    is_well(&account);
    assert_eq!(account["kills"], 100);
    eprintln!("{account}");
}

#[test]
fn kills_the_real_binary_on_postgres() {
    let place = Place::new();
    let schema = Schema::fresh();
    let args = ["demo", "--runs", "60", "--kills", "25", "--workers", "3", "--json"];
    let account = place.run(&[&["--store", &schema.url()][..], &args].concat()).json();
    is_well(&account);
    assert_eq!(account["kills"], 25);
    eprintln!("{account}");
    let again = place.run(&[&["--store", &schema.url()][..], &args].concat());
    assert_eq!(again.code, 2, "a store with runs is refused: {}", again.err);
}

#[test]
fn a_demo_prints_next_commands_and_keeps_its_store() {
    let place = Place::new();
    let ran = place.run(&["demo", "--runs", "3", "--kills", "1", "--workers", "1", "--dir", "d"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("     0  acknowledged results lost"), "{}", ran.out);
    assert!(ran.err.contains(" --store sqlite:d/demo.db show ord-000"), "{}", ran.err);
    assert_eq!(place.run(&["--store", "sqlite:d/demo.db", "ls", "-q"]).ok().lines().count(), 3);
    let again = place.run(&["demo", "--runs", "3", "--kills", "0", "--dir", "d"]);
    assert_eq!(again.code, 2, "{}", again.err);
}

#[test]
fn ctrl_c_also_ends_the_workers() {
    let place = Place::new();
    let demo =
        place.command(&["demo", "--runs", "500", "--kills", "0", "--workers", "2", "--dir", "d"]).spawn();
    let mut demo = Guarded(demo.unwrap());
    let pid = demo.0.id();
    let witness = place.path("d/witness.tsv");
    let workers: Vec<u32> = eventually("both workers work", || {
        let text = std::fs::read_to_string(&witness).ok()?;
        let mut pids: Vec<u32> =
            text.lines().filter_map(|line| line.split('\t').nth(5)?.parse().ok()).collect();
        pids.sort_unstable();
        pids.dedup();
        (pids.len() == 2).then_some(pids)
    });
    kill_process(Pid::from_child(&demo.0), Signal::INT).unwrap();
    assert_eq!(demo.0.wait().unwrap().code(), Some(130));
    assert!(!workers.contains(&pid));
    for worker in workers {
        eventually("the worker is gone", || (!alive(worker)).then_some(()));
    }
}

fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A worker of the demo whose runs are taken over after 1.5 seconds of silence.
fn worker(place: &Place) -> Guarded {
    let url = format!("sqlite:{}", place.path("goldseam.db").display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_goldseam"));
    command.args(["--store", &url, "demo-worker", "--silence", "1500ms", "--witness"]);
    command.arg(place.path("witness.tsv")).stdin(Stdio::null());
    Guarded(command.spawn().unwrap())
}

/// Lines of the witness about a step, as (word, pid).
fn witnessed(place: &Place, step: &str) -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(place.path("witness.tsv")).unwrap_or_default();
    let parse = |line: &str| {
        let parts: Vec<&str> = line.split('\t').collect();
        (parts.get(2) == Some(&step)).then(|| (parts[0].to_owned(), parts[5].parse().unwrap()))
    };
    text.lines().filter_map(parse).collect()
}

#[test]
fn a_frozen_worker_loses_its_run_and_its_late_result_is_refused() {
    let place = Place::new();
    let frozen = worker(&place);
    let order = r#"{"customer":"ana","lines":["lamp"],"cents":500,"step_ms":700}"#;
    place.run(&["start", "order", "--id", "r", "--input", order]).ok();
    eventually("the first step begins", || (!witnessed(&place, "reserve").is_empty()).then_some(()));
    let pid = Pid::from_child(&frozen.0);
    kill_process(pid, Signal::STOP).unwrap();
    let other = worker(&place);
    let asks = || place.run(&["show", "r", "--json"]).json()["questions"][0]["path"] == "release";
    eventually("another worker executes the run up to its question", || asks().then_some(()));
    kill_process(pid, Signal::CONT).unwrap();
    let late = ("end".to_owned(), frozen.0.id());
    eventually("the frozen worker ends its step late", || {
        witnessed(&place, "reserve").contains(&late).then_some(())
    });
    place.run(&["answer", "r", "release", "ship"]).ok();
    eventually("the run ends", || (place.run(&["watch", "r"]).code == 0).then_some(()));
    let history = block(async {
        let client = goldseam::connect_existing(&place.url()).await.unwrap();
        client.history(&RunId::new("r").unwrap()).await.unwrap()
    });
    let claims: Vec<_> =
        history.iter().filter(|r| matches!(r.event, Event::RunClaimed(_))).map(|r| r.seq).collect();
    let stale = claims[0];
    let taken = claims[1];
    let late_events = history.iter().filter(|r| r.seq > taken && r.epoch == Some(stale)).count();
    assert_eq!(late_events, 0, "the log has no event of the frozen worker after the takeover");
    let mut done: Vec<String> = history
        .iter()
        .filter_map(|r| match &r.event {
            Event::StepCompleted(step) => Some(step.path.to_string()),
            _ => None,
        })
        .collect();
    done.sort();
    assert_eq!(done, ["charge", "pick:lamp", "reserve", "ship"], "each step is complete once");
    drop(other);
}
