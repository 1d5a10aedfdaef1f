//! Lists: filters as static pieces of SQL, values always bound.
//!
//! Invariant: the order is (a moment, run), the same in every store, so a cursor is good anywhere.

use std::cmp::Ordering;

use goldseam_core::{Millis, RunId, Status};
use goldseam_store::{Cursor, Moment, Page, RecordKind, Row, RunFilter, RunOrder, StoreError, Unreadable};
use tokio_postgres::types::{ToSql, Type};

use crate::connection::Link;
use crate::fault::Fault;
use crate::read::column;
use crate::rows::{RawRow, run_id};

const SELECT: &str = "SELECT r.summary, r.task, r.updated_at, r.id, r.status, r.as_of, ";
const PLAIN: &str = " FROM goldseam.runs AS r WHERE r.summary IS NOT NULL";
const TAGGED: &str = " FROM goldseam.run_tags AS t JOIN goldseam.runs AS r ON r.rid = t.rid \
    WHERE r.summary IS NOT NULL AND t.tag = ";
/// Few rows are ever lost: finding them must cost what was lost, not what is there.
const ROWLESS: &str = "SELECT r.id FROM goldseam.runs AS r WHERE r.summary IS NULL AND r.id > $1 \
    ORDER BY r.id LIMIT $2";

const STRANGE: &str = "SELECT r.id FROM goldseam.runs AS r WHERE r.status <> 'completed'";
/// Every row, lost ones too.
const EVERY: &str = "SELECT r.summary, r.task, r.updated_at, r.id, r.status, r.as_of, r.rid \
    FROM goldseam.runs AS r WHERE r.rid > $1 ORDER BY r.rid LIMIT $2";

/// A value that is bound.
#[derive(Debug)]
enum Bound {
    Text(String),
    Texts(Vec<String>),
    Number(i64),
}

impl Bound {
    fn value(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Text(text) => (text, Type::TEXT),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::Number(number) => (number, Type::INT8),
        }
    }
}

/// A statement under construction.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) sql: String,
    bound: Vec<Bound>,
}

impl Query {
    pub(crate) fn new(begin: &'static str) -> Self {
        Self { sql: begin.to_owned(), bound: Vec::new() }
    }

    /// A piece that needs no value.
    pub(crate) fn add_if(&mut self, piece: &'static str, wanted: bool) {
        if wanted {
            self.sql.push_str(piece);
        }
    }

    /// A piece that ends where its value goes; left out without a value.
    pub(crate) fn add_text(&mut self, piece: &'static str, value: Option<&str>) {
        self.add(piece, value.map(|value| Bound::Text(value.to_owned())));
    }

    /// The same with a number.
    pub(crate) fn add_number(&mut self, piece: &'static str, value: Option<i64>) {
        self.add(piece, value.map(Bound::Number));
    }

    /// The same with a list, in brackets for `ANY` and `ALL`.
    pub(crate) fn add_texts(&mut self, piece: &'static str, values: Option<&[String]>) {
        if let Some(values) = values {
            self.add_if(piece, true);
            self.add("(", Some(Bound::Texts(values.to_vec())));
            self.sql.push(')');
        }
    }

    fn add(&mut self, piece: &'static str, value: Option<Bound>) {
        if let Some(value) = value {
            self.bound.push(value);
            self.sql.push_str(piece);
            self.sql.push('$');
            self.sql.push_str(&self.bound.len().to_string());
        }
    }

    /// The values, as a link takes them.
    pub(crate) fn values(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        self.bound.iter().map(Bound::value).collect()
    }
}

struct Found {
    /// Where it stands in the list; none if that cannot be read.
    at: Option<i64>,
    id: String,
    row: RawRow,
}

impl Found {
    fn order(&self, other: &Self, order: RunOrder) -> Ordering {
        let earliest = (self.at, &self.id).cmp(&(other.at, &other.id));
        if order.is_latest_first() { earliest.reverse() } else { earliest }
    }
}

/// Few runs have the same owner, parent, tag or cause; their own index is better than any other.
fn is_narrow(filter: &RunFilter) -> bool {
    filter.owner.is_some() || filter.parent.is_some() || filter.tag.is_some() || filter.cause.is_some()
}

/// The column that the list goes by; with a tag the order is that of the tag's own index.
fn by(filter: &RunFilter) -> &'static str {
    match (filter.order.moment(), &filter.tag) {
        (Moment::Created, None) => "r.created_at",
        (Moment::Created, Some(_)) => "t.created_at",
        (Moment::Recovered, _) => "r.recovered_at",
    }
}

/// One page.
pub(crate) async fn runs(
    link: &Link,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, StoreError> {
    let limit = filter.limit as usize;
    let one_walk = is_narrow(filter) || filter.order.moment() == Moment::Recovered;
    let mut found = Vec::new();
    if one_walk || filter.statuses.is_empty() || filter.statuses.contains(&Status::Completed) {
        find(link, &query(filter, after, None), &mut found).await?;
    } else {
        // One ordered walk per status, merged: an `IN` would sort all of them for every page. Not one moment, so a
        // run that changes its status meanwhile may be met twice, and counts once.
        for status in &filter.statuses {
            find(link, &query(filter, after, Some(*status)), &mut found).await?;
        }
        found.sort_by(|left, right| left.order(right, filter.order));
        found.dedup_by(|left, right| left.id == right.id);
    }
    let more = found.len() > limit;
    found.truncate(limit);
    let place = |found: &Found| {
        let run = RunId::new(found.id.as_str()).ok()?;
        Some(Cursor { by: filter.order.moment(), at: Millis(found.at?), run })
    };
    let next = found.iter().rev().find_map(place).filter(|_| more).map(|cursor| cursor.to_string());
    let mut page = Page { next, ..Page::default() };
    for Found { id, row, .. } in found {
        match row.parse() {
            Ok(row) => page.items.push(row),
            Err(reason) => page.unreadable.push(Unreadable::new(RecordKind::Row, id, reason)),
        }
    }
    Ok(page)
}

/// Runs without a row, or with a status that is none, in order of id.
pub(crate) async fn rowless(
    link: &Link,
    after: Option<&RunId>,
    limit: u32,
) -> Result<Vec<RunId>, StoreError> {
    // Every id comes after the empty text.
    let (after, most) = (after.map_or("", |run| run.as_str()), i64::from(limit));
    let mut found: Vec<RunId> = Vec::new();
    for sql in [ROWLESS, strange().as_str()] {
        let rows = link.read(sql, &[(&after as _, Type::TEXT), (&most as _, Type::INT8)]).await?;
        // A name that no run can have is told of by `unreadable`.
        found.extend(rows.iter().filter_map(|row| run_id(row, 0).ok()));
    }
    found.sort();
    found.dedup();
    found.truncate(limit as usize);
    Ok(found)
}

/// Finds rows whose status is none that this build knows, by what lies between those it knows in the index.
fn strange() -> String {
    let mut known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
    known.sort_unstable();
    let quoted = |word: &str| ["'", word, "'"].concat();
    let first = known.first().map(|word| [STRANGE, " AND r.status < ", &quoted(word)].concat());
    let between = known.windows(2).map(|pair| {
        [STRANGE, " AND r.status > ", &quoted(pair[0]), " AND r.status < ", &quoted(pair[1])].concat()
    });
    let last = known.last().map(|word| [STRANGE, " AND r.status > ", &quoted(word)].concat());
    let all: Vec<String> = first.into_iter().chain(between).chain(last).collect();
    ["SELECT s.id FROM (", &all.join(" UNION ALL "), ") AS s WHERE s.id > $1 ORDER BY s.id LIMIT $2"].concat()
}

/// The next rows in order of their number, and which of them cannot be read.
pub(crate) async fn unreadable(link: &Link, after: i64, limit: u32) -> Result<Page<Unreadable>, StoreError> {
    let most = i64::from(limit);
    let rows = link.read(EVERY, &[(&after as _, Type::INT8), (&most as _, Type::INT8)]).await?;
    let mut page = Page::default();
    let bad = |row: &tokio_postgres::Row| -> Result<Option<Unreadable>, Fault> {
        let id: String = column(row, 3)?;
        if let Err(error) = RunId::new(id.as_str()) {
            return Ok(Some(Unreadable::new(RecordKind::Row, id, error)));
        }
        let raw = RawRow::read(row, 0, Some(4))?;
        let reason = raw.and_then(|raw| raw.parse().err());
        Ok(reason.map(|reason| Unreadable::new(RecordKind::Row, id, reason)))
    };
    for row in &rows {
        page.items.extend(bad(row).map_err(|fault| fault.to_read_error())?);
    }
    let last: Option<i64> = rows.last().and_then(|row| column(row, 6).ok());
    page.next = last.filter(|_| rows.len() == limit as usize).map(|last| last.to_string());
    Ok(page)
}

async fn find(link: &Link, query: &Query, found: &mut Vec<Found>) -> Result<(), StoreError> {
    let read = |row: &tokio_postgres::Row| -> Result<Option<Found>, Fault> {
        let Some(raw) = RawRow::read(row, 0, Some(4))? else { return Ok(None) };
        Ok(Some(Found { id: column(row, 3)?, at: column(row, 6)?, row: raw }))
    };
    for row in link.read(&query.sql, &query.values()).await? {
        found.extend(read(&row).map_err(|fault| fault.to_read_error())?);
    }
    Ok(())
}

fn query(filter: &RunFilter, after: Option<&Cursor>, status: Option<Status>) -> Query {
    let mut query = Query::new(SELECT);
    query.add_if(by(filter), true);
    match &filter.tag {
        Some((key, value)) => {
            query.add_text(TAGGED, Some(key.as_str()));
            query.add_text(" AND t.value = ", Some(value));
        }
        None => query.add_if(PLAIN, true),
    }
    query.add_if(" AND r.recovered_at IS NOT NULL", filter.order.moment() == Moment::Recovered);
    if let Some(status) = status {
        query.add_text(" AND r.status <> 'completed' AND r.status = ", Some(status.as_str()));
    } else if !filter.statuses.is_empty() {
        let words: Vec<String> = filter.statuses.iter().map(|status| status.as_str().to_owned()).collect();
        query.add_texts(" AND r.status = ANY ", Some(&words));
    }
    query.add_text(" AND r.workflow = ", filter.workflow.as_ref().map(|name| name.as_str()));
    query.add_text(" AND r.cause IS NOT NULL AND r.cause = ", filter.cause.as_deref());
    query.add_text(" AND r.owner IS NOT NULL AND r.owner = ", filter.owner.as_ref().map(|id| id.as_str()));
    query.add_text(" AND r.parent IS NOT NULL AND r.parent = ", filter.parent.as_ref().map(|id| id.as_str()));
    add_range(&mut query, filter, after);
    query
}

/// Bounds, order and limit.
fn add_range(query: &mut Query, filter: &RunFilter, after: Option<&Cursor>) {
    let by = by(filter);
    let latest_first = filter.order.is_latest_first();
    let piece = if filter.tag.is_some() { " AND t.created_at >= " } else { " AND r.created_at >= " };
    query.add_number(piece, filter.since.map(|since| since.0));
    if let Some(after) = after {
        query.add_if(" AND (", true);
        query.add_if(by, true);
        query.add_number(if latest_first { ", r.id) < (" } else { ", r.id) > (" }, Some(after.at.0));
        query.add_text(", ", Some(after.run.as_str()));
        query.add_if(")", true);
    }
    let direction = if latest_first { " DESC" } else { "" };
    for piece in [" ORDER BY ", by, direction, ", r.id", direction] {
        query.add_if(piece, true);
    }
    query.add_number(" LIMIT ", Some(i64::from(filter.limit) + 1));
}
