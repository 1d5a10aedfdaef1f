//! Tests of plans, and of searches in lists that are in memory.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use goldseam_core::attribute::Attributes;
use goldseam_core::event::{RunQueued, Tags};
use goldseam_core::summary::Trouble;
use goldseam_core::{
    BranchId, Event, Hash, Millis, Payload, QueueName, Recorded, RunId, Seq, Status, Summary, WorkflowName,
    WriteId,
};

use super::page::{SearchFound, page};
use super::*;
use crate::types::{Page, Row, RunOrder};

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
    assert_eq!(check("not (cause = x or version = 2)"), "(((r.cause = ?) IS NOT TRUE))");
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
    let stopped = page(&filter, SearchFound { rows: found(&[9]), stopped: Some(place(5)) });
    assert_eq!((names(&stopped), stopped.next), (vec!["r9".to_owned()], Some("5:r5".to_owned())));
    let full = page(&filter, SearchFound { rows: found(&[3, 7, 9]), stopped: Some(place(3)) });
    assert_eq!((names(&full).len(), full.next), (2, Some("7:r7".to_owned())));
    let last = page(&filter, SearchFound { rows: found(&[9]), stopped: None });
    assert_eq!((names(&last).len(), last.next), (1, None));
}

/// Lists and rows in memory. Runs have the number of their place; many share a millisecond.
struct MemoryLists {
    filter: RunFilter,
    rows: Vec<Row>,
    /// Entries that were read in order.
    read: Cell<usize>,
}

impl MemoryLists {
    fn new(count: i64, filter: RunFilter, shape: impl Fn(i64, &mut Summary)) -> Self {
        let row = |number: i64| {
            let mut summary = sample(number);
            shape(number, &mut summary);
            Row { summary, task: None, updated_at: Millis(1) }
        };
        Self { filter, rows: (0..count).map(row).collect(), read: Cell::new(0) }
    }

    fn has(list: &SearchIndex, row: &Row) -> bool {
        match list {
            SearchIndex::All => true,
            SearchIndex::Cause(cause) => {
                row.summary.trouble.as_ref().is_some_and(|found| found.cause == *cause)
            }
            SearchIndex::Workflow(name) => row.summary.workflow.as_str() == name,
            SearchIndex::Id(id) => row.summary.run.as_str() == id,
            SearchIndex::Status(status) => row.summary.status == *status,
            other => panic!("no list {other:?}"),
        }
    }

    fn row(&self, entry: &ListEntry) -> &Row {
        &self.rows[usize::try_from(entry.rid).unwrap()]
    }

    fn page(&self) -> Page<Row> {
        let after = self.filter.cursor().unwrap();
        let searching = pin!(search(self, &self.filter, after.as_ref(), plan(&self.filter, DIALECT)));
        match searching.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(page) => page.unwrap(),
            Poll::Pending => panic!("the search waited"),
        }
    }

    /// Lists all pages. Returns the runs, and the number of pages.
    fn all_pages(&mut self) -> (Vec<String>, usize) {
        let mut found = Vec::new();
        for pages in 1..1_000 {
            let page = self.page();
            found.extend(page.items.iter().map(|row| row.summary.run.to_string()));
            let Some(next) = page.next else { return (found, pages) };
            assert_ne!(Some(&next), self.filter.after.as_ref(), "no progress");
            self.filter.after = Some(next);
        }
        panic!("the list does not end")
    }

    fn expected(&self) -> Vec<String> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|row| self.filter.selects(row)).collect();
        rows.sort_by(|left, right| {
            let key = |row: &Row| (row.summary.created_at, row.summary.run.clone());
            key(left).cmp(&key(right))
        });
        if self.filter.order.is_latest_first() {
            rows.reverse();
        }
        rows.iter().map(|row| row.summary.run.to_string()).collect()
    }
}

impl SearchSource for MemoryLists {
    type Error = String;

    fn entry_work(_: &SearchIndex) -> usize {
        1
    }

    async fn read(&self, list: &SearchIndex, span: TimeSpan, most: usize) -> Result<Vec<ListEntry>, String> {
        let mut entries = Vec::new();
        for (rid, row) in self.rows.iter().enumerate() {
            let at = row.summary.created_at.0;
            if (span.low..=span.high).contains(&at) && Self::has(list, row) {
                entries.push(ListEntry { at, rid: i64::try_from(rid).unwrap() });
            }
        }
        // Not in order of their numbers within a millisecond.
        let is_latest_first = self.filter.order.is_latest_first();
        entries.sort_by_key(|entry| (if is_latest_first { -entry.at } else { entry.at }, entry.rid % 7));
        entries.truncate(most);
        self.read.set(self.read.get() + entries.len());
        Ok(entries)
    }

    async fn look_up(
        &self,
        list: &SearchIndex,
        entries: &[ListEntry],
    ) -> Result<Option<Vec<ListEntry>>, String> {
        if matches!(list, SearchIndex::Workflow(_)) {
            return Ok(None);
        }
        Ok(Some(entries.iter().copied().filter(|entry| Self::has(list, self.row(entry))).collect()))
    }

    async fn rows(&self, entries: &[ListEntry]) -> Result<Vec<SearchedRow>, String> {
        let row = |entry: &ListEntry| {
            let row = self.row(entry);
            let place = place(&self.filter, Some(entry.at), row.summary.run.as_str()).unwrap();
            SearchedRow { place, row: Some(Ok(row.clone())) }
        };
        Ok(entries.iter().map(row).collect())
    }
}

fn sample(number: i64) -> Summary {
    let queued = RunQueued {
        workflow: WorkflowName::new(["order", "mail", "rare"][usize::from(number % 3 == 0) * 2]).unwrap(),
        version: 1,
        input: Payload::null(),
        queue: QueueName::new("default").unwrap(),
        priority: 0,
        tags: Tags::new(),
        attributes: Attributes::new(),
        parent: None,
        plan: Vec::new(),
        trace: None,
        start_at: None,
        deadline: None,
        lane: None,
    };
    let recorded = Recorded {
        seq: Seq(1),
        at: Millis(number / 3),
        branch: BranchId::ROOT,
        epoch: None,
        write: WriteId(1),
        prev: Hash::ZERO,
        bytes: 0,
        event: Event::RunQueued(queued),
    };
    // Ids in another order than numbers.
    let run = RunId::new(format!("r{:05}", number.wrapping_mul(7_919) % 100_000)).unwrap();
    Summary::first(&run, &recorded, Hash::ZERO).unwrap()
}

fn with_cause(summary: &mut Summary, cause: &str) {
    summary.trouble =
        Some(Trouble { cause: cause.to_owned(), message: String::new(), code: None, step: None });
}

#[test]
fn pages_of_long_lists_have_every_run_once_and_in_order() {
    let conditions = [
        "cause = a",
        "cause = a and workflow = order",
        "cause = a and workflow = rare and status = failed",
        "workflow = order and cause in (a, b)",
        "workflow = rare or cause = c",
        "workflow = order and cause != a and status != failed",
        "cause = c and workflow = order",
        "status not in (completed, queued) and cause = b",
        "workflow = mail",
    ];
    for text in conditions {
        for order in [RunOrder::Newest, RunOrder::Oldest] {
            let filter = RunFilter { order, limit: 700, ..filter(text) };
            let mut source = MemoryLists::new(9_000, filter, |number, summary| {
                let draw = number.wrapping_mul(0x9E37_79B9) >> 7;
                if draw % 5 < 3 {
                    with_cause(summary, ["a", "b", "a"][usize::try_from(draw % 3).unwrap()]);
                } else if number == 4_000 {
                    with_cause(summary, "c");
                }
                summary.status =
                    [Status::Failed, Status::Completed, Status::Queued][usize::try_from(draw % 3).unwrap()];
            });
            let expected = source.expected();
            assert_eq!(source.all_pages().0, expected, "{text}");
        }
    }
}

#[test]
fn an_empty_intersection_of_long_lists_is_one_page() {
    let mut source = MemoryLists::new(60_000, filter("cause = a and cause = b"), |number, summary| {
        with_cause(summary, if number % 2 == 0 { "a" } else { "b" });
    });
    assert_eq!(source.all_pages(), (vec![], 1));
    assert!(source.read.get() < 100_000, "{} entries", source.read.get());
}

#[test]
fn a_short_list_is_not_compared_with_all_of_a_long_one() {
    let mut source = MemoryLists::new(60_000, filter("cause = a and workflow = order"), |number, summary| {
        with_cause(summary, if number % 30 == 1 { "a" } else { "b" });
    });
    let expected = source.expected();
    source.filter.limit = 5_000;
    assert_eq!(source.all_pages().0, expected);
    assert!(source.read.get() < 40_000, "{} entries", source.read.get());
}

#[test]
fn a_page_ends_after_a_bounded_amount_of_work() {
    let mut source = MemoryLists::new(30_000, filter("version = 2"), |_, _| {});
    let (found, pages) = source.all_pages();
    assert!(found.is_empty());
    assert!((4..=9).contains(&pages), "{pages} pages");
}

#[test]
fn more_runs_in_a_millisecond_than_a_page_may_cost_are_listed() {
    let filter = RunFilter { limit: 4_000, ..filter("workflow = order") };
    let mut source = MemoryLists::new(12_000, filter, |_, summary| summary.created_at = Millis(7));
    let expected = source.expected();
    assert_eq!(source.all_pages().0, expected);
}
