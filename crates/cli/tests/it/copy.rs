//! Copying, closing and reopening a store.

use goldseam::prelude::*;
use goldseam::unstable::core::Limits;
use goldseam::{Payload, RunId};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::faulty::{faulty_store, plain};
use crate::support::{Guarded, Place, block, eventually, order, prepared};

const HERE: &str = "sqlite:goldseam.db";
const THERE: &str = "sqlite:there.db";

fn copy(place: &Place, more: &[&str]) -> crate::support::Ran {
    place.run(&[&["store", "move", HERE, THERE, "--yes"], more].concat())
}

#[test]
fn a_copy_prints_a_report_and_closes_the_source() {
    let place = prepared();
    let before = place.run(&["ls", "--json"]).json();
    assert_snapshot!("copied", plain(&copy(&place, &[]).ok()));
    let after = place.run(&["ls", "--json", "--store", THERE]).json();
    assert_eq!(before, after);
    let err = place.run(&["signal", "waits", "paid"]).fails(7, "GS0404");
    assert!(err.contains("this store was copied to sqlite:there.db"), "{err}");
    place.run(&["start", "order"]).fails(7, "GS0404");
    assert!(place.run(&["show", "waits"]).ok().contains("waits"), "it can still be read");
    assert!(place.run(&["store", "check"]).ok().contains("\ncopy\tmoved to sqlite:there.db\n"));
    assert_eq!(place.run(&["store", "check", THERE, "--json"]).json()["copy"]["role"], "filled-from");
    place.run(&["signal", "waits", "paid", "--store", THERE]).ok();
    copy(&place, &[]).fails(7, "GS0404");
}

#[test]
fn a_move_without_a_terminal_needs_yes() {
    let place = prepared();
    for verb in ["move", "copy"] {
        let err = place.run(&["store", verb, HERE, THERE]).fails(2, "GS0230");
        assert!(err.contains("sqlite:goldseam.db will be closed") && err.contains("--yes"), "{err}");
    }
    assert!(!place.path("there.db").exists());
    place.run(&["signal", "waits", "paid"]).ok();
    place.run(&["store", "copy", HERE, THERE, "--dry-run"]).ok();
    place.run(&["store", "copy", HERE, THERE, "--yes"]).ok();
    place.run(&["signal", "waits", "paid"]).fails(7, "GS0404");
}

#[test]
fn repeating_a_finished_copy_is_harmless() {
    let place = prepared();
    copy(&place, &[]).ok();
    let again = copy(&place, &["--json"]).json();
    assert_eq!((&again["verified"], &again["runs"]["there"]), (&json!(true), &json!(4)));
    assert_eq!(again["runs"]["copied"], 0);
    assert_eq!(copy(&place, &["-q"]).ok(), "");
}

#[test]
fn a_dry_run_reports_and_creates_nothing() {
    let place = prepared();
    assert_snapshot!("dry", plain(&copy(&place, &["--dry-run"]).ok()));
    let made: Vec<String> =
        place.files().into_iter().filter(|name| !name.starts_with("goldseam.db")).collect();
    assert_eq!(made, [""; 0]);
    let plan = copy(&place, &["--dry-run", "--json"]).json();
    assert_eq!(
        (&plan["dry_run"], &plan["digests"], &plan["refused"]),
        (&json!(true), &Value::Null, &Value::Null)
    );
    place.run(&["signal", "waits", "paid"]).ok();
}

#[test]
fn active_runs_continue_at_the_destination() {
    let place = faulty_store();
    copy(&place, &[]).ok();
    block(async {
        let there = format!("sqlite:{}", place.path("there.db").display());
        let here = Engine::open(&place.url()).await.unwrap().workflow("voyage", order).start().await;
        assert_eq!(here.err().map(|error| error.code()), Some("GS0404"));
        let open = |ctx: Context, _: String| async move {
            ctx.step("reserve", || async { Ok("stock".to_owned()) }).await?;
            ctx.step("charge", || async { Ok(42) }).await?;
            ctx.step("ship", || async { Ok(()) }).await
        };
        let engine = Engine::open(&there).await.unwrap().workflow("voyage", open).start().await.unwrap();
        engine.handle(RunId::new("orphan").unwrap()).result::<()>().await.unwrap();
        engine.shutdown().await;
    });
    let recoveries = place.run(&["recoveries", "--store", THERE, "--json"]).json();
    let of = |item: &Value| (item["run"] == "orphan").then(|| item["rule"].as_str().unwrap().to_owned());
    let rules: Vec<String> = recoveries["items"].as_array().unwrap().iter().filter_map(of).collect();
    assert_eq!(rules, ["O2"], "{recoveries}");
}

#[test]
fn a_store_in_use_is_refused() {
    let place = prepared();
    block(async {
        let engine =
            Engine::open(&place.url()).await.unwrap().workflow("order", order).start().await.unwrap();
        let err = copy(&place, &[]).fails(6, "GS0401");
        assert!(err.contains("sqlite:goldseam.db is in use by node n-"), "{err}");
        let plan = copy(&place, &["--dry-run"]);
        assert_eq!(plan.code, 1, "{}", plan.err);
        assert!(plan.out.contains("would be refused: sqlite:goldseam.db is in use by node"), "{}", plan.out);
        engine.shutdown().await;
    });
    copy(&place, &[]).ok();
}

#[test]
fn a_destination_with_runs_needs_merge() {
    let place = prepared();
    place.run(&["start", "order", "--id", "done", "--store", THERE]).ok();
    place.run(&["start", "order", "--id", "theirs", "--store", THERE]).ok();
    let err = copy(&place, &[]).fails(6, "GS0402");
    assert!(err.contains("sqlite:there.db is not empty") && err.contains("--merge"), "{err}");
    let merged = copy(&place, &["--merge"]);
    assert_eq!(merged.code, 1, "{}", merged.err);
    assert_snapshot!("merged", plain(&merged.out));
    let ids = place.run(&["ls", "-q", "--store", THERE]).ok();
    let mut ids: Vec<&str> = ids.lines().collect();
    ids.sort_unstable();
    assert_eq!(ids, ["asks", "done", "failed", "theirs", "waits"]);
}

#[test]
fn a_store_is_not_copied_onto_itself() {
    let place = prepared();
    let err =
        place.run(&["store", "move", HERE, "sqlite:./goldseam.db", "--merge", "--yes"]).fails(6, "GS0402");
    assert!(err.contains("is both source and destination"), "{err}");
    place.run(&["signal", "waits", "paid"]).ok();
}

#[test]
fn a_damaged_log_is_copied_unchanged_and_reported() {
    let place = prepared();
    let db = rusqlite::Connection::open(place.path("goldseam.db")).unwrap();
    let of = "rid = (SELECT rid FROM runs WHERE id = 'waits')";
    db.execute(&format!("UPDATE events SET body = '{{\"half' WHERE seq = 3 AND {of}"), []).unwrap();
    db.execute(&format!("DELETE FROM events WHERE seq = 5 AND {of}"), []).unwrap();
    drop(db);
    assert_snapshot!("damaged", plain(&copy(&place, &[]).ok()));
    let deep = place.run(&["doctor", "--deep", "--store", THERE]);
    assert!(deep.out.contains("K1"), "the damage was copied: {}", deep.out);
}

#[test]
fn reopening_a_copied_store_needs_confirmation() {
    let place = prepared();
    assert_eq!(place.run(&["store", "reopen", HERE]).ok(), "sqlite:goldseam.db is already open\n");
    copy(&place, &[]).ok();
    let ran = place.run(&["store", "reopen"]);
    assert_eq!((ran.code, ran.err.contains("two stores execute the same runs")), (2, true), "{}", ran.err);
    assert_eq!(
        place.run(&["store", "reopen", "--yes"]).ok(),
        "sqlite:goldseam.db is open again; it was moved to sqlite:there.db\n"
    );
    place.run(&["signal", "waits", "paid"]).ok();
    assert_eq!(place.run(&["store", "reopen", "--json"]).json()["reopened"], false);
}

#[test]
fn a_killed_copy_continues() {
    let place = Place::new();
    block(async {
        let client = goldseam::connect(&place.url()).await.unwrap();
        let input = Payload::parse("null", &Limits::default()).unwrap();
        for number in 0..1_500 {
            let run = RunId::new(format!("r{number}")).unwrap();
            client.start("order", &run, &input).await.unwrap();
        }
    });
    let there = format!("{THERE}?durability=process");
    let mut copying = Guarded(place.command(&["store", "move", HERE, &there, "--yes"]).spawn().unwrap());
    let some = || {
        // Does not create the file.
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE;
        let db = rusqlite::Connection::open_with_flags(place.path("there.db"), flags).ok()?;
        let count: i64 = db.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).ok()?;
        (count > 100).then_some(())
    };
    eventually("some events are copied", some);
    copying.0.kill().unwrap();
    copying.0.wait().unwrap();
    place.run(&["start", "order", "--store", THERE]).fails(7, "GS0404");
    let report = place.run(&["store", "move", HERE, &there, "--json", "--yes"]).json();
    assert_eq!((&report["verified"], &report["runs"]["verified"]), (&json!(true), &json!(1_500)), "{report}");
    place.run(&["start", "order", "--store", THERE]).ok();
}

#[test]
fn passwords_are_never_printed() {
    let place = prepared();
    for url in ["postgres://ada:s3cret@127.0.0.1:1/x", "postgres://127.0.0.1:1/x?password=s3cret&user=ada"] {
        for more in [&[][..], &["--dry-run"], &["--json"]] {
            let ran = place.run(&[&["store", "move", HERE, url, "--yes"], more].concat());
            assert_eq!(ran.code, 7, "{}", ran.err);
            assert!(!format!("{}{}", ran.out, ran.err).contains("s3cret"), "{}{}", ran.out, ran.err);
        }
    }
    place.run(&["signal", "waits", "paid"]).ok();
}
