//! Listing, showing and changing runs.

use std::process::Stdio;

use serde_json::Value;

use crate::support::{Guarded, Place, Ran, prepared};

#[test]
fn ls_filters_and_prints_tab_separated_lines() {
    let place = prepared();
    let all = place.run(&["ls"]).ok();
    assert!(all.starts_with("RUN\tWORKFLOW\tSTATUS\tSTEP\tAGE\tNOTE\n"), "{all}");
    assert_eq!(all.lines().count(), 5);
    assert!(!all.contains('\x1b'));
    assert_eq!(place.run(&["ls", "-q", "--status", "failed"]).ok(), "failed\n");
    assert_eq!(
        place.run(&["ls", "-q", "--status", "waiting,completed", "--oldest"]).ok(),
        "done\nasks\nwaits\n"
    );
    assert_eq!(place.run(&["ls", "-q", "--workflow", "other"]).ok(), "");
    assert_eq!(place.run(&["ls", "-q", "--tag", "region=us"]).ok(), "");
    assert_eq!(
        place.run(&["ls", "-q", "--tag", "region=eu", "--since", "1h", "--limit", "1"]).ok(),
        "waits\n"
    );
    let page = place.run(&["ls", "--json", "--limit", "3"]).json();
    assert_eq!(page["items"].as_array().unwrap().len(), 3);
    let next = page["next"].as_str().unwrap();
    assert_eq!(place.run(&["ls", "-q", "--limit", "3", "--after", next]).ok(), "done\n");
    let lines = place.run(&["ls", "--jsonl"]).ok();
    assert_eq!(lines.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 4);
    let failed = place.run(&["show", "failed", "--json"]).json();
    let cause = failed["trouble"]["cause"].as_str().unwrap();
    assert_eq!(place.run(&["ls", "-q", "--cause", cause]).ok(), "failed\n");
}

#[test]
fn show_lists_steps_questions_and_next_commands() {
    let place = prepared();
    let done = place.run(&["show", "done"]).ok();
    assert!(done.contains("status\tcompleted\n") && done.contains("result\t\"shipped ship\"\n"), "{done}");
    assert!(done.contains("charge\tstep\tdone\t2\t"), "{done}");
    let asks = place.run(&["show", "asks"]).ok();
    assert!(asks.contains("goldseam answer asks review '{\"ok\":true}'"), "{asks}");
    let waits = place.run(&["show", "waits"]).ok();
    assert!(waits.contains("goldseam signal waits paid"), "{waits}");
    let failed = place.run(&["show", "failed"]).ok();
    assert!(failed.contains("no truck for order 17") && failed.contains("goldseam retry failed"), "{failed}");
    assert!(failed.contains("undo reserve\tundo\tdone"), "{failed}");
    let document = place.run(&["show", "asks", "--json"]).json();
    assert_eq!(document["status"], "waiting");
    assert_eq!(document["questions"][0]["path"], "review");
    assert_eq!(document["steps"][1]["attempts"], 2);
}

#[test]
fn show_draws_a_timeline() {
    let place = prepared();
    let picture = place.run(&["show", "failed", "--width", "80"]).ok();
    assert!(picture.starts_with("order failed  ✖ failed in "), "{picture}");
    for part in ["✔ reserve", "✔ charge", "2 attempts", "✖ ship", "╳", "↩ undo reserve", "█"] {
        assert!(picture.contains(part), "{part}: {picture}");
    }
    let widest = picture.lines().skip(8).take(4).map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 80, "{widest}: {picture}");
    let coloured = place.run(&["show", "failed", "--width", "80", "--color", "always"]).ok();
    assert!(coloured.contains("\x1b[31m"), "{coloured}");
}

#[test]
fn history_shows_the_log() {
    let place = prepared();
    let text = place.run(&["history", "done"]).ok();
    assert!(text.contains("\tstep.retry_scheduled\tcharge attempt 2"), "{text}");
    let document = place.run(&["history", "done", "--json"]).json();
    let items = document["items"].as_array().unwrap();
    assert_eq!(items[0]["type"], "run.queued");
    assert_eq!(items[0]["data"]["workflow"], "order");
    assert_eq!(items.last().unwrap()["type"], "run.completed");
    assert_eq!(place.run(&["history", "done", "-q", "--from", "3"]).ok().lines().next(), Some("3"));
    let followed = place.run(&["history", "done", "-f", "--jsonl"]).ok();
    assert_eq!(followed.lines().count(), items.len(), "a finished run ends the stream");
    assert_eq!(place.run(&["watch", "done"]).code, 0);
    assert_eq!(place.run(&["watch", "failed"]).code, 5);
}

#[test]
fn runs_are_signalled_paused_resumed_and_cancelled_without_an_engine() {
    let place = prepared();
    let sent =
        place.run(&["signal", "waits", "paid", "--data", r#"{"cents":1}"#, "--id", "p-1", "--json"]).json();
    assert_eq!(sent["run"], "waits");
    place.run(&["signal", "waits", "paid", "--data", r#"{"cents":1}"#, "--id", "p-1"]).ok();
    let history = place.run(&["history", "waits"]).ok();
    assert_eq!(history.matches("signal.received").count(), 1, "{history}");
    place.run(&["pause", "asks", "--reason", "stock-taking"]).ok();
    assert_eq!(place.run(&["show", "asks", "--json"]).json()["status"], "paused");
    assert!(place.run(&["history", "asks"]).ok().contains("run.paused\tby tester: stock-taking"));
    place.run(&["resume", "asks"]).ok();
    place.run(&["cancel", "asks", "--reason", "twice"]).ok();
    assert!(place.run(&["history", "asks"]).ok().contains("run.cancel_requested\tby tester: twice"));
}

#[test]
fn jump_and_retry_open_a_new_branch() {
    let place = prepared();
    let jumped = place.run(&["jump", "done", "charge", "--input", "\"again\"", "--json"]).json();
    assert_eq!(jumped["branch"], "b2");
    place.run(&["retry", "failed"]).ok();
    let branches = place.run(&["branches", "done", "--json"]).json();
    assert_eq!(branches["items"][1]["why"], "jump to charge");
    assert_eq!(branches["items"][1]["active"], true);
    let diff = place.run(&["diff", "done", "b1", "b2"]).ok();
    assert!(diff.contains("- step.completed charge → 42"), "{diff}");
    assert_eq!(place.run(&["diff", "done", "b1", "b2", "--json"]).json()["left"], "b1");
    let old = place.run(&["history", "done", "--branch", "b1"]).ok();
    assert!(old.contains("run.completed") && !old.contains("branch.opened"), "{old}");
    assert!(place.run(&["show", "done", "--width", "90"]).ok().contains("┼"));
}

#[test]
fn show_names_the_missing_workflow_of_a_new_run() {
    let place = Place::new();
    let run = place.run(&["start", "etl", "-q"]).ok();
    assert!(run.starts_with("run-"), "{run}");
    let shown = place.run(&["show", run.trim()]).ok();
    assert!(shown.contains("a worker with etl; no live node has the workflow"), "{shown}");
    let ran = place.run(&["start", "etl", "--id", "e", "--wait", "--wait-timeout", "100ms"]);
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.err.contains("help: goldseam watch e"), "{}", ran.err);
}

#[test]
fn start_takes_times_and_a_lane() {
    let place = Place::new();
    let timed = ["start", "etl", "--id", "t", "--timeout", "1h", "--delay", "5m", "--lane", "tenant-7"];
    place.run(&timed).ok();
    place.run(&timed).ok();
    let shown = place.run(&["show", "t", "--json"]).json();
    assert_eq!(shown["lane"], "tenant-7");
    let ms = |name: &str| shown[name].as_i64().unwrap();
    assert_eq!((ms("deadline") - ms("start_at"), ms("start_at") > ms("created_at")), (3_600_000, true));
    let text = place.run(&["show", "t"]).ok();
    assert!(text.contains("lane\ttenant-7\n") && text.contains("begins\t2"), "{text}");
    assert!(text.contains("deadline\t2") && text.contains("(in 1h0"), "{text}");
    assert!(place.run(&["ls"]).ok().contains("begins in 4m"), "{}", place.run(&["ls"]).ok());
    let why = place.run(&["why", "t"]).ok();
    assert!(why.contains("its start is delayed") && why.contains("it times out at its deadline"), "{why}");
    let at = ["start", "etl", "--id", "a", "--start-at", "2020-01-01", "--deadline", "2999-01-01T00:00:00Z"];
    place.run(&at).ok();
    let shown = place.run(&["show", "a", "--json"]).json();
    assert_eq!((&shown["start_at"], shown["deadline"].as_i64()), (&Value::Null, Some(32_472_144_000_000)));
}

#[test]
fn start_refuses_senseless_times_and_lanes() {
    let place = Place::new();
    for (args, said) in [
        (["--timeout", "0s"], "GS0160"),
        (["--deadline", "2020-01-01T00:00:00Z"], "GS0160"),
        (["--lane", "no lane"], "GS0101"),
        (["--deadline", "tomorrow"], "write 2026-11-18T09:30:00Z"),
    ] {
        let ran = place.run(&["start", "etl", "--id", "x", args[0], args[1]]);
        assert!(ran.code != 0 && ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    let twice = ["start", "etl", "--timeout", "1h", "--deadline", "2999-01-01"];
    assert_eq!(place.run(&twice).code, 2);
    assert!(place.run(&["show", "x"]).code != 0, "nothing was started");
}

#[test]
fn input_can_come_from_a_file_or_stdin() {
    let place = Place::new();
    std::fs::write(place.path("order.json"), "{\"a\": 1}\n").unwrap();
    place.run(&["start", "etl", "--id", "f", "--input", "@order.json", "--priority", "-3"]).ok();
    assert_eq!(place.run(&["show", "f", "--json"]).json()["input"]["a"], 1);
    let mut child = place.command(&["start", "etl", "--id", "s", "--input", "-"]);
    let mut child = Guarded(child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
    std::io::Write::write_all(&mut child.0.stdin.take().unwrap(), b"[7]").unwrap();
    assert!(child.0.wait().unwrap().success());
    assert_eq!(place.run(&["show", "s", "--json"]).json()["input"][0], 7);
}

#[test]
fn store_from_the_environment_and_exit_code_of_ctrl_c() {
    let place = prepared();
    let mut command = place.command(&["ls", "-q", "--status", "failed"]);
    command.env("GOLDSEAM_STORE", place.url()).current_dir("/");
    assert_eq!(Ran::of(&command.output().unwrap()).ok(), "failed\n");
    let mut child = place.command(&["watch", "asks", "--jsonl"]);
    let mut child = Guarded(child.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.0.stdout.take().unwrap()));
    lines.next().unwrap().unwrap();
    let pid = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_not_an_error() {
    let place = prepared();
    let mut child = place.command(&["history", "done"]);
    let mut child = Guarded(child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    drop(child.0.stdout.take());
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn store_check_and_migrate() {
    let place = prepared();
    let report = place.run(&["store", "check", "--json"]).json();
    assert_eq!((&report["sound"], &report["runs"]), (&Value::Bool(true), &Value::from(4)));
    assert!(place.run(&["store", "check", "sqlite:goldseam.db"]).ok().contains("verdict\t✔ sound"));
    let made = place.run(&["store", "migrate", "sqlite:new.db", "--json"]).json();
    assert_eq!(made["from"], 0);
    assert!(place.run(&["store", "migrate", "sqlite:new.db"]).ok().contains("already"));
}

#[test]
fn start_passes_the_trace_of_the_caller_to_the_run() {
    let place = prepared();
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let trace = |run: &str| {
        let history = place.run(&["history", run, "--json"]).json();
        history["items"][0]["data"]["trace"].clone()
    };
    let start = |run: &str, more: &[&str], env: &[(&str, &str)]| {
        let args = [&["start", "order", "--id", run, "--input", "\"ship\""], more].concat();
        Ran::of(&place.command(&args).envs(env.iter().copied()).output().unwrap())
    };
    start("given", &["--traceparent", good], &[("TRACEPARENT", "nonsense"), ("TRACESTATE", "a=1")]).ok();
    assert_eq!(trace("given"), serde_json::json!({ "traceparent": good }));
    start("env", &[], &[("TRACEPARENT", good), ("TRACESTATE", "a=1")]).ok();
    assert_eq!(trace("env"), serde_json::json!({ "traceparent": good, "tracestate": "a=1" }));
    start("bad-env", &[], &[("TRACEPARENT", "00-zz")]).ok();
    assert_eq!(trace("bad-env"), Value::Null);
    let refused = start("bad", &["--traceparent", &good.to_uppercase()], &[]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("GS0153") && refused.err.contains("not a traceparent"), "{}", refused.err);
    assert_eq!(place.run(&["show", "bad"]).code, 3);
}
