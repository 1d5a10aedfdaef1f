//! Lists of runs, by their cached rows.

use goldseam_core::event::Tags;
use goldseam_core::summary::Trouble;
use goldseam_core::{NodeId, Status, Summary, TagKey, WorkflowName};
use goldseam_store::api::{Append, Expect, Row, RunFilter, RunOrder};
use goldseam_store::error::StoreError;

use super::Fixture;
use super::make::{ALL, append, append_with_row, at, run, summary};

async fn add(fixture: &Fixture, row: Summary) {
    let name = row.run.as_str().to_owned();
    fixture.append(Append { row: Some(Box::new(row)), ..append(&name, 0, &["a"]) }).await;
}

fn oldest() -> RunFilter {
    RunFilter { order: RunOrder::Oldest, limit: ALL, ..RunFilter::default() }
}

async fn initials(fixture: &Fixture, filter: &RunFilter) -> String {
    let page = fixture.store.runs(filter.clone()).await.unwrap();
    page.items.iter().map(|row| &row.summary.run.as_str()[..1]).collect()
}

fn tag(key: &str, value: &str) -> (TagKey, String) {
    (TagKey::new(key).unwrap(), value.to_owned())
}

async fn mixed_runs(fixture: &Fixture) {
    let trouble =
        |cause: &str| Some(Trouble { cause: cause.into(), message: "m".into(), code: None, step: None });
    let queued = |name, millis| Summary { created_at: at(millis), ..summary(name, 1) };
    add(fixture, queued("a", 1)).await;
    add(fixture, Summary { status: Status::Running, owner: NodeId::new("n1").ok(), ..queued("b", 2) }).await;
    add(fixture, Summary { status: Status::Failed, trouble: trouble("timeout"), ..queued("c", 3) }).await;
    add(fixture, Summary { status: Status::Parked, trouble: trouble("panic"), ..queued("d", 4) }).await;
    add(fixture, Summary { workflow: WorkflowName::new("refund").unwrap(), ..queued("e", 5) }).await;
    let tags = Tags::from([tag("who", "ada"), tag("what", "x")]);
    add(fixture, Summary { tags, parent: Some(run("a")), ..queued("f", 6) }).await;
    add(fixture, Summary { tags: Tags::from([tag("who", "x")]), ..queued("g", 7) }).await;
}

/// Each field of the filter selects alone.
pub async fn each_run_filter_selects(fixture: &Fixture) {
    mixed_runs(fixture).await;
    let cases = [
        (oldest(), "abcdefg"),
        (RunFilter { statuses: vec![Status::Running], ..oldest() }, "b"),
        (RunFilter { statuses: vec![Status::Failed, Status::Parked, Status::Sleeping], ..oldest() }, "cd"),
        (RunFilter { workflow: WorkflowName::new("refund").ok(), ..oldest() }, "e"),
        (RunFilter { tag: Some(tag("who", "ada")), ..oldest() }, "f"),
        (RunFilter { tag: Some(tag("who", "x")), ..oldest() }, "g"),
        (RunFilter { tag: Some(tag("whom", "ada")), ..oldest() }, ""),
        (RunFilter { tag: Some(tag("who", "a")), ..oldest() }, ""),
        (RunFilter { since: Some(at(5)), ..oldest() }, "efg"),
        (RunFilter { cause: Some("panic".into()), ..oldest() }, "d"),
        (RunFilter { owner: NodeId::new("n1").ok(), ..oldest() }, "b"),
        (RunFilter { owner: NodeId::new("n2").ok(), ..oldest() }, ""),
        (RunFilter { parent: Some(run("a")), ..oldest() }, "f"),
        (RunFilter { limit: 3, ..oldest() }, "abc"),
        (RunFilter { order: RunOrder::Newest, limit: 3, ..oldest() }, "gfe"),
    ];
    for (filter, expected) in cases {
        assert_eq!(initials(fixture, &filter).await, expected, "{filter:?}");
    }
    let done = Summary { status: Status::Completed, as_of: goldseam_core::Seq(2), ..summary("b", 2) };
    fixture.append(Append { row: Some(Box::new(done)), ..append("b", 1, &["b"]) }).await;
    let running = RunFilter { statuses: vec![Status::Running], ..oldest() };
    assert_eq!(initials(fixture, &running).await, "", "the list follows the row");
}

/// Several fields select what all of them select.
pub async fn run_filters_combine(fixture: &Fixture) {
    mixed_runs(fixture).await;
    let cases = [
        (RunFilter { statuses: vec![Status::Queued], since: Some(at(6)), ..oldest() }, "fg"),
        (RunFilter { tag: Some(tag("what", "x")), parent: Some(run("a")), ..oldest() }, "f"),
        (RunFilter { cause: Some("panic".into()), statuses: vec![Status::Failed], ..oldest() }, ""),
    ];
    for (filter, expected) in cases {
        assert_eq!(initials(fixture, &filter).await, expected, "{filter:?}");
    }
}

async fn all_pages(fixture: &Fixture, filter: &RunFilter) -> Vec<String> {
    let mut found = vec![];
    let mut filter = filter.clone();
    loop {
        let page = fixture.store.runs(filter.clone()).await.unwrap();
        assert!(page.items.len() <= filter.limit as usize);
        found.extend(page.items.iter().map(|row| row.summary.run.as_str().to_owned()));
        assert!(found.len() < 10_000, "the list does not end");
        if page.next.is_none() {
            return found;
        }
        filter.after = page.next;
    }
}

/// Pages of any size, in both orders, filtered or not, give every run once.
pub async fn both_orders_are_complete_without_duplicates(fixture: &Fixture) {
    let mut expected = vec![];
    for n in 0..24 {
        // Queued in another order than their names, two at each time.
        let name = format!("r{n:02}");
        let moment = (n * 7 % 24) / 2;
        let status = if n % 3 == 0 { Status::Running } else { Status::Queued };
        add(fixture, Summary { status, created_at: at(moment), ..summary(&name, 1) }).await;
        expected.push((moment, name, status));
    }
    expected.sort_by_key(|(moment, name, _)| (*moment, name.clone()));
    for (order, statuses) in [
        (RunOrder::Oldest, vec![]),
        (RunOrder::Newest, vec![]),
        (RunOrder::Oldest, vec![Status::Running]),
        (RunOrder::Newest, vec![Status::Queued]),
    ] {
        let listed = expected.iter().filter(|run| statuses.is_empty() || statuses.contains(&run.2));
        let mut moments: Vec<i64> = listed.map(|run| run.0).collect();
        if order == RunOrder::Newest {
            moments.reverse();
        }
        for limit in [1, 2, 5, 24, 100] {
            let filter = RunFilter { order, statuses: statuses.clone(), limit, ..RunFilter::default() };
            let found = all_pages(fixture, &filter).await;
            let moment = |name: &String| expected.iter().find(|run| run.1 == *name).unwrap().0;
            assert_eq!(found.iter().map(moment).collect::<Vec<_>>(), moments, "pages of {limit}");
            let once: std::collections::BTreeSet<&String> = found.iter().collect();
            assert_eq!(once.len(), found.len(), "a run is listed twice");
        }
    }
}

/// Runs that were queued in the same millisecond are not lost between pages.
pub async fn runs_of_the_same_moment_are_all_listed(fixture: &Fixture) {
    for n in 0..9 {
        fixture.append(append_with_row(&format!("r{n}"), 0)).await;
    }
    for order in [RunOrder::Oldest, RunOrder::Newest] {
        let mut found = all_pages(fixture, &RunFilter { order, limit: 2, ..RunFilter::default() }).await;
        if order == RunOrder::Newest {
            found.reverse();
        }
        assert_eq!(found, (0..9).map(|n| format!("r{n}")).collect::<Vec<_>>(), "in order of their names");
    }
}

fn recovered() -> RunFilter {
    RunFilter { order: RunOrder::Recovered, ..oldest() }
}

/// Runs come in order of their last recovery, latest first, and only recovered ones.
pub async fn recovered_runs_come_latest_first(fixture: &Fixture) {
    mixed_runs(fixture).await;
    assert_eq!(initials(fixture, &recovered()).await, "");
    let recovered_at = |name, millis| Summary {
        recoveries: 1,
        recovered_at: Some(at(millis)),
        created_at: at(1),
        ..summary(name, 2)
    };
    for (name, millis) in [("b", 30), ("d", 10), ("e", 20)] {
        let row = Some(Box::new(recovered_at(name, millis)));
        fixture.append(Append { row, ..append(name, 1, &["b"]) }).await;
    }
    assert_eq!(initials(fixture, &recovered()).await, "bed");
    let row = Some(Box::new(Summary { as_of: goldseam_core::Seq(3), ..recovered_at("d", 40) }));
    fixture.append(Append { row, ..append("d", 2, &["c"]) }).await;
    assert_eq!(
        initials(fixture, &recovered()).await,
        "dbe",
        "a run that is recovered again moves to the front"
    );
    let row = fixture.row("b").await;
    let never = Row { summary: Summary { recovered_at: None, ..row.summary.clone() }, ..row.clone() };
    fixture.store.put_row(never, Expect::Version(row.version())).await.unwrap();
    assert_eq!(initials(fixture, &recovered()).await, "de", "the list follows the row");
}

/// Recovered runs are selected by the same fields as others.
pub async fn recovered_runs_are_filtered_too(fixture: &Fixture) {
    let trouble = Some(Trouble { cause: "panic".into(), message: "m".into(), code: None, step: None });
    let old = |name, moment: i64| Summary {
        created_at: at(moment),
        recovered_at: Some(at(100 - moment)),
        ..summary(name, 1)
    };
    add(fixture, Summary { owner: NodeId::new("n1").ok(), status: Status::Running, ..old("a", 1) }).await;
    add(fixture, Summary { tags: Tags::from([tag("who", "ada")]), ..old("b", 2) }).await;
    add(fixture, Summary { trouble, status: Status::Failed, ..old("c", 3) }).await;
    add(fixture, Summary { parent: Some(run("a")), status: Status::Completed, ..old("d", 4) }).await;
    add(fixture, Summary { workflow: WorkflowName::new("refund").unwrap(), ..old("e", 5) }).await;
    add(fixture, Summary { tags: Tags::from([tag("who", "ada")]), ..old("f", 6) }).await;
    add(fixture, Summary { recovered_at: None, owner: NodeId::new("n1").ok(), ..old("g", 7) }).await;
    let cases = [
        (recovered(), "abcdef"),
        (RunFilter { owner: NodeId::new("n1").ok(), ..recovered() }, "a"),
        (RunFilter { tag: Some(tag("who", "ada")), ..recovered() }, "bf"),
        (RunFilter { tag: Some(tag("who", "ada")), limit: 1, ..recovered() }, "b"),
        (RunFilter { cause: Some("panic".into()), ..recovered() }, "c"),
        (RunFilter { parent: Some(run("a")), ..recovered() }, "d"),
        (RunFilter { workflow: WorkflowName::new("refund").ok(), ..recovered() }, "e"),
        (RunFilter { statuses: vec![Status::Running, Status::Failed], ..recovered() }, "ac"),
        (RunFilter { statuses: vec![Status::Completed], ..recovered() }, "d"),
        (RunFilter { since: Some(at(3)), statuses: vec![Status::Queued], ..recovered() }, "ef"),
        (RunFilter { tag: Some(tag("who", "ada")), since: Some(at(3)), ..recovered() }, "f"),
    ];
    for (filter, expected) in cases {
        assert_eq!(initials(fixture, &filter).await, expected, "{filter:?}");
    }
}

/// Pages give each recovered run once, also those recovered in the same millisecond.
pub async fn pages_of_recovered_runs_are_complete(fixture: &Fixture) {
    let mut expected = vec![];
    for n in 0..15_i64 {
        // Recovered in another order than queued, up to three at each time.
        let name = format!("r{n:02}");
        let moment = (n * 7 % 15) / 3;
        let recovered_at = (n % 5 != 0).then(|| at(moment));
        add(fixture, Summary { created_at: at(n), recovered_at, ..summary(&name, 1) }).await;
        expected.extend(recovered_at.map(|moment| (moment, name)));
    }
    expected.sort();
    let expected: Vec<String> = expected.into_iter().rev().map(|(_, name)| name).collect();
    for limit in [1, 2, 5, 12, 100] {
        let found = all_pages(fixture, &RunFilter { limit, ..recovered() }).await;
        assert_eq!(found, expected, "pages of {limit}");
    }
}

/// A page with more after it has a next one; a full last page has not.
pub async fn the_last_page_has_no_next(fixture: &Fixture) {
    let empty = fixture.store.runs(oldest()).await.unwrap();
    assert_eq!((empty.items.len(), empty.next), (0, None));
    for n in 0..4 {
        fixture.append(append_with_row(&format!("r{n}"), 0)).await;
    }
    for (limit, more) in [(1, true), (3, true), (4, false), (5, false)] {
        let page = fixture.store.runs(RunFilter { limit, ..oldest() }).await.unwrap();
        assert_eq!((page.items.len(), page.next.is_some()), (4.min(limit as usize), more), "{limit}");
    }
}

/// An existing run is listed once, although others are added and rows change between pages.
pub async fn a_list_survives_changes_between_pages(fixture: &Fixture) {
    for n in 0..6 {
        add(fixture, Summary { created_at: at(n), ..summary(&format!("r{n}"), 1) }).await;
    }
    let filter = RunFilter { limit: 2, ..RunFilter::default() };
    let first = fixture.store.runs(filter.clone()).await.unwrap();
    add(fixture, Summary { created_at: at(99), ..summary("new", 1) }).await;
    let moved = Summary { created_at: at(4), status: Status::Completed, ..summary("r4", 2) };
    fixture.append(Append { row: Some(Box::new(moved)), ..append("r4", 1, &["b"]) }).await;
    let rest = all_pages(fixture, &RunFilter { after: first.next, ..filter }).await;
    assert_eq!(first.items.len(), 2);
    assert_eq!(rest, ["r3", "r2", "r1", "r0"]);
}

/// An invalid cursor is refused.
pub async fn a_foreign_cursor_is_refused(fixture: &Fixture) {
    fixture.append(append_with_row("r", 0)).await;
    for cursor in ["", "nonsense", "1:", ":r", "x:r", "1:a/b", "1'--", "r", "r:r", "r1:"] {
        let page = fixture.store.runs(RunFilter { after: Some(cursor.to_owned()), ..oldest() }).await;
        assert!(matches!(page, Err(StoreError::Refused { code: "GS0210", .. })), "{cursor}: {page:?}");
    }
}

/// A cursor of a list in another order is refused.
pub async fn a_cursor_of_another_order_is_refused(fixture: &Fixture) {
    for name in ["a", "b"] {
        add(fixture, Summary { recovered_at: Some(at(1)), ..summary(name, 1) }).await;
    }
    let one = |order, after| RunFilter { order, after, limit: 1, ..RunFilter::default() };
    for (given_by, taken_by) in [
        (RunOrder::Newest, RunOrder::Recovered),
        (RunOrder::Oldest, RunOrder::Recovered),
        (RunOrder::Recovered, RunOrder::Newest),
        (RunOrder::Recovered, RunOrder::Oldest),
    ] {
        let page = fixture.store.runs(one(given_by, None)).await.unwrap();
        assert!(page.next.is_some());
        let refused = fixture.store.runs(one(taken_by, page.next)).await;
        assert!(matches!(refused, Err(StoreError::Refused { code: "GS0210", .. })), "{refused:?}");
    }
}

/// A run without a row is in no list; its log still exists.
pub async fn runs_without_a_row_are_not_listed(fixture: &Fixture) {
    fixture.append(append("r", 0, &["a"])).await;
    assert_eq!(initials(fixture, &oldest()).await, "");
    assert_eq!(fixture.log("r").await.len(), 1);
}
