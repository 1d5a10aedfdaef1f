//! The drill: every fault is healed and measured.

use serde_json::{Value, json};

use crate::support::{Place, prepared};

#[track_caller]
fn all_healed(report: &Value) {
    let faults = report["faults"].as_array().unwrap();
    let names: Vec<&str> = faults.iter().map(|fault| fault["fault"].as_str().unwrap()).collect();
    assert_eq!(names, ["kill", "freeze", "lock", "status", "task"]);
    for fault in faults {
        assert_eq!(fault["healed"], true, "{report}");
        let times = ["detect_ms", "reclaim_ms", "progress_ms"].map(|key| fault[key].as_i64().unwrap());
        assert!(times.is_sorted(), "{report}");
    }
}

#[test]
fn every_fault_is_healed_on_a_temporary_store() {
    let place = Place::new();
    let mut command = place.command(&["drill", "--json"]);
    // A store from the environment is not used.
    command.env("GOLDSEAM_STORE", place.url());
    let ran = crate::support::Ran::of(&command.output().unwrap());
    assert_eq!(ran.out.lines().count(), 1);
    all_healed(&ran.json());
    assert!(place.files().is_empty());
}

#[test]
fn a_drill_on_a_given_store_changes_nothing_else() {
    let place = prepared();
    let mine = ["done", "failed", "asks", "waits"];
    let before = mine.map(|run| place.run(&["history", run]).ok());
    all_healed(&place.run(&["drill", "--json", "--store", &place.url()]).json());
    assert_eq!(mine.map(|run| place.run(&["history", run]).ok()), before);
    let runs = place.run(&["ls", "--json", "--status", "completed,cancelled"]).json();
    let drills = runs["items"].as_array().unwrap().iter().filter(|run| run["workflow"] == "goldseam-drill");
    assert_eq!(drills.filter(|run| run["run"].as_str().unwrap().starts_with("drill-")).count(), 4);
    assert_eq!(place.run(&["doctor", "--json"]).json()["healthy"], json!(true));
    let rules = place.run(&["recoveries", "--stats", "--json"]).json();
    let rules: Vec<&str> =
        rules["items"].as_array().unwrap().iter().map(|item| item["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["A2", "L1", "O1", "O2"]);
}
