//! Healing finds stale claims by an index, without reading all claimed tasks.

use goldseam_core::Millis;
use goldseam_store::TaskFilter;
use rusqlite::{Connection, params_from_iter};

use super::open;
use crate::tasks;

/// SQLite's plan of a list.
fn plan(conn: &Connection, filter: &TaskFilter) -> String {
    let (sql, values) = tasks::query(filter).unwrap();
    let mut statement = conn.prepare(&["EXPLAIN QUERY PLAN ", &sql].concat()).unwrap();
    let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
    steps.collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[test]
fn finds_stale_claims_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gold.db");
    drop(open(&path));
    let conn = Connection::open(&path).unwrap();
    let users = || TaskFilter { advance: Some(false), limit: 50, ..TaskFilter::default() };
    let alive = || Some(vec!["n-1".to_owned()]);
    let cases = [
        (
            TaskFilter { silent_at: Some(Millis(1)), ..users() },
            "SEARCH tasks USING INDEX tasks_silent (<expr><?)",
        ),
        (
            TaskFilter { quiet_since: Some(Millis(1)), owner_none_of: alive(), ..users() },
            "SEARCH tasks USING INDEX tasks_quiet (<expr><?)",
        ),
        (
            TaskFilter { owner_prefix: Some("n-".to_owned()), owner_none_of: alive(), ..users() },
            "SEARCH tasks USING INDEX tasks_claimed (owner>? AND owner<?)",
        ),
    ];
    for (filter, expected) in cases {
        let plan = plan(&conn, &filter);
        assert!(plan.contains(expected), "{plan}");
    }
}
