//! Commands that crash at a crash point.

use goldseam::Status;
use goldseam::prelude::*;
use serde_json::Value;

use super::points;
use super::story::{RUN, each, each_database};
use crate::faulty::{NAMES, add_faulty_runs, faulty_store};
use crate::support::{Place, eventually, order, prepare, reaches};

#[test]
fn c01_a_start_is_atomic_and_repeatable() {
    each(points("C1"), |story, point| {
        let input = story.order(5);
        let start = ["start", "order", "--id", RUN, "--input", &input];
        story.command_dies(&start, point);
        assert_eq!(story.history(RUN).len(), usize::from(point.ends_with("after")), "{point}");
        story.place.run(&start).ok();
        assert_eq!(story.count(RUN, "run.queued"), 1, "{point}");
        let other = story.order(6);
        assert_eq!(story.place.run(&["start", "order", "--id", RUN, "--input", &other]).code, 6, "{point}");
        story.goes_on_after(&story.moment());
    });
}

#[test]
fn c09_an_answer_is_recorded_once() {
    each(points("C9 answered"), |story, point| {
        story.stays_silent();
        story.begin();
        let worker = story.worker();
        eventually("the run asks", || (story.count(RUN, "input.requested") == 1).then_some(()));
        drop(worker);
        let answer = ["answer", RUN, "release", "ship", "--id", "a-1"];
        story.command_dies(&answer, point);
        assert_eq!(story.count(RUN, "input.answered"), usize::from(point.ends_with("after")), "{point}");
        story.place.run(&answer).ok();
        story.goes_on_after(&story.moment());
        assert_eq!(
            (story.count(RUN, "input.requested"), story.count(RUN, "input.answered")),
            (1, 1),
            "{point}"
        );
    });
}

#[test]
fn c10_a_branch_and_its_cause_are_one_append() {
    each(points("C10"), |story, point| {
        story.stays_silent();
        story.begin();
        let worker = story.worker();
        eventually("the run asks", || (story.count(RUN, "input.requested") == 1).then_some(()));
        drop(worker);
        let jump = ["jump", RUN, "charge", "--reason", "again"];
        story.command_dies(&jump, point);
        let opened = usize::from(point.ends_with("after"));
        let history = story.history(RUN);
        let write = |name: &str| {
            history.iter().find(|recorded| recorded.event.name() == name).map(|found| found.write)
        };
        assert_eq!(write("branch.opened").is_some(), opened == 1, "{point}");
        assert_eq!(write("jump.requested"), write("branch.opened"), "{point}: one append");
        let branches = story.place.run(&["branches", RUN, "--json"]).json();
        assert_eq!(branches["items"].as_array().unwrap().len(), 1 + opened, "{point}: {branches}");
        let worker = story.worker();
        eventually("the run ends", || {
            story.place.run(&["answer", RUN, "release", "ship"]);
            (story.count(RUN, "run.completed") == 1).then_some(())
        });
        drop(worker);
    });
}

#[test]
fn c11_a_repeated_signal_is_recorded_once() {
    each(points("C11"), |story, point| {
        prepare(&story.place);
        let signal = ["signal", "waits", "paid", "--id", "s-1"];
        story.command_dies(&signal, point);
        story.place.run(&signal).ok();
        story.block(async {
            let engine = Engine::open(&story.place.url()).await.unwrap().workflow("order", order);
            let engine = engine.start().await.unwrap();
            reaches(engine.client(), "waits", Status::Completed).await;
            engine.shutdown().await;
        });
        assert_eq!(story.count("waits", "signal.received"), 1, "{point}");
    });
}

/// The name, status and number of recoveries of every run.
fn listed(place: &Place) -> Vec<(String, String, u64)> {
    let list = place.run(&["ls", "--json"]).json();
    let row = |run: &Value| {
        let text = |name: &str| run[name].as_str().unwrap_or_default().to_owned();
        (text("run"), text("status"), run["recoveries"].as_u64().unwrap_or_default())
    };
    let mut rows: Vec<_> = list["items"].as_array().unwrap().iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn c15_the_next_sweep_finishes_and_heals_nothing_twice() {
    let sweep = ["sweeper", "--once", "--stale-after", "0"];
    let undisturbed = faulty_store();
    undisturbed.run(&sweep).ok();
    let expected = listed(&undisturbed);
    each(points("C15"), |story, point| {
        add_faulty_runs(&story.place, NAMES);
        story.command_dies(&sweep, point);
        story.place.run(&sweep).ok();
        assert_eq!(listed(&story.place), expected, "{point}");
    });
}

#[test]
fn c17_a_migration_is_atomic() {
    each_database(points("C17"), |story, point| {
        let there = story.fresh_store();
        story.command_dies(&["store", "migrate", &there], point);
        if let Some(path) = there.strip_prefix("sqlite:") {
            let file = rusqlite::Connection::open(story.place.path(path)).unwrap();
            let schema: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
            let tables: i64 =
                file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
            assert_eq!(schema > 0, point.starts_with("migrations-committed"), "{point}");
            assert_eq!(schema > 0, tables > 0, "{point}");
        }
        story.place.run(&["store", "migrate", &there]).ok();
        let report = story.place.run(&["store", "check", &there, "--json"]).json();
        assert!(report["schema"].as_i64() > Some(0), "{point}: {report}");
        story.place.run(&["--store", &there, "start", "order", "--id", "x"]).ok();
    });
}

#[test]
fn c19_a_killed_copy_loses_nothing_and_can_be_finished() {
    each(points("C19"), |story, point| {
        prepare(&story.place);
        let here = story.place.url();
        let there = story.fresh_store();
        let listed = |store: &str| story.place.run(&["ls", "--json", "--store", store]).ok();
        let before = listed(&here);
        let copy = ["store", "move", &here, &there, "--yes"];
        story.command_dies(&copy, point);
        assert_eq!(listed(&here), before, "{point}: the source is unchanged");
        story.place.run(&copy).ok();
        assert_eq!(listed(&there), before, "{point}");
    });
}
