//! Invalid input: an error with a code, a hint and a page, and nothing is written.

use crate::support::{Place, Ran, prepared};

#[test]
fn invalid_arguments_are_usage_errors() {
    let place = prepared();
    for id in ["", "-x", "a b", "../etc", "a..b", "ä", &"x".repeat(129)] {
        place.run(&["show", "--", id]).fails(2, "GS0101");
    }
    place.run(&["start", "a b"]).fails(2, "GS0101");
    place.run(&["start", "order", "--id", "a/b"]).fails(2, "GS0101");
    place.run(&["signal", "waits", "a b"]).fails(2, "GS0101");
    place.run(&["start", "order", "--input", "{"]).fails(2, "GS0102");
    let ran = place.run(&["ls", "--since", "soon"]);
    assert_eq!((ran.code, ran.err.contains("write 250ms, 90s")), (2, true), "{}", ran.err);
    let ran = place.run(&["ls", "--status", "wating"]);
    assert_eq!((ran.code, ran.err.contains("waiting")), (2, true), "{}", ran.err);
    let ran = place.run(&["shwo", "x"]);
    assert_eq!((ran.code, ran.err.contains("'show'")), (2, true), "{}", ran.err);
    let ran = place.run(&["start", "order", "--input", "@nowhere.json"]);
    assert_eq!((ran.code, ran.err.contains("cannot read nowhere.json")), (2, true), "{}", ran.err);
}

#[test]
fn oversized_payloads_are_refused_before_anything_is_written() {
    let place = Place::new();
    let large = format!("\"{}\"", "x".repeat(256 * 1024));
    std::fs::write(place.path("large.json"), &large).unwrap();
    let err = place.run(&["start", "order", "--input", "@large.json"]).fails(2, "GS0102");
    assert!(err.contains("more than the limit of 262144"), "{err}");
    let allowed = |bytes: &str| {
        let mut command = place.command(&["start", "order", "--input", "@large.json"]);
        Ran::of(&command.env("GOLDSEAM_PAYLOAD_BYTES_MAX", bytes).output().unwrap())
    };
    for wrong in ["9999999", "-1", "lots"] {
        let ran = allowed(wrong);
        assert_eq!((ran.code, ran.err.contains("GOLDSEAM_PAYLOAD_BYTES_MAX: ")), (2, true), "{}", ran.err);
    }
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let err = place.run(&["start", "order", "--input", &deep]).fails(2, "GS0102");
    assert!(err.contains("deeper than 64 levels"), "{err}");
    let fits = format!("{}{}", "[".repeat(64), "]".repeat(64));
    assert_eq!(place.files(), ["large.json"], "nothing was made");
    allowed("2097152").ok();
    place.run(&["start", "order", "--input", &fits]).ok();
}

#[test]
fn missing_things_are_not_found() {
    let place = prepared();
    let commands: [&[&str]; 7] = [
        &["show", "missing"],
        &["history", "missing"],
        &["watch", "missing"],
        &["signal", "missing", "paid"],
        &["answer", "missing", "review", "x"],
        &["cancel", "missing"],
        &["jump", "missing", "charge"],
    ];
    for command in commands {
        let err = place.run(command).fails(3, "GS0104");
        assert!(err.contains("help: goldseam ls"), "{err}");
    }
    let err = place.run(&["jump", "done", "nothing"]).fails(3, "GS0106");
    assert!(err.contains("goldseam show done"), "{err}");
    let err = place.run(&["answer", "asks", "other", "x"]).fails(3, "GS0107");
    assert!(err.contains("open questions: review"), "{err}");
    place.run(&["queue", "get", "nothing"]).fails(3, "GS0303");
    assert_eq!(place.run(&["lock", "get", "nothing"]).code, 3);
    assert_eq!(place.run(&["history", "done", "--branch", "b9"]).code, 3);
    assert_eq!(place.run(&["history", "done", "--branch", "nine"]).code, 2);
}

#[test]
fn changing_an_ended_run_is_a_conflict() {
    let place = prepared();
    place.run(&["signal", "done", "paid"]).fails(6, "GS0105");
    place.run(&["answer", "failed", "review", "x"]).fails(6, "GS0105");
    place.run(&["cancel", "done"]).fails(6, "GS0105");
    place.run(&["start", "order", "--id", "done", "--input", "\"other\""]).fails(6, "GS0108");
    assert_eq!(
        place
            .run(&["start", "order", "--id", "done", "--input", "\"ship\"", "--tag", "region=eu", "-q"])
            .ok(),
        "done\n"
    );
}

#[test]
fn an_answer_with_the_wrong_form_is_refused_with_the_reason() {
    let place = prepared();
    let err = place.run(&["answer", "asks", "review", r#"{"ok":"maybe"}"#]).fails(1, "GS0107");
    assert!(err.contains("/ok: "), "{err}");
    let err = place.run(&["answer", "asks", "review", "yes"]).fails(1, "GS0107");
    assert!(err.contains("object"), "{err}");
    place.run(&["answer", "asks", "review", r#"{"ok":true}"#]).ok();
}

#[test]
fn unusable_stores_are_errors() {
    let place = Place::new();
    place.run(&["--store", "nonsense", "ls"]).fails(2, "GS0206");
    place.run(&["--store", "redis://here", "start", "x"]).fails(2, "GS0206");
    place.run(&["--store", "sqlite:a?durabilty=process", "ls"]).fails(2, "GS0206");
    place.run(&["--store", "sqlite:no/such/folder.db", "start", "x"]).fails(7, "GS0205");
    std::fs::write(place.path("notes.txt"), "these are my notes, not a database\n").unwrap();
    let err = place.run(&["--store", "sqlite:notes.txt", "ls"]).fails(7, "GS0201");
    assert!(err.contains("not changed"), "{err}");
    place.run(&["--store", "sqlite:notes.txt", "start", "x"]).fails(7, "GS0201");
    assert_eq!(place.files(), ["notes.txt"]);
}

#[test]
fn reading_never_creates_a_store() {
    let place = Place::new();
    let commands: [&[&str]; 8] = [
        &["ls"],
        &["show", "x"],
        &["history", "x"],
        &["queue", "ls"],
        &["lock", "ls"],
        &["signal", "x", "y"],
        &["store", "check"],
        &["retry", "x"],
    ];
    for command in commands {
        let err = place.run(command).fails(7, "GS0205");
        assert!(err.contains("database goldseam.db does not exist"), "{err}");
    }
    assert!(place.files().is_empty());
}

#[test]
fn a_newer_schema_is_refused() {
    let place = prepared();
    let db = rusqlite::Connection::open(place.path("goldseam.db")).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    drop(db);
    for command in [&["ls"][..], &["start", "order"], &["store", "check"], &["store", "migrate"]] {
        let err = place.run(command).fails(7, "GS0202");
        assert!(err.contains("schema 99"), "{err}");
    }
}

#[test]
fn an_older_schema_is_refused_until_it_is_migrated() {
    let place = prepared();
    let db = rusqlite::Connection::open(place.path("goldseam.db")).unwrap();
    db.execute_batch(
        "DROP VIEW workflow_events; DROP VIEW job_runs; DROP VIEW workflow_runs; DROP VIEW workflow_run_steps; \
         DROP VIEW workflow_execution_history; \
         DROP TABLE run_attributes; DROP INDEX runs_workflow; DROP TRIGGER tasks_audit_update; \
         DROP TRIGGER locks_audit_insert; DROP TRIGGER locks_audit_update; DROP TABLE audit; \
         DROP TRIGGER runs_edited; DROP INDEX runs_resting; DROP INDEX runs_awake; DROP INDEX runs_rest_ends; \
         DROP INDEX tasks_resting; DROP INDEX tasks_unproven; ALTER TABLE runs DROP COLUMN needs; \
         ALTER TABLE runs DROP COLUMN rests_on; ALTER TABLE runs DROP COLUMN rests_until; \
         DROP INDEX runs_rowless; DROP INDEX runs_recovered; ALTER TABLE runs DROP COLUMN recovered_at; \
         DROP INDEX tasks_silent; DROP INDEX tasks_quiet; DROP INDEX locks_node; ALTER TABLE tasks DROP COLUMN step; \
         DELETE FROM goldseam_migrations WHERE number > 1; PRAGMA user_version = 1",
    )
    .unwrap();
    for command in [&["ls"][..], &["show", "x"], &["signal", "x", "y"], &["start", "order"]] {
        let err = place.run(command).fails(7, "GS0212");
        assert!(err.contains("goldseam store migrate sqlite:goldseam.db"), "{err}");
    }
    let schema: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(schema, 1);
    drop(db);
    assert_eq!(place.run(&["store", "check"]).code, 0);
    assert_eq!(place.run(&["store", "migrate"]).code, 0);
    assert_eq!(place.run(&["ls"]).code, 0);
}

#[test]
fn errors_are_json_with_the_json_option() {
    let place = prepared();
    let ran = place.run(&["show", "missing", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    assert_eq!(error["error"]["code"], "GS0104");
    assert_eq!(error["error"]["docs"], "goldseam explain GS0104");
    assert!(error["error"]["message"].as_str().unwrap().contains("missing"));
    // Programs get the next step as a value, as over HTTP.
    assert_eq!(error["error"]["next"][0]["verb"], "list", "{error}");
    let ran = place.run(&["show", "--json"]);
    let error: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
    assert_eq!((ran.code, error["error"]["exit"].as_u64()), (2, Some(2)));
}
