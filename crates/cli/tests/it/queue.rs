//! Tasks and locks.

use goldseam::Status;
use goldseam::prelude::*;

use crate::support::{Place, block, eventually, reaches};

#[test]
fn a_task_is_submitted_claimed_and_completed_once() {
    let place = Place::new();
    let submit = ["queue", "submit", "email", "--key", "k", "--payload", r#"{"to":"ana"}"#, "--json"];
    let task = place.run(&submit).json();
    let id = task["id"].as_str().unwrap();
    assert_eq!(place.run(&submit).json()["id"], id, "the same key is the same task");
    let claimed = place.run(&["queue", "claim", "--owner", "w1", "--json"]).json();
    assert_eq!((&claimed["items"][0]["id"], &claimed["items"][0]["fence"]), (&task["id"], &1.into()));
    assert_eq!(place.run(&["queue", "claim", "--owner", "w2", "-q"]).ok(), "");
    place.run(&["queue", "heartbeat", id, "--fence", "1"]).ok();
    place.run(&["queue", "complete", id, "--fence", "9"]).fails(6, "GS0301");
    let done = place.run(&["queue", "complete", id, "--fence", "1", "--result", "\"sent\"", "--json"]).json();
    assert_eq!(done["state"], "completed");
    place.run(&["queue", "complete", id, "--fence", "1", "--result", "\"sent\""]).ok();
    place.run(&["queue", "complete", id, "--fence", "1"]).fails(6, "GS0603");
    place.run(&["queue", "cancel", id]).fails(6, "GS0301");
    assert_eq!(place.run(&["queue", "get", id, "--json"]).json()["result"], "sent");
    assert!(place.run(&["queue", "ls", "--state", "completed"]).ok().contains(id));
}

#[test]
fn tasks_show_the_state_that_a_claimant_reports() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "t"]).ok();
    place.run(&["queue", "claim", "--owner", "ci-1"]).ok();
    let beat =
        |state: &str| place.run(&["queue", "heartbeat", "t", "--fence", "1", "--state", state, "--json"]);
    beat("building").ok();
    let task = beat("testing").json();
    let states: Vec<&str> =
        task["audit"].as_array().unwrap().iter().filter_map(|e| e["state"].as_str()).collect();
    assert_eq!(states, ["building", "testing"], "{task}");
    let listed = place.run(&["tasks"]).ok();
    assert!(listed.contains("\tclaimed (testing)\t"), "{listed}");
    assert_eq!(beat("not a state").code, 2);
}

#[test]
fn cancelled_tasks_and_released_locks_name_the_operator() {
    let place = Place::new();
    place.run(&["queue", "submit", "copy", "--id", "t"]).ok();
    place.run(&["queue", "claim", "--owner", "w1"]).ok();
    place.run(&["queue", "cancel", "t"]).ok();
    let task = place.run(&["queue", "get", "t", "--json"]).json();
    assert_eq!(task["audit"][0]["what"], "cancelled, held by w1: by tester", "{task}");
    place.run(&["lock", "acquire", "nightly", "--holder", "ana", "--ttl", "1h"]).ok();
    place.run(&["lock", "release", "nightly", "--holder", "ana", "--fence", "1"]).ok();
    let lock = place.run(&["lock", "get", "nightly", "--json"]).json();
    assert_eq!(lock["audit"][0]["what"], "released, held by ana: by tester", "{lock}");
}

#[test]
fn heartbeat_details_reach_the_next_claimant() {
    let place = Place::new();
    place.run(&["queue", "submit", "copy", "--id", "t", "--attempts", "3"]).ok();
    let claim = || place.run(&["queue", "claim", "--owner", "w", "--json"]).json()["items"][0].clone();
    assert_eq!(claim()["last_heartbeat"], serde_json::Value::Null);
    place.run(&["queue", "heartbeat", "t", "--fence", "1", "--details", r#"{"page":1}"#]).ok();
    place.run(&["queue", "heartbeat", "t", "--fence", "1", "--details", r#"{"page":7}"#]).ok();
    place.run(&["queue", "heartbeat", "t", "--fence", "1"]).ok();
    assert_eq!(place.run(&["queue", "heartbeat", "t", "--fence", "1", "--details", "{"]).code, 2);
    place.run(&["queue", "release", "t", "--fence", "1"]).ok();
    let again = claim();
    assert_eq!(again["last_heartbeat"], serde_json::json!({ "page": 7 }), "{again}");
    let done = place.run(&["queue", "complete", "t", "--fence", "2", "--json"]).json();
    assert_eq!(done.get("audit"), None, "completion removes them: {done}");
}

#[test]
fn a_lane_allows_one_claimed_task_at_a_time() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "a", "--lane", "main", "--attempts", "2"]).ok();
    place.run(&["queue", "submit", "merge", "--id", "b", "--lane", "main", "--priority", "5"]).ok();
    let claim = ["queue", "claim", "--owner", "w", "--limit", "9", "-q"];
    assert_eq!(place.run(&claim).ok(), "b\n", "the higher priority first, and one at a time");
    place.run(&["queue", "release", "b", "--fence", "1"]).ok();
    assert_eq!(place.run(&claim).ok(), "b\n");
    let failed = place.run(&["queue", "fail", "b", "--fence", "2", "--message", "red", "--json"]).json();
    assert_eq!(failed["state"], "failed");
    assert_eq!(place.run(&claim).ok(), "a\n");
    let again = place.run(&["queue", "fail", "a", "--fence", "1", "--json"]).json();
    assert_eq!(again["state"], "ready");
    assert_eq!(place.run(&["queue", "cancel", "a", "--json"]).json()["state"], "cancelled");
}

#[test]
fn a_lock_has_one_holder_with_a_fence() {
    let place = Place::new();
    let acquire =
        |holder: &str| place.run(&["lock", "acquire", "nightly", "--holder", holder, "--ttl", "1h", "-q"]);
    assert_eq!(acquire("ana").ok(), "1\n");
    let err = acquire("ben").fails(6, "GS0302");
    assert!(err.contains("held by ana until 20"), "{err}");
    place.run(&["lock", "extend", "nightly", "--holder", "ana", "--fence", "1", "--ttl", "2h"]).ok();
    place.run(&["lock", "extend", "nightly", "--holder", "ana", "--fence", "7"]).fails(6, "GS0302");
    assert_eq!(place.run(&["lock", "get", "nightly", "--json"]).json()["holder"], "ana");
    let release = ["lock", "release", "nightly", "--holder", "ana", "--fence", "1", "--json"];
    assert_eq!(place.run(&release).json()["released"], true);
    assert_eq!(place.run(&release).json()["released"], false, "a repeat is not an error");
    assert_eq!(acquire("ben").ok(), "2\n");
    assert!(place.run(&["lock", "ls"]).ok().contains("nightly\theld\tben\t2\t"));
}

#[test]
fn reclaim_counts_then_reclaims_stale_claims_and_locks() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "a", "--silence", "0s"]).ok();
    place.run(&["queue", "submit", "merge", "--id", "b"]).ok();
    assert_eq!(place.run(&["queue", "claim", "--owner", "w1", "--limit", "9", "-q"]).ok(), "a\nb\n");
    place.run(&["lock", "acquire", "nightly", "--holder", "w1", "--ttl", "1ms"]).ok();
    eventually("the lock expires", || {
        (place.run(&["lock", "stale", "-q"]).ok() == "nightly\n").then_some(())
    });
    let dry = place.run(&["queue", "reclaim", "--dry-run"]).ok();
    assert_eq!(dry, "would reclaim 1 task and free 1 lock\n");
    let dry = place.run(&["queue", "reclaim", "--dry-run", "--json"]).json();
    assert_eq!((&dry["locks_cleaned"], &dry["entries_reclaimed"]), (&1.into(), &1.into()));
    assert!(dry["recovery_timestamp"].as_i64().unwrap() > 0 && dry["dry_run"] == true);
    assert_eq!(place.run(&["queue", "reclaim"]).ok(), "reclaimed 1 task and freed 1 lock\n");
    assert_eq!(place.run(&["queue", "reclaim"]).ok(), "reclaimed 0 tasks and freed 0 locks\n");
    let back = place.run(&["queue", "get", "a", "--json"]).json();
    assert_eq!((&back["state"], &back["deliveries"]), (&"ready".into(), &1.into()));
    assert!(back["audit"][0]["what"].as_str().unwrap().starts_with("reclaimed from w1: no sign of life"));
    place.run(&["queue", "complete", "a", "--fence", "1"]).fails(6, "GS0301");
    let list = place.run(&["recoveries", "--json"]).json();
    let heals: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["rule"].as_str()).collect();
    assert_eq!((heals.len(), heals.contains(&Some("L1")), heals.contains(&Some("L2"))), (2, true, true));
    let task = &place.run(&["recoveries", "--rule", "L2", "--json"]).json()["items"][0];
    assert_eq!((&task["task"], &task["holder"], &task["attempt"]), (&"a".into(), &"w1".into(), &1.into()));
    assert!(task.get("run").is_none(), "{task}");
    assert_eq!(place.run(&["recoveries", "--rule", "L1", "-q"]).ok(), "nightly\n");
    assert!(place.run(&["recoveries"]).ok().contains("\tlock nightly\t-\tstale-lock (L1)\t"));
    let stats = place.run(&["recoveries", "--stats", "--json"]).json();
    assert_eq!((&stats["items"][0]["rule"], &stats["items"][1]["rule"]), (&"L1".into(), &"L2".into()));
}

#[test]
fn reclaim_older_than_overrides_the_limit_of_the_task() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "a", "--silence", "1h"]).ok();
    place.run(&["queue", "claim", "--owner", "w1"]).ok();
    assert_eq!(place.run(&["queue", "reclaim", "--older-than", "300s"]).ok(), "reclaimed 0 tasks\n");
    let dry = place.run(&["queue", "reclaim", "--older-than", "0s", "--dry-run"]).ok();
    assert_eq!(dry, "would reclaim 1 task\n");
    let done = place.run(&["queue", "reclaim", "--older-than", "0s", "--json"]).json();
    assert_eq!((&done["entries_reclaimed"], &done["dry_run"]), (&1.into(), &false.into()));
    assert_eq!(place.run(&["queue", "claim", "--owner", "w2", "-q"]).ok(), "a\n");
}

#[test]
fn a_claim_reclaims_tasks_of_a_silent_claimant() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "a", "--silence", "0s"]).ok();
    for (owner, deliveries) in [("w1", 0), ("w2", 1), ("w3", 2), ("w4", 3)] {
        let claimed = place.run(&["queue", "claim", "--owner", owner, "--json"]).json();
        assert_eq!(claimed["items"][0]["deliveries"], deliveries);
    }
    assert_eq!(place.run(&["queue", "claim", "--owner", "w5", "-q"]).ok(), "");
    let stopped = place.run(&["recoveries", "--stopped", "--json"]).json();
    assert_eq!(
        (stopped["items"].as_array().unwrap().len(), &stopped["items"][0]["ended"]),
        (1, &"dead".into())
    );
    assert_eq!(place.run(&["recoveries", "--healed", "-q"]).ok(), "a\na\na\n");
    let stats = place.run(&["recoveries", "--stats", "--json"]).json();
    let counts: Vec<_> =
        stats["items"].as_array().unwrap().iter().map(|item| item["count"].as_u64()).collect();
    assert_eq!(counts, [Some(3), Some(1)], "endings are counted apart: {stats}");
    assert_eq!(place.run(&["recoveries", "--stopped", "--healed"]).code, 2);
    assert!(
        place.run(&["queue", "ls", "--state", "dead"]).ok().contains("a\tmerge\tdefault\t-\t0\tdead\t-\t4")
    );
}

#[test]
fn stale_locks_are_listed_with_the_reason() {
    let place = Place::new();
    place.run(&["lock", "acquire", "held", "--holder", "ana", "--ttl", "1h"]).ok();
    assert_eq!(place.run(&["lock", "stale"]).ok(), "LOCK\tHOLDER\tEXPIRED\tWHY\n");
    place.run(&["lock", "acquire", "brief", "--holder", "ben", "--ttl", "1ms"]).ok();
    eventually("the lock expires", || (place.run(&["lock", "stale", "-q"]).ok() == "brief\n").then_some(()));
    let list = place.run(&["lock", "stale"]).ok();
    assert!(list.contains("\nbrief\tben\t20") && list.ends_with("Z\tit expired\n"), "{list}");
    assert_eq!(place.run(&["lock", "stale", "-q"]).ok(), "brief\n");
    let list = place.run(&["lock", "stale", "--json"]).json();
    assert_eq!(
        (&list["items"][0]["lock"]["holder"], list["items"].as_array().unwrap().len()),
        (&"ben".into(), 1)
    );
}

#[test]
fn queues_are_counted() {
    let place = Place::new();
    for id in ["a", "b", "c"] {
        place.run(&["queue", "submit", "merge", "--id", id, "--queue", "merges"]).ok();
    }
    place.run(&["queue", "submit", "merge", "--id", "d", "--queue", "merges", "--delay", "1h"]).ok();
    place.run(&["queue", "claim", "--owner", "w1", "--queue", "merges"]).ok();
    let table = place.run(&["queue", "stats"]).ok();
    assert!(
        table.starts_with("QUEUE\tREADY\tDUE\tCLAIMED\tDEAD\tOLDEST\tNODES\nmerges\t3\t2\t1\t0\t"),
        "{table}"
    );
    let stats = place.run(&["queue", "stats", "--json"]).json();
    assert_eq!((&stats["complete"], &stats["counted"]), (&true.into(), &4.into()));
    assert_eq!(stats["queues"][0]["due"], 2);
}

#[test]
fn stats_reports_an_inconsistent_task() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "a"]).ok();
    let file = rusqlite::Connection::open(place.path("goldseam.db")).unwrap();
    file.execute("UPDATE tasks SET owner = 'w'", []).unwrap();
    let ran = place.run(&["queue", "stats"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.out.ends_with("wrong: task a: `owner` must be set exactly while the task is claimed\n"),
        "{}",
        ran.out
    );
}

#[test]
fn a_remote_step_can_be_completed_by_hand() {
    let place = Place::new();
    let flow =
        |ctx: Context, width: u32| async move { ctx.remote::<u32>("resize", &width).queue("gpu").await };
    let engine = || async { Engine::open(&place.url()).await.unwrap().workflow("image", flow) };
    block(async {
        let engine = engine().await.start().await.unwrap();
        engine.start("image", "img", &200u32).await.unwrap();
        reaches(engine.client(), "img", Status::Waiting).await;
        engine.shutdown().await;
    });
    let claim = ["queue", "claim", "--owner", "ana", "--queue", "gpu", "--json"];
    let task = place.run(&claim).json()["items"][0].clone();
    assert_eq!((&task["kind"], &task["payload"]), (&"resize".into(), &200.into()));
    assert_eq!((&task["step"]["path"], &task["step"]["attempt"]), (&"resize".into(), &1.into()));
    let id = task["id"].as_str().unwrap();
    let shown = place.run(&["show", "img"]).ok();
    assert!(shown.contains("resize\tremote\topen\t1\t"), "{shown}");
    assert!(shown.contains(&format!("a worker for resize (task {id})")), "{shown}");
    let row = place.run(&["show", "img", "--json"]).json()["steps"][0].clone();
    assert_eq!((&row["queue"], row["task"].as_str()), (&"gpu".into(), Some(id)));
    assert!(place.run(&["show", "img", "--width", "100"]).ok().contains("  in gpu"));
    place.run(&["queue", "complete", id, "--fence", "1", "--result", "100"]).ok();
    assert!(place.run(&["history", "img"]).ok().contains("resize → 100"));
    block(async {
        let engine = engine().await.start().await.unwrap();
        reaches(engine.client(), "img", Status::Completed).await;
        engine.shutdown().await;
    });
}
