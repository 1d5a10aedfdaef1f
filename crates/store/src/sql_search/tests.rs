//! Tests of plans, and of searches in lists that are in memory.

use std::sync::Arc;

use goldseam_core::Millis;

use goldseam_core::Status;

use super::page::{Found, page};
use super::*;
use crate::types::{Page, Row};

const DIALECT: Dialect = Dialect {
    tags: "tags",
    attributes: "attributes",
    attribute_name: "c.name",
    exists_end: ")",
    position: "instr",
};

fn filter(text: &str) -> RunFilter {
    let condition = Some(Arc::new(Condition::parse(text, Millis(0)).unwrap()));
    RunFilter { condition, limit: 2, ..RunFilter::default() }
}

/// Returns the SQL of the check, with `?` for values; empty without a check.
fn check(text: &str) -> String {
    let parts = plan(&filter(text), DIALECT).check.unwrap_or_default();
    parts.iter().map(|part| if let SqlPart::Sql(sql) = part { sql } else { "?" }).collect()
}

#[test]
fn sql_narrows_and_never_negates_what_it_only_approximates() {
    assert_eq!(check("cause = x"), "((r.cause = ?))");
    assert_eq!(check("not cause = x"), "(((r.cause = ?) IS NOT TRUE))");
    assert_eq!(check("ended > now"), "((r.status IN ('completed', 'failed', 'cancelled')))");
    for unknown in
        ["not ended > now", "version = 2", "not n = 5", "cause = x or version = 2", "id = \"\\u{0}\""]
    {
        assert_eq!(check(unknown), "", "{unknown}");
    }
    assert_eq!(check("not (cause = x or version = 2)"), "((((r.cause = ?) IS NOT TRUE)))");
    assert_eq!(check("version = 2 and root"), "((r.parent IS NULL))");
}

fn status(status: Status) -> SearchIndex {
    SearchIndex::Status(status)
}

fn cause(cause: &str) -> SearchIndex {
    SearchIndex::Cause(cause.to_owned())
}

#[test]
fn a_group_has_every_run_that_its_condition_selects() {
    let groups = |text: &str| plan(&filter(text), DIALECT).groups;
    let none: [Vec<SearchIndex>; 0] = [];
    assert_eq!(groups("cause = x or cause = y"), [vec![cause("x"), cause("y")]]);
    assert_eq!(groups("cause = x or (cause = y and version = 2)"), [vec![cause("x"), cause("y")]]);
    assert_eq!(groups("not (cause != x and cause != y)"), [vec![cause("x"), cause("y")]]);
    assert_eq!(groups("cause = x or version = 2"), none);
    assert_eq!(groups("not cause = x"), none);
    assert_eq!(groups("status in (completed, failed)"), none);
    assert_eq!(groups("status != failed"), none);
    assert_eq!(groups("status in (failed, failed)"), [vec![status(Status::Failed)]]);
    let others = "status not in (completed, failed, parked, running, queued, sleeping, compensating)";
    let expected = [Status::Waiting, Status::Paused, Status::Cancelled].map(status).to_vec();
    assert_eq!(groups(others), [expected]);
    assert_eq!(groups("workflow = w and cause = x").len(), 2);
    let name = "n".to_owned();
    let kind = "n";
    let range = SearchIndex::Range { name: name.clone(), kind, low: 5.0, high: 9.0 };
    assert_eq!(groups("n > 5 and n <= 9"), [vec![range]]);
    let texts = |low: &str, end: &str| SearchIndex::Texts {
        name: name.clone(),
        low: low.to_owned(),
        end: Some(end.to_owned()),
    };
    assert_eq!(groups("n starts_with \"ab\""), [vec![texts("ab", "ac")]]);
    assert_eq!(groups("n starts_with \"a\\u{10FFFF}\""), [vec![texts("a\u{10FFFF}", "b")]]);
    let bounds = plan(&filter("created > 1970-01-02 and created <= 1970-01-03"), DIALECT).created;
    assert_eq!(bounds, CreatedBounds { low: Some(86_400_000), high: Some(172_800_000) });
}

#[test]
fn a_run_is_excluded_only_by_a_list_that_is_exact() {
    let without = |text: &str| plan(&filter(text), DIALECT).without;
    assert_eq!(without("cause != x and not cause = y"), [cause("x"), cause("y")]);
    assert_eq!(without("not (cause = x or cause = y)"), [cause("x"), cause("y")]);
    assert_eq!(without("status not in (failed, parked)"), [status(Status::Failed), status(Status::Parked)]);
    assert_eq!(without("n != 5"), []);
    assert_eq!(without("n != \"a\"").len(), 1);
    assert_eq!(without("not (cause = x and cause = y)"), []);
    assert_eq!(without("cause = x"), []);
}

#[test]
fn a_page_ends_where_the_search_stopped() {
    let filter = filter("status in (failed, parked)");
    let place = |at: i64| place(&filter, Some(at), &format!("r{at}")).unwrap();
    let found = |at: &[i64]| at.iter().map(|at| (place(*at), Err("x".to_owned()))).collect();
    let names = |page: &Page<Row>| page.unreadable.iter().map(|item| item.key.clone()).collect::<Vec<_>>();
    let stopped = page(&filter, Found { rows: found(&[9]), stopped: Some(place(5)) });
    assert_eq!((names(&stopped), stopped.next), (vec!["r9".to_owned()], Some("5:r5".to_owned())));
    let full = page(&filter, Found { rows: found(&[3, 7, 9]), stopped: Some(place(3)) });
    assert_eq!((names(&full).len(), full.next), (2, Some("7:r7".to_owned())));
    let last = page(&filter, Found { rows: found(&[9]), stopped: None });
    assert_eq!((names(&last).len(), last.next), (1, None));
}
