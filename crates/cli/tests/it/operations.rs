//! Verbs on many runs.

use std::process::Stdio;

use goldseam::prelude::*;
use goldseam::unstable::core::operation::action_id;
use goldseam::unstable::core::summary::command_id;
use goldseam::{Client, RunId, Status};

use crate::serving::Server;
use crate::support::{Guarded, Place, block, eventually, prepared, reaches};

async fn fail(ctx: Context, _: ()) -> goldseam::Result<()> {
    ctx.step("charge", || async { Err(Error::terminal(format!("bank refused {}", ctx.run_id()))) }).await
}

/// Creates failed runs, without a running engine.
fn failed_runs(place: &Place, count: usize) -> Vec<RunId> {
    block(async {
        let engine = Engine::open(&place.url()).await.unwrap().workflow("pay", fail).start().await.unwrap();
        let mut runs = Vec::new();
        for number in 0..count {
            runs.push(engine.start(fail, format!("pay-{number:04}"), &()).await.unwrap().id().clone());
        }
        for run in &runs {
            reaches(engine.client(), run.as_str(), Status::Failed).await;
        }
        engine.shutdown().await;
        runs
    })
}

/// Number of actions of an operation in the logs of these runs.
async fn actions(client: &Client, runs: &[RunId], operation: &str) -> Vec<usize> {
    let id = action_id(&RunId::new(operation).unwrap());
    let mut counts = Vec::new();
    for run in runs {
        let history = client.history(run).await.unwrap();
        let is_action =
            |event: &goldseam::unstable::core::Recorded| command_id(&event.event).as_ref() == Some(&id);
        counts.push(history.iter().filter(|recorded| is_action(recorded)).count());
    }
    counts
}

#[test]
fn a_killed_operation_continues_and_acts_once_per_run() {
    let place = Place::new();
    let runs = failed_runs(&place, 500);
    let args = ["retry", "--where", "status = failed", "--rate", "400/s", "--reason", "fixed", "--yes"];
    let child = place.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Guarded(child);
    let operation = eventually("the operation begins", || {
        let listed = place.run(&["operation", "ls", "-q"]);
        (listed.code == 0 && !listed.out.is_empty()).then(|| listed.out.trim().to_owned())
    });
    let queued = |place: &Place| place.run(&["ls", "-q", "--status", "queued"]).out.lines().count();
    eventually("it has acted on some", || (queued(&place) >= 100).then_some(()));
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    let before = queued(&place);
    assert!(before < 500, "the kill came too late to test anything: {before}");
    let shown = place.run(&["operation", "resume", &operation]).ok();
    assert!(shown.contains("done: 500 of 500 runs handled, 500 acted on, 0 skipped, 0 refused"), "{shown}");
    let counts = block(async {
        let client = goldseam::connect_existing(&place.url()).await.unwrap();
        actions(&client, &runs, &operation).await
    });
    assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    // An operation that has ended stays ended.
    assert!(place.run(&["operation", "resume", &operation]).ok().contains("done: 500 of 500"));
}

#[test]
fn an_operation_goes_on_after_its_server_was_killed() {
    let place = Place::new();
    let runs = failed_runs(&place, 120);
    let server = Server::begin(&place, &["serve"]);
    let begin = ["retry", "--where", "status = failed", "--rate", "40/s", "--detach", "--yes", "--json"];
    let begun = place.run(&[&begin[..], &["--server", &server.url]].concat()).json();
    let operation = begun["id"].as_str().unwrap();
    let queued = || place.run(&["ls", "-q", "--status", "queued"]).out.lines().count();
    eventually("it has acted on some", || (queued() >= 10).then_some(()));
    server.kill();
    let before = queued();
    assert!(before < 120, "the kill came too late to test anything: {before}");
    let server = Server::begin(&place, &["serve"]);
    let ended = place.run(&["operation", "watch", operation, "--server", &server.url, "--json"]).json();
    let progress = &ended["progress"];
    assert_eq!((&progress["acted"], &progress["outcome"]), (&120.into(), &"done".into()), "{ended}");
    let counts = block(async {
        let client = goldseam::connect_existing(&place.url()).await.unwrap();
        actions(&client, &runs, operation).await
    });
    assert!(counts.iter().all(|count| *count == 1), "{counts:?}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_dry_run_shows_what_would_happen_and_changes_nothing() {
    let place = prepared();
    let before = place.run(&["ls", "--json"]).out;
    let shown = place.run(&["retry", "--where", "status in (failed, completed)", "--dry-run"]).ok();
    assert!(shown.contains("retry would be carried out on 1 of 2 runs that match"), "{shown}");
    assert!(shown.contains("skipped: 1 run: it is completed"), "{shown}");
    assert!(shown.contains("for example: failed"), "{shown}");
    let document = place.run(&["retry", "--where", "status = failed", "--dry-run", "--json"]).json();
    assert_eq!((&document["matched"], &document["would_act"]), (&1.into(), &1.into()));
    assert_eq!(document["groups"][0]["count"], 1);
    assert_eq!(place.run(&["retry", "--where", "status = parked", "--dry-run"]).code, 11);
    assert_eq!(place.run(&["ls", "--json"]).out, before);
    assert_eq!(place.run(&["operation", "ls", "-q"]).ok(), "");
}

#[test]
fn bad_requests_are_refused_with_a_code() {
    let place = prepared();
    for (args, code) in [
        (&["retry"][..], "GS0145"),
        (&["cancel", "--where", " ", "--yes"], "GS0145"),
        (&["retry", "failed", "--where", "status = failed"], "GS0146"),
        (&["pause", "--where", "status = waiting", "--rate", "0/s", "--yes"], "GS0147"),
        (&["pause", "--where", "status = waiting", "--rate", "fast", "--yes"], "GS0147"),
        (&["retry", "--where", "status = failed", "--canary", "0,all", "--yes"], "GS0148"),
        (&["retry", "--where", "status = failed", "--canary", "10,5,all", "--yes"], "GS0148"),
        (&["retry", "--where", "status = failed", "--canary", "1,10%", "--yes"], "GS0148"),
        (&["cancel", "--where", "status = waiting", "--canary", "1,all", "--yes"], "GS0148"),
        (&["retry", "--where", "status ==", "--yes"], "GS0139"),
        (&["retry", "--where", "status = failed"], "GS0150"),
    ] {
        place.run(args).fails(2, code);
    }
    place.run(&["operation", "show", "failed"]).fails(3, "GS0149");
    assert_eq!(place.run(&["operation", "ls", "-q"]).ok(), "", "nothing began");
    assert_eq!(place.run(&["start", "goldseam.operation", "--input", "null"]).code, 4);
}

#[test]
fn one_command_acts_on_many_runs_and_reports() {
    let place = prepared();
    let paused =
        place.run(&["pause", "--where", "status = waiting", "--reason", "stocktaking", "--yes"]).ok();
    assert!(paused.contains("done: 2 of 2 runs handled, 2 acted on, 0 skipped, 0 refused"), "{paused}");
    assert_eq!(place.run(&["ls", "-q", "--status", "paused", "--oldest"]).ok(), "asks\nwaits\n");
    let begun = place.run(&["cancel", "--where", "status = paused", "--detach", "--yes", "--json"]).json();
    let id = begun["id"].as_str().unwrap();
    let watched = place.run(&["operation", "watch", id, "--json"]).json();
    assert_eq!((&watched["progress"]["acted"], &watched["progress"]["outcome"]), (&2.into(), &"done".into()));
    let sent =
        place.run(&["signal", "paid", "--where", "id = waits", "--data", "1", "--yes", "--json"]).json();
    let total = sent["progress"]["acted"].as_u64().unwrap()
        + sent["progress"]["skipped"].as_object().map_or(0, |skipped| skipped.len() as u64);
    assert_eq!(total, 1, "{sent}");
    let listed = place.run(&["operation", "ls"]).ok();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert_eq!(place.run(&["ls", "-q"]).ok().lines().count(), 4, "operations are hidden");
    let history = place.run(&["history", "waits"]).ok();
    assert!(history.contains("stocktaking (operation op-"), "{history}");
}

#[test]
fn failures_lists_groups_with_the_next_command() {
    let place = prepared();
    failed_runs(&place, 3);
    let document = place.run(&["failures", "--json"]).json();
    assert_eq!((&document["total"], &document["groups"][0]["count"]), (&4.into(), &3.into()));
    let group = &document["groups"][0];
    let cause = group["cause"].as_str().unwrap();
    assert_eq!(group["step"], "charge");
    let command = format!("goldseam retry --where 'cause = \"{cause}\"' --canary 1,10%,all");
    assert_eq!(group["command"], command);
    let table = place.run(&["failures", "--since", "1h", "--where", "workflow = pay"]).ok();
    assert!(table.contains(&format!("{cause}\t3\t")) && table.contains("\tpay@1\t"), "{table}");
    assert_eq!(place.run(&["failures", "-q", "--where", "workflow = none"]).ok(), "");
    let condition = format!("cause = \"{cause}\"");
    let canary =
        ["retry", "--where", condition.as_str(), "--canary", "1,all", "--canary-timeout", "1s", "--yes"];
    // No engine has the workflow, so the first run never passes.
    let stopped = place.run(&canary);
    assert_eq!(stopped.code, 8, "{}{}", stopped.out, stopped.err);
    assert!(stopped.out.contains("stopped by a timeout: 1 of 3 runs handled"), "{}", stopped.out);
}
