//! Tasks and locks, there and back.

use crate::support::Place;

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
    place.run(&["queue", "complete", id, "--fence", "1"]).ok();
    place.run(&["queue", "cancel", id]).fails(6, "GS0301");
    assert_eq!(place.run(&["queue", "get", id, "--json"]).json()["result"], "sent");
    assert!(place.run(&["queue", "ls", "--state", "completed"]).ok().contains(id));
}

#[test]
fn a_task_fails_goes_back_and_keeps_to_its_lane() {
    let place = Place::new();
    place.run(&["queue", "submit", "merge", "--id", "a", "--lane", "main", "--attempts", "2"]).ok();
    place.run(&["queue", "submit", "merge", "--id", "b", "--lane", "main", "--priority", "5"]).ok();
    let claim = ["queue", "claim", "--owner", "w", "--limit", "9", "-q"];
    assert_eq!(place.run(&claim).ok(), "b\n", "the more important one first, and one at a time");
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
fn a_lock_is_held_by_one_with_a_fence() {
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
    assert_eq!(place.run(&release).json()["released"], false, "twice is no error");
    assert_eq!(acquire("ben").ok(), "2\n");
    assert!(place.run(&["lock", "ls"]).ok().contains("nightly\theld\tben\t2\t"));
}
