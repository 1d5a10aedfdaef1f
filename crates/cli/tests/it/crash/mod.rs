//! Every crash point of the catalogue: SIGKILL ends the real binary before and after each arrow, and another process
//! continues.
//!
//! `GOLDSEAM_CRASH_POINT` selects the point of a process (`goldseam_store::crash_points`). A point that is never reached fails
//! its test. With `GOLDSEAM_CRASH_STORES=all`, which `cargo xtask crash` sets, the tests also run on Postgres and on an
//! object store; but a bucket has no migrations (C17), and only a bucket has several writes per append (C18).

mod bucket;
mod commands;
mod story;
mod workers;

/// The points of each row: store calls with their content, before and after; named places in the code; and, in angle
/// brackets, actions of the test itself.
const TABLE: &[(&str, &[&str])] = &[
    ("C1", &["append:run.queued:before", "append:run.queued:after"]),
    ("C2", &["claim:before", "claim:after", "append:run.claimed:before", "append:run.claimed:after"]),
    ("C3", &["append:step.started:before", "append:step.started:after"]),
    ("C4", &["<SIGKILL while the step is executed>"]),
    ("C5", &["append:step.completed:before:1", "append:step.completed:before:3"]),
    (
        "C6",
        &["append:step.completed:after:1", "append:step.completed:after:2", "append:step.completed:after:3"],
    ),
    ("C7", &["append:step.retry_scheduled:after", "append:timer.set:before", "append:timer.set:after"]),
    ("C8", &["append:run.completed:before", "append:run.completed:after"]),
    ("C9", &["append:input.requested:before", "append:input.requested:after"]),
    ("C9 answered", &["append:input.answered:before", "append:input.answered:after"]),
    ("C9 resumed", &["append:wait.resolved:before", "append:wait.resolved:after"]),
    ("C10", &["append:branch.opened:before", "append:branch.opened:after"]),
    ("C11", &["append:signal.received:before", "append:signal.received:after"]),
    ("C12", &["append:timer.fired:before", "append:timer.fired:after"]),
    (
        "C13",
        &[
            "append:compensation.started:before:1",
            "append:compensation.started:after:1",
            "append:compensation.completed:before:1",
            "append:compensation.completed:after:1",
            "append:compensation.completed:before:2",
            "append:run.failed:before",
            "append:run.failed:after",
        ],
    ),
    ("C14", &["beat:up:before:3", "beat:up:after:3"]),
    ("C15", &["unproven:after:1", "append:run.recovered:before:1", "append:run.recovered:after:1"]),
    ("C16", &["append:run.recovered:before:2", "append:run.recovered:after:2"]),
    (
        "C17",
        &[
            "migration:before:1",
            "migration:before:2",
            "migration:before:3",
            "migrations-commit:before",
            "migrations-committed:before",
        ],
    ),
    ("C18", &["<every write of a start>", "<every write of a worker>"]),
    (
        "C19",
        &[
            "put_lock:before:1",
            "put_lock:after:1",
            "put_lock:after:2",
            "put_lock:before:3",
            "put_lock:after:3",
            "append:before:1",
            "append:after:1",
            "append:after:3",
            "put_lock:before:4",
            "put_lock:after:4",
        ],
    ),
    ("C20", &["append:run.released:before", "append:run.released:after", "forget:before", "forget:after"]),
];

/// The points of a row.
fn points(row: &str) -> &'static [&'static str] {
    TABLE.iter().find(|(name, _)| *name == row).unwrap().1
}

/// The source of the tests.
const TESTS: [&str; 3] = [include_str!("bucket.rs"), include_str!("commands.rs"), include_str!("workers.rs")];

#[test]
fn every_row_of_the_catalogue_has_points_and_a_test() {
    for number in 1..=20 {
        assert!(!points(&format!("C{number}")).is_empty());
        let test = format!("#[test]\nfn c{number:02}_");
        assert!(TESTS.iter().any(|tests| tests.contains(&test)), "C{number} has no test");
    }
    // Writes have no names; the tests of C18 count them.
    for (row, _) in TABLE.iter().filter(|(row, _)| *row != "C18") {
        let used = format!("(\"{row}\")");
        assert!(TESTS.iter().any(|tests| tests.contains(&used)), "no test uses the points of {row}");
    }
}
