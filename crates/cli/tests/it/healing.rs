//! Commands that diagnose and heal.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use goldseam::prelude::*;
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::faulty::{faulty_store, plain};
use crate::support::{Guarded, Ran, block, eventually, prepared};

/// The output of a successful command, with variable parts masked.
#[track_caller]
fn output(ran: Ran) -> String {
    plain(&ran.ok())
}

/// Codes and fates of findings, in order of run.
fn fates(findings: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |item: &Value| (text(&item["run"]), text(&item["code"]), text(&item["fate"]));
    let mut fates: Vec<_> = findings.as_array().unwrap().iter().map(of).collect();
    fates.sort();
    fates
}

fn is(found: &[(String, String, String)], expected: &[(&str, &str, &str)]) {
    let found: Vec<_> =
        found.iter().map(|(run, code, fate)| (run.as_str(), code.as_str(), fate.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_sweep_reports_stalled_runs_and_heals_them_after_stale_after() {
    let place = faulty_store();
    let look = place.run(&["sweeper", "--once", "--json"]).json();
    assert_eq!((&look["scanned"], &look["healthy"], &look["healed"]), (&json!(3), &json!(0), &json!(0)));
    is(
        &fates(&look["stalled"]),
        &[("hidden", "A2", "young"), ("lost", "O1", "young"), ("orphan", "O2", "young")],
    );
    assert_snapshot!("sweeper_once", output(place.run(&["sweeper", "--once"])));
    let dry = place.run(&["sweeper", "--once", "--stale-after", "0", "--dry-run", "--json"]).json();
    is(
        &fates(&dry["stalled"]),
        &[("hidden", "A2", "told"), ("lost", "O1", "told"), ("orphan", "O2", "told")],
    );
    let healed = place.run(&["sweeper", "--once", "--stale-after", "0s", "--json"]).json();
    is(
        &fates(&healed["stalled"]),
        &[("hidden", "A2", "healed"), ("lost", "O1", "healed"), ("orphan", "O2", "healed")],
    );
    assert_eq!(healed["healed"], 3);
    let again = place.run(&["sweeper", "--once", "--stale-after", "0", "--json"]).json();
    assert_eq!(again["healed"], 0, "healed runs stay healed: {again}");
}

#[test]
fn a_single_sweep_judges_age_by_the_log() {
    let place = faulty_store();
    // No sweeper saw these runs before; the log says how long they have been stalled.
    let span = ["sweeper", "--once", "--stale-after", "1ms", "--json"];
    let healed = place.run(&span).json();
    let fates = fates(&healed["stalled"]);
    let done = fates.iter().filter(|(_, _, fate)| fate == "healed").count();
    assert_eq!(done, 3, "{healed}");
}

#[test]
fn a_zero_interval_is_refused() {
    let place = prepared();
    let refused = place.run(&["sweeper", "--interval", "0"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("--interval must be greater than zero"), "{}", refused.err);
}

#[test]
fn a_healthy_store_gives_one_line() {
    let place = prepared();
    assert_snapshot!("sweeper_healthy", output(place.run(&["sweeper", "--once"])));
    assert_eq!(place.run(&["sweeper", "--once", "-q"]).ok(), "");
    assert_snapshot!("doctor_healthy", output(place.run(&["doctor"])));
    let deep = place.run(&["doctor", "--deep", "--json"]).json();
    assert_eq!((&deep["scanned"], &deep["healthy"]), (&json!(4), &json!(true)));
}

#[test]
fn doctor_reports_and_heals_with_fix() {
    let place = faulty_store();
    let reported = place.run(&["doctor"]);
    assert_eq!(reported.code, 1, "{}", reported.err);
    assert_snapshot!("doctor_tells", plain(&reported.out));
    let one = place.run(&["doctor", "--rule", "O1", "--fix"]);
    assert_eq!(one.code, 0, "{}", one.err);
    assert_snapshot!("doctor_one_rule", plain(&one.out));
    let fixed = place.run(&["doctor", "--fix"]);
    assert_eq!(fixed.code, 1, "no node has the workflow");
    assert_snapshot!("doctor_fixes", plain(&fixed.out));
    let document: Value = serde_json::from_str(&place.run(&["doctor", "--json"]).out).unwrap();
    is(
        &fates(&document["findings"]),
        &[("hidden", "N1", "needs_help"), ("odd", "V1", "needs_help"), ("orphan", "N1", "needs_help")],
    );
    assert_eq!(place.run(&["doctor", "--rule", "A9"]).code, 2);
}

#[test]
fn doctor_finds_and_frees_expired_locks() {
    let place = prepared();
    place.run(&["lock", "acquire", "nightly", "--holder", "ana", "--ttl", "1ms"]).ok();
    let reported = place.run(&["doctor"]);
    assert_eq!(reported.code, 1, "{}", reported.err);
    assert!(
        reported.out.starts_with("SEVERITY\tCODE\tCOUNT")
            && reported.out.contains("\nwarning\tL1\t1\tlock\tnightly\tcan be healed\t"),
        "{}",
        reported.out
    );
    let fixed = place.run(&["doctor", "--fix", "--rule", "L1", "--json"]).json();
    assert_eq!((&fixed["findings"][0]["lock"], &fixed["healed"]), (&json!("nightly"), &json!(1)));
    assert_eq!(place.run(&["doctor", "--json"]).json()["healthy"], true);
}

#[test]
fn doctor_groups_similar_findings_with_their_severity() {
    let place = prepared();
    for number in 0..5 {
        place.run(&["lock", "acquire", &format!("nightly-{number}"), "--holder", "ana", "--ttl", "1ms"]).ok();
    }
    let reported = eventually("all locks expire", || {
        let reported = place.run(&["doctor"]);
        reported.out.contains("\t5\tlock\t").then_some(reported)
    });
    let text = &reported.out;
    assert_eq!(reported.code, 1, "{}", reported.err);
    assert!(
        text.contains("\nwarning\tL1\t5\tlock\tnightly-0, nightly-1, nightly-2 and 2 more\tcan be healed\t"),
        "{text}"
    );
    assert!(!text.contains("\thealed") && !text.contains(" healed,"), "nothing was healed: {text}");
    let document: Value = serde_json::from_str(&place.run(&["doctor", "--json"]).out).unwrap();
    let findings = document["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 5, "a document has each of them");
    assert!(findings.iter().all(|finding| finding["severity"] == "warning"), "{document}");
}

#[test]
fn a_recovery_that_changes_nothing_does_not_exit_with_success() {
    let place = faulty_store();
    let well = place.run(&["recover", "done"]);
    assert_eq!((well.code, well.out.contains("nothing was changed")), (11, true), "{}", well.out);
    assert_eq!(place.run(&["recover", "done", "--dry-run"]).code, 0, "a dry run succeeds");
    let parked = place.run(&["recover", "odd", "--json"]);
    assert_eq!(parked.code, 9, "{}", parked.err);
    place.run(&["resume", "done"]).fails(6, "GS0105");
}

#[test]
fn resume_reports_that_the_run_parked_again() {
    let place = faulty_store();
    block(async {
        async fn changed(ctx: Context, _: String) -> goldseam::Result<()> {
            ctx.step("weigh", || async { Ok(()) }).await
        }
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("parcel", changed).start().await.unwrap();
        let resumed = place.run(&["resume", "odd"]);
        assert_eq!(resumed.code, 9, "{} {}", resumed.out, resumed.err);
        assert!(resumed.out.contains("it parked again: goldseam why odd"), "{}", resumed.out);
        engine.shutdown().await;
    });
}

#[test]
fn doctor_refuses_a_newer_schema() {
    let place = faulty_store();
    let db = rusqlite::Connection::open(place.path("goldseam.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    for command in [&["doctor", "--fix"][..], &["sweeper", "--once", "--stale-after", "0"]] {
        let err = place.run(command).fails(7, "GS0202");
        assert!(err.contains("schema 99"), "{err}");
    }
}

#[test]
fn why_explains_the_chain_and_what_to_do() {
    let place = faulty_store();
    for run in ["done", "hidden", "lost", "odd", "orphan"] {
        assert_snapshot!(format!("why_{run}"), output(place.run(&["why", run])));
    }
    let document = place.run(&["why", "hidden", "--json"]).json();
    assert_eq!(document["findings"][0]["code"], "A2");
    assert_eq!(document["moves_at"], Value::Null);
    assert!(
        document["you_can"].as_array().unwrap().contains(&json!("goldseam recover hidden")),
        "{document}"
    );
    place.run(&["why", "missing"]).fails(3, "GS0104");
}

#[test]
fn a_dry_run_shows_what_each_rule_would_do() {
    let place = faulty_store();
    let plans = place.run(&["recover", "hidden", "--dry-run", "--each", "--json"]).json();
    let first = &plans["items"][0];
    assert_eq!(
        (&first["rule"], &first["run"], &first["healed"]),
        (&json!("A2"), &json!("hidden"), &json!(false))
    );
    let found = place.run(&["why", "hidden", "--json"]).json()["findings"].as_array().unwrap().len();
    assert_eq!(plans["items"].as_array().unwrap().len(), found, "{plans}");
    let text = place.run(&["recover", "hidden", "--dry-run", "--each"]).ok();
    assert!(text.contains("hidden-question (A2)") && text.contains("would: open a branch"), "{text}");
    assert_eq!(place.run(&["recover", "done", "--dry-run", "--each"]).ok(), "done: no rule applies\n");
    assert_eq!(place.run(&["recoveries", "-q"]).ok(), "", "nothing was changed");
    assert_eq!(
        place.run(&["recover", "hidden", "--each"]).code,
        2,
        "it changes nothing, so it needs --dry-run"
    );
}

#[test]
fn recoveries_are_listed_and_counted() {
    let place = faulty_store();
    assert_eq!(place.run(&["recoveries", "-q"]).ok(), "");
    place.run(&["recover", "hidden"]).ok();
    place.run(&["recover", "lost"]).ok();
    let list = place.run(&["recoveries", "--json"]).json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 2, "{list}");
    let cut = items.iter().find(|item| item["run"] == "hidden").unwrap();
    assert_eq!((&cut["rule"], &cut["reason"]), (&json!("A2"), &json!("manual")));
    assert_eq!((&cut["previous_branch"], &cut["new_branch"]), (&json!("b1"), &json!("b2")));
    assert_eq!(place.run(&["recoveries", "--limit", "1", "-q"]).ok(), "lost\n");
    assert_eq!(place.run(&["recoveries", "--since", "1h", "--jsonl"]).ok().lines().count(), 2);
    let table = place.run(&["recoveries"]).ok();
    let head = "WHEN\tSUBJECT\tWORKFLOW\tRULE\tSTALLED\tHEAL\tATTEMPT\tSEAM\tEVIDENCE";
    assert_eq!(table.lines().next(), Some(head));
    assert!(table.contains("\tb1→b2\tthe cached status is running"), "{table}");
    let stats = place.run(&["recoveries", "--stats", "--json"]).json();
    assert_eq!((&stats["items"][0]["rule"], &stats["items"][0]["count"]), (&json!("A2"), &json!(1)));
    assert!(place.run(&["recoveries", "--stats"]).ok().contains("the run has no live advance task"));
}

#[test]
fn requeue_and_reset_add_a_note() {
    let place = faulty_store();
    let requeued = place.run(&["requeue", "lost", "--reason", "its queue was emptied", "--json"]).json();
    assert_eq!(requeued["run"], "lost");
    let history = place.run(&["history", "lost"]).ok();
    assert!(history.contains("note.added\tby tester: its queue was emptied"), "{history}");
    let reset = place.run(&["reset", "orphan", "--reason", "stuck"]).ok();
    assert_eq!(reset, "reset orphan to its last stable event, on branch b2\n");
    let history = place.run(&["history", "orphan"]).ok();
    assert!(
        history.contains("branch.opened\tb2 from b1 at ") && history.contains("by tester: stuck"),
        "{history}"
    );
    place.run(&["requeue", "done"]).fails(6, "GS0105");
    place.run(&["reset", "done"]).fails(6, "GS0105");
    place.run(&["requeue", "odd"]).fails(6, "GS0110");
}

/// Starts a process and reads its output line by line.
fn follow(mut command: Command) -> (Guarded, impl Iterator<Item = String>) {
    let mut child = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    (child, lines)
}

#[test]
fn a_sweeper_runs_until_ctrl_c() {
    let place = faulty_store();
    let args = ["sweeper", "--interval", "20ms", "--stale-after", "1ms", "--json"];
    let (mut child, lines) = follow(place.command(&args));
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert_eq!(lines.next().unwrap()["healed"], 0, "the first sweep heals nothing");
    let healed = lines.find(|report| report["healed"] == 3).unwrap();
    assert_eq!(healed["scanned"], 3);
    lines.find(|report| report["healed"] == 0 && report["healthy"] == 1).unwrap();
    kill_process(Pid::from_child(&child.0), Signal::INT).unwrap();
    assert!(child.0.wait().unwrap().success(), "Ctrl-C is a success");
}

#[test]
fn new_recoveries_are_followed() {
    let place = faulty_store();
    place.run(&["recover", "hidden"]).ok();
    let (_child, mut lines) = follow(place.command(&["recoveries", "-f", "-q"]));
    assert_eq!(lines.next().unwrap(), "hidden");
    place.run(&["recover", "lost"]).ok();
    assert_eq!(lines.next().unwrap(), "lost", "each once");
}

#[test]
fn watch_reports_that_a_run_stalls_and_moves_again() {
    let place = faulty_store();
    let (_child, mut lines) = follow(place.command(&["watch", "orphan", "--jsonl"]));
    let mut next = |wanted: &str| -> Value {
        let parse = |line: String| serde_json::from_str::<Value>(&line).unwrap();
        lines.by_ref().map(parse).find(|line| line["type"] == wanted).unwrap()
    };
    let stalled = next("stalled");
    assert_eq!((&stalled["run"], &stalled["rule"]), (&json!("orphan"), &json!("O2")));
    assert!(stalled["evidence"].as_str().unwrap().contains("is gone"), "{stalled}");
    place.run(&["reset", "orphan"]).ok();
    next("moving");
    next("note.added");
    assert_eq!(next("stalled")["rule"], "N1", "it is reported again");
}

#[test]
fn show_draws_a_seam_with_its_rule_and_evidence() {
    let place = faulty_store();
    place.run(&["recover", "hidden", "--rule", "A2"]).ok();
    let picture = place.run(&["show", "hidden", "--width", "90"]).ok();
    // The positions of bars and marks vary.
    let steady =
        |line: &&str| line.trim().starts_with(|c: char| c.is_ascii_alphabetic()) || line.contains("┼ ");
    let steady: Vec<&str> = picture.lines().filter(steady).collect();
    assert_snapshot!("show_seam", plain(&steady.join("\n")));
    let document = place.run(&["show", "hidden", "--json"]).json();
    let seam = &document["seams"][0];
    assert_eq!((&seam["kind"], &seam["rule"]), (&json!("recovered"), &json!("A2")));
    assert_eq!(seam["cut"], json!({ "from": "b1", "to": "b2", "after": 7 }));
    assert!(seam["evidence"].as_str().unwrap().starts_with("the cached status is running"), "{seam}");
    assert_eq!(document["branches"][1]["active"], true);
    let plan = json!([{ "step": "reserve", "done": true }, { "step": "charge", "done": true },
        { "step": "ship", "done": false }]);
    assert_eq!((&document["plan"], &document["steps_done"]), (&plan, &json!(2)));
    place.run(&["recover", "hidden", "--undo"]).ok();
    assert_eq!(
        place.run(&["show", "hidden", "--json"]).json()["branches"][2]["why"],
        "back to the other side of b2"
    );
}

#[test]
fn a_jump_lists_what_it_leaves_standing() {
    let place = faulty_store();
    let before = place.run(&["history", "hidden"]).ok();
    let dry = place.run(&["jump", "hidden", "reserve", "--dry-run"]).ok();
    assert_snapshot!("jump_dry_run", dry);
    assert_eq!(place.run(&["history", "hidden"]).ok(), before, "a dry run changes nothing");
    let jumped = place.run(&["jump", "hidden", "charge", "--json"]).json();
    assert_eq!((&jumped["branch"], &jumped["standing"]), (&json!("b2"), &json!([])));
    let jumped = place.run(&["jump", "lost", "reserve", "--json"]).json();
    assert_eq!(jumped["standing"], json!(["reserve"]));
    let over = place.run(&["jump", "done", "reserve"]).ok();
    assert!(over.contains("left standing") && over.contains("the run has ended"), "{over}");
    let undo = place.run(&["jump", "orphan", "reserve", "--compensate"]).ok();
    let text = "orphan jumps to reserve after its compensations; it waits for a worker with voyage@1";
    assert_eq!(undo, format!("{text} (none is live) to undo reserve\n"));
}

#[test]
fn recover_prints_the_plan_the_result_and_the_undo() {
    let place = faulty_store();
    assert_snapshot!("recover_dry_run", output(place.run(&["recover", "hidden", "--dry-run"])));
    assert_snapshot!("recover", output(place.run(&["recover", "hidden"])));
    assert_snapshot!("recover_healthy", output(place.run(&["recover", "hidden", "--dry-run"])));
    assert_snapshot!("recover_undo", output(place.run(&["recover", "hidden", "--undo"])));
    let parked = place.run(&["recover", "odd"]);
    assert_eq!(parked.code, 9, "it needs a person");
    assert_snapshot!("recover_parked", plain(&parked.out));
    let err = place.run(&["recover", "lost", "--rule", "A2"]).fails(1, "GS0118");
    assert!(err.contains("these rules apply: O1"), "{err}");
    let document = place.run(&["recover", "lost", "--reason", "asked by ana", "--json"]).json();
    assert_eq!((&document["rule"], &document["healed"]), (&json!("O1"), &json!(true)));
    assert!(place.run(&["history", "lost"]).ok().contains("note.added\tby tester: asked by ana"));
}
