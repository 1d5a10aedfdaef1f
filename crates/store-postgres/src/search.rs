//! Lists of runs by a condition: the lists and rows that a search reads.
//!
//! Invariant: no statement needs statistics. Right after many writes the planner does not know how many entries a list
//! has, so each statement leaves it only one index.

use goldseam_store::sql_search::{
    AttributeEntry, Dialect, ListEntry, SearchIndex, SearchSource, SearchedRow, SqlPart, SqlParts, TimeSpan,
    place, plan, search,
};
use goldseam_store::{Cursor, OrderKey, Page, Row, RunFilter, StoreError};

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgColumns;
use crate::sql::{PgQuery, column};

const DIALECT: Dialect = Dialect {
    tags: "goldseam.run_tags AS c",
    attributes: "goldseam.run_attributes AS c",
    // An expression, so that only the index by run can be used.
    attribute_name: "(c.name || '')",
    // Without it, the planner may read all entries of the value once, instead of those of each run.
    exists_end: " OFFSET 0)",
    position: "strpos",
};

/// Returns one page of the runs that a condition selects.
pub(crate) async fn runs(
    connection: &PgConnection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, StoreError> {
    let mut plan = plan(filter, DIALECT);
    let source = PgSource { connection, filter, check: plan.check.take() };
    search(&source, filter, after, plan).await
}

fn sql_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The source of one search.
struct PgSource<'a> {
    connection: &'a PgConnection,
    filter: &'a RunFilter,
    check: Option<SqlParts>,
}

impl SearchSource for PgSource<'_> {
    type Error = StoreError;

    /// The indexes of runs do not have the number of the run, so that each entry reads a row.
    fn entry_work(list: &SearchIndex) -> usize {
        if has_numbers(list) { 6 } else { 60 }
    }

    async fn read(
        &self,
        list: &SearchIndex,
        span: TimeSpan,
        most: usize,
    ) -> Result<Vec<ListEntry>, StoreError> {
        let query = self.list_query(list, span, most);
        let rows = self.connection.read(&query.sql, &query.values()).await?;
        let read = |row: &tokio_postgres::Row| -> Result<Vec<ListEntry>, PgFault> {
            let times: Option<Vec<i64>> = column(row, 0)?;
            let numbers: Option<Vec<i64>> = column(row, 1)?;
            let pairs = times.unwrap_or_default().into_iter().zip(numbers.unwrap_or_default());
            Ok(pairs.map(|(at, rid)| ListEntry { at, rid }).collect())
        };
        let entries = rows.first().map(read).transpose().map_err(|fault| fault.to_read_error())?;
        Ok(entries.unwrap_or_default())
    }

    async fn look_up(
        &self,
        list: &SearchIndex,
        entries: &[ListEntry],
    ) -> Result<Option<Vec<ListEntry>>, StoreError> {
        if !matches!(list, SearchIndex::Tag(..) | SearchIndex::Attribute(_)) {
            return Ok(None);
        }
        let mut query = PgQuery::new("SELECT k.at, k.rid FROM unnest(");
        query.add_numbers("", entries.iter().map(|entry| entry.at).collect());
        query.add_numbers(", ", entries.iter().map(|entry| entry.rid).collect());
        query.add_if(") AS k (at, rid) WHERE EXISTS (SELECT 1", true);
        add_list(&mut query, list);
        query.add_if(" AND l.created_at = k.at AND l.rid = k.rid OFFSET 0)", true);
        let rows = self.connection.read(&query.sql, &query.values()).await?;
        let read = |row: &tokio_postgres::Row| -> Result<ListEntry, PgFault> {
            Ok(ListEntry { at: column(row, 0)?, rid: column(row, 1)? })
        };
        let found = rows.iter().map(read).collect::<Result<Vec<ListEntry>, PgFault>>();
        found.map(Some).map_err(|fault| fault.to_read_error())
    }

    async fn rows(&self, entries: &[ListEntry]) -> Result<Vec<SearchedRow>, StoreError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let query = self.rows_query(entries);
        let rows = self.connection.read(&query.sql, &query.values()).await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.extend(self.searched(row).map_err(|fault| fault.to_read_error())?);
        }
        Ok(found)
    }
}

/// Whether the index of a list has the numbers of its runs.
fn has_numbers(list: &SearchIndex) -> bool {
    use SearchIndex::{Attribute, Named, Range, Tag, Texts};
    matches!(list, Tag(..) | Attribute(_) | Named(_) | Texts { .. } | Range { .. })
}

impl PgSource<'_> {
    /// Returns the row with its place; none if it has no place in the list.
    fn searched(&self, row: &tokio_postgres::Row) -> Result<Option<SearchedRow>, PgFault> {
        let id: String = column(row, 3)?;
        let Some(place) = place(self.filter, column(row, 6)?, &id) else { return Ok(None) };
        let row = PgColumns::read(row, 0, Some(4))?.map(PgColumns::parse);
        Ok(Some(SearchedRow { place, row }))
    }

    fn rows_query(&self, entries: &[ListEntry]) -> PgQuery {
        let mut query = PgQuery::new("SELECT CASE WHEN (");
        match &self.check {
            None => query.add_if("true", true),
            Some(parts) => parts.iter().for_each(|part| match part {
                SqlPart::Sql(sql) => query.add_if(sql, true),
                SqlPart::Text(value) => query.add_text("", Some(value)),
                SqlPart::Integer(number) => query.add_number("", Some(*number)),
                SqlPart::Number(number) => query.add_float("", *number),
            }),
        }
        query.add_if(") IS TRUE THEN r.summary END, r.task, r.updated_at, r.id, r.status, r.as_of, ", true);
        query.add_if("r.recovered_at", self.filter.order.key() == OrderKey::Recovered);
        query.add_if("r.created_at", self.filter.order.key() == OrderKey::Created);
        query.add_if(" FROM goldseam.runs AS r WHERE r.summary IS NOT NULL AND r.rid = ANY (", true);
        query.add_numbers("", entries.iter().map(|entry| entry.rid).collect());
        query.add_if(")", true);
        query
    }

    fn list_query(&self, list: &SearchIndex, span: TimeSpan, most: usize) -> PgQuery {
        let mut query = PgQuery::new("SELECT array_agg(p.at), array_agg(p.rid) FROM (SELECT ");
        let time = if *list == SearchIndex::Recovered { "l.recovered_at" } else { "l.created_at" };
        query.add_if(time, true);
        query.add_if(" AS at, l.rid", true);
        let direction = if self.filter.order.is_latest_first() { " DESC" } else { "" };
        if let Some(indexed) = Indexed::of(list) {
            // The value is a part of the bounds and of the order, so that no other index has this order.
            query.add_if(" FROM goldseam.runs AS l WHERE ", true);
            for (sign, bound) in [(") >= (", span.low), (") <= (", span.high)] {
                query.add_if("(", true);
                query.add_if(indexed.column, true);
                query.add_if(", l.created_at", true);
                query.add_text(sign, Some(indexed.value));
                query.add_number(", ", Some(bound));
                query.add_if(") AND ", true);
            }
            query.add_if(indexed.has, true);
            for piece in [" ORDER BY ", indexed.column, direction, ", l.created_at", direction] {
                query.add_if(piece, true);
            }
        } else {
            add_list(&mut query, list);
            query.add_if(" AND ", true);
            query.add_if(time, true);
            query.add_number(" >= ", Some(span.low));
            query.add_if(" AND ", true);
            query.add_if(time, true);
            query.add_number(" <= ", Some(span.high));
            if !list.is_unordered() {
                for piece in [" ORDER BY ", time, direction] {
                    query.add_if(piece, true);
                }
            }
        }
        query.add_number(" LIMIT ", Some(sql_count(most)));
        query.add_if(") AS p", true);
        query
    }
}

/// A list that an index of the table of runs has, by a column and the time.
struct Indexed<'a> {
    column: &'static str,
    value: &'a str,
    /// The condition of the index.
    has: &'static str,
}

impl<'a> Indexed<'a> {
    fn of(list: &'a SearchIndex) -> Option<Self> {
        match list {
            SearchIndex::Workflow(value) => {
                Some(Self { column: "l.workflow", value, has: "l.workflow IS NOT NULL" })
            }
            SearchIndex::Status(status) => {
                Some(Self { column: "l.status", value: status.as_str(), has: "l.status <> 'completed'" })
            }
            SearchIndex::Cause(value) => Some(Self { column: "l.cause", value, has: "l.cause IS NOT NULL" }),
            _ => None,
        }
    }
}

/// Adds the table of a list as `l`, and the condition under which it has a run.
fn add_list(query: &mut PgQuery, list: &SearchIndex) {
    const ATTRIBUTES: &str = " FROM goldseam.run_attributes AS l WHERE l.name = ";
    if let Some(indexed) = Indexed::of(list) {
        query.add_if(" FROM goldseam.runs AS l WHERE ", true);
        query.add_if(indexed.has, true);
        query.add_if(" AND ", true);
        query.add_if(indexed.column, true);
        query.add_text(" = ", Some(indexed.value));
        return;
    }
    match list {
        SearchIndex::All | SearchIndex::Workflow(_) | SearchIndex::Status(_) | SearchIndex::Cause(_) => {
            query.add_if(" FROM goldseam.runs AS l WHERE true", true);
        }
        SearchIndex::Recovered => {
            query.add_if(" FROM goldseam.runs AS l WHERE l.recovered_at IS NOT NULL", true);
        }
        SearchIndex::Tag(key, value) => {
            query.add_text(" FROM goldseam.run_tags AS l WHERE l.tag = ", Some(key));
            query.add_text(" AND l.value = ", Some(value));
        }
        SearchIndex::Attribute(AttributeEntry { name, kind, text, number }) => {
            query.add_text(ATTRIBUTES, Some(name));
            query.add_text(" AND l.kind = ", Some(kind));
            query.add_text(" AND l.text = ", Some(text));
            query.add_float(" AND l.number = ", *number);
        }
        SearchIndex::Id(id) => query.add_text(" FROM goldseam.runs AS l WHERE l.id = ", Some(id)),
        SearchIndex::Owner(owner) => {
            query.add_text(" FROM goldseam.runs AS l WHERE l.owner IS NOT NULL AND l.owner = ", Some(owner));
        }
        SearchIndex::Parent(parent) => {
            query.add_text(
                " FROM goldseam.runs AS l WHERE l.parent IS NOT NULL AND l.parent = ",
                Some(parent),
            );
        }
        SearchIndex::Named(name) => query.add_text(ATTRIBUTES, Some(name)),
        SearchIndex::Texts { name, low, end } => {
            query.add_text(ATTRIBUTES, Some(name));
            query.add_text(" AND l.kind = 't' AND l.text >= ", Some(low));
            query.add_text(" AND l.text < ", end.as_deref());
        }
        SearchIndex::Range { name, kind, low, high } => {
            query.add_text(ATTRIBUTES, Some(name));
            query.add_text(" AND l.text = '' AND l.kind = ", Some(kind));
            query.add_float(" AND l.number >= ", *low);
            query.add_float(" AND l.number <= ", *high);
        }
    }
}
