//! Cancelling, terminating and withdrawing without a worker.

use serde_json::json;

use crate::faulty::{faulty_store, plain};
use crate::support::Place;

#[test]
fn cancel_without_a_worker_ends_the_run_or_names_the_missing_worker() {
    let place = Place::new();
    place.run(&["start", "ghost", "--id", "g1"]).ok();
    assert_eq!(place.run(&["cancel", "g1"]).ok(), "cancelled g1\n");
    assert_eq!(place.run(&["show", "g1", "--json"]).json()["status"], "cancelled");
    place.run(&["doctor"]).ok();

    let place = faulty_store();
    let text = "cancel requested for odd; it waits for a worker with parcel@1 (none is live)\n";
    assert_eq!(place.run(&["cancel", "odd", "--reason", "twice"]).ok(), text);
    let why = place.run(&["why", "odd"]).ok();
    assert!(why.contains("a request to cancel it by tester is pending: it waits for a worker"), "{why}");
    assert!(why.contains("goldseam withdraw odd --cancel"), "{why}");
    let shown = place.run(&["show", "odd"]).ok();
    assert!(shown.contains("cancel request by tester"), "{shown}");
    let pending = &place.run(&["show", "odd", "--json"]).json()["pending"][0];
    assert_eq!((&pending["what"], &pending["by"]), (&json!("cancel"), &json!("tester")));
    let refused = place.run(&["jump", "odd", "reserve"]).fails(6, "GS0136");
    assert!(refused.contains("--drop-cancel"), "{refused}");
    let jumped = place.run(&["jump", "odd", "reserve", "--drop-cancel"]).ok();
    assert!(jumped.contains("the pending cancel request was dropped"), "{jumped}");
    let history = place.run(&["history", "odd"]).ok();
    assert!(history.contains("request.withdrawn\tcancel by tester"), "{history}");
}

#[test]
fn a_pending_jump_is_shown_withdrawn_and_replaced() {
    let place = faulty_store();
    let dry = place.run(&["jump", "odd", "reserve", "--dry-run"]).ok();
    assert!(dry.contains("they cannot be compensated now: the run is parked by V1"), "{dry}");
    assert!(!dry.contains("--compensate"), "{dry}");
    let jumped = place.run(&["jump", "odd", "reserve", "--compensate"]).ok();
    assert!(
        jumped.contains("it waits for a worker with parcel@1 (none is live) to undo reserve"),
        "{jumped}"
    );
    assert!(jumped.contains("code that agrees with its log"), "{jumped}");
    let why = place.run(&["why", "odd"]).ok();
    assert!(why.contains("a jump to reserve by tester is pending"), "{why}");
    assert!(place.run(&["show", "odd"]).ok().contains("jump to reserve by tester"));
    let withdrawn = place.run(&["withdraw", "odd"]).ok();
    assert_eq!(withdrawn, "withdrew the jump of odd; the run continues where it was\n");
    place.run(&["withdraw", "odd", "--jump"]).fails(6, "GS0110");
    place.run(&["withdraw", "odd"]).fails(6, "GS0110");
    place.run(&["jump", "odd", "reserve", "--compensate"]).ok();
    place.run(&["jump", "odd", "reserve"]).ok();
    assert_eq!(place.run(&["show", "odd", "--json"]).json()["status"], "queued");
}

#[test]
fn terminate_needs_a_reason_and_yes_and_lists_what_is_left_standing() {
    let place = faulty_store();
    assert_eq!(place.run(&["terminate", "odd", "--yes"]).code, 2);
    assert_eq!(place.run(&["terminate", "odd", "--reason", "gone"]).code, 2);
    assert_eq!(place.run(&["terminate", "odd", "--reason", " ", "--yes"]).code, 2);
    assert_eq!(place.run(&["show", "odd", "--json"]).json()["status"], "parked", "nothing was changed");
    let done = place.run(&["terminate", "odd", "--reason", "gone", "--yes"]).ok();
    assert_eq!(done, "terminated odd\nleft standing, not compensated: reserve\n");
    let history = plain(&place.run(&["history", "odd"]).ok());
    assert!(
        history.contains("run.cancelled\tterminated by tester: gone; left standing: reserve"),
        "{history}"
    );
    let shown = place.run(&["show", "odd"]).ok();
    assert!(shown.contains("by tester: gone"), "{shown}");
    assert!(shown.contains("left standing, not compensated: reserve"), "{shown}");
    let document = place.run(&["show", "odd", "--json"]).json();
    assert_eq!((&document["terminated"], &document["status"]), (&json!(true), &json!("cancelled")));
    assert_eq!(document["left_standing"]["standing"], json!(["reserve"]));
    let why = place.run(&["why", "odd"]).ok();
    assert!(why.contains("it was terminated by tester: gone"), "{why}");
    assert!(place.run(&["ls", "--status", "cancelled"]).ok().contains("terminated"));
    place.run(&["terminate", "odd", "--reason", "again", "--yes"]).fails(6, "GS0105");
    place.run(&["jump", "odd", "reserve"]).fails(6, "GS0137");
    place.run(&["terminate", "missing", "--reason", "x", "--yes"]).fails(3, "GS0104");
}

#[test]
fn resume_warns_that_the_run_may_park_again() {
    let place = faulty_store();
    let resumed = place.run(&["resume", "odd"]).ok();
    assert_eq!(
        resumed,
        "resumed odd; it parks again at the same difference unless the workers' code has changed\n"
    );
}
