//! Lists of runs by a condition: walks one index in the order of the list, in growing pieces, and stops after many rows.

use goldseam_core::Status;
use goldseam_store::sql_search::{
    AttributeEntry, CreatedBounds, DECODE_MAX, Dialect, PROBE_MAX, Plan, RANGE_MAX, SCAN_MAX, SearchIndex,
    SqlPart, Walk, merged, place, plan,
};
use goldseam_store::{Cursor, OrderKey, Page, Row, RunFilter, StoreError};

use crate::connection::PgConnection;
use crate::fault::PgFault;
use crate::rows::PgColumns;
use crate::sql::{PgQuery, column};

const DIALECT: Dialect =
    Dialect { tags: "goldseam.run_tags", attributes: "goldseam.run_attributes", position: "strpos" };

/// Rows of the first piece; each piece is larger than the one before.
const PIECE: usize = 500;
const PIECE_GROWTH: usize = 8;
/// Most rows of a piece.
const PIECE_MAX: usize = 20_000;

/// Reads the rows of a piece that pass the check, and its last row, which says where the next piece begins.
const READ: &str = ") SELECT CASE WHEN w.ok THEN r.summary END, r.task, r.updated_at, w.id, r.status, r.as_of, w.at, \
    w.ok, (SELECT count(*) FROM w) FROM w JOIN goldseam.runs AS r ON r.rid = w.rid \
    WHERE w.ok OR w.n = (SELECT max(l.n) FROM w AS l) ORDER BY w.n";

/// Returns one page of the runs that a condition selects.
pub(crate) async fn runs(
    connection: &PgConnection,
    filter: &RunFilter,
    after: Option<&Cursor>,
) -> Result<Page<Row>, StoreError> {
    let Plan { drivers, check, created } = plan(filter, DIALECT);
    let driver = choose(connection, drivers).await?;
    let statuses: Vec<Option<Status>> = match &driver {
        SearchIndex::Status(statuses) => statuses.iter().copied().map(Some).collect(),
        _ => vec![None],
    };
    let mut walks = Vec::new();
    for status in &statuses {
        let walker = PgWalker {
            connection,
            filter,
            driver: &driver,
            check: check.as_deref(),
            created,
            status: *status,
            scans: SCAN_MAX / statuses.len().max(1),
            decodes: DECODE_MAX / statuses.len().max(1),
        };
        walks.push(walker.walk(after.cloned()).await?);
    }
    Ok(merged(filter, walks))
}

/// Chooses the index with the fewest entries for this search.
async fn choose(connection: &PgConnection, drivers: Vec<SearchIndex>) -> Result<SearchIndex, StoreError> {
    let is_alone = drivers.len() == 1;
    let mut best: Option<(i64, SearchIndex)> = None;
    for driver in drivers {
        let is_range = driver.is_unordered();
        if is_alone && !is_range {
            return Ok(driver);
        }
        let most = if is_range { RANGE_MAX } else { PROBE_MAX };
        let count = count(connection, &driver, most).await?;
        if is_range && count > sql_count(RANGE_MAX) {
            continue;
        }
        if best.as_ref().is_none_or(|(fewest, _)| count < *fewest) {
            best = Some((count, driver));
        }
        if best.as_ref().is_some_and(|(fewest, _)| *fewest == 0) {
            break;
        }
    }
    Ok(best.map_or(SearchIndex::All, |(_, driver)| driver))
}

fn sql_count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Counts the entries of an index, up to one more than `most`.
async fn count(connection: &PgConnection, driver: &SearchIndex, most: usize) -> Result<i64, StoreError> {
    let mut query = PgQuery::new("SELECT count(*) FROM (SELECT 1");
    match driver {
        // The entries themselves: a count of runs would read them all.
        SearchIndex::Named(name) => {
            query.add_text(" FROM goldseam.run_attributes AS a WHERE a.name = ", Some(name));
        }
        SearchIndex::Range { name, kind, low, high } => {
            query.add_text(" FROM goldseam.run_attributes AS a WHERE a.text = '' AND a.name = ", Some(name));
            query.add_text(" AND a.kind = ", Some(kind));
            query.add_float(" AND a.number >= ", *low);
            query.add_float(" AND a.number <= ", *high);
        }
        driver => add_source(&mut query, driver, None),
    }
    if let SearchIndex::Status(statuses) = driver {
        let words: Vec<String> = statuses.iter().map(|status| status.as_str().to_owned()).collect();
        query.add_texts(" AND r.status = ANY ", Some(&words));
    }
    query.add_number(" LIMIT ", Some(sql_count(most + 1)));
    query.add_if(") AS p", true);
    let rows = connection.read(&query.sql, &query.values()).await?;
    let count = rows.first().map(|row| column(row, 0)).transpose();
    Ok(count.map_err(|fault| fault.to_read_error())?.unwrap_or_default())
}

/// Adds the table, and the condition under which it has the run.
fn add_source(query: &mut PgQuery, driver: &SearchIndex, status: Option<Status>) {
    const RUNS: &str = " FROM goldseam.runs AS r WHERE r.summary IS NOT NULL";
    let mut runs = |piece: &'static str, value: &str| {
        query.add_if(RUNS, true);
        query.add_text(piece, Some(value));
    };
    match driver {
        SearchIndex::All => query.add_if(RUNS, true),
        SearchIndex::Id(id) => runs(" AND r.id = ", id),
        SearchIndex::Workflow(name) => runs(" AND r.workflow = ", name),
        SearchIndex::Cause(cause) => runs(" AND r.cause IS NOT NULL AND r.cause = ", cause),
        SearchIndex::Owner(owner) => runs(" AND r.owner IS NOT NULL AND r.owner = ", owner),
        SearchIndex::Parent(parent) => runs(" AND r.parent IS NOT NULL AND r.parent = ", parent),
        SearchIndex::Status(_) => {
            query.add_if(RUNS, true);
            query.add_if(" AND r.status <> 'completed'", true);
            query.add_text(" AND r.status = ", status.map(Status::as_str));
        }
        SearchIndex::Tag(key, value) => {
            let from = " FROM goldseam.run_tags AS t JOIN goldseam.runs AS r ON r.rid = t.rid \
                WHERE r.summary IS NOT NULL AND t.tag = ";
            query.add_text(from, Some(key));
            query.add_text(" AND t.value = ", Some(value));
        }
        SearchIndex::Attribute(AttributeEntry { name, kind, text, number }) => {
            let from = " FROM goldseam.run_attributes AS t JOIN goldseam.runs AS r ON r.rid = t.rid \
                WHERE r.summary IS NOT NULL AND t.name = ";
            query.add_text(from, Some(name));
            query.add_text(" AND t.kind = ", Some(kind));
            query.add_text(" AND t.text = ", Some(text));
            query.add_float(" AND t.number = ", *number);
        }
        SearchIndex::Named(name) => {
            let from = " FROM goldseam.runs AS r WHERE r.summary IS NOT NULL AND r.rid = ANY (ARRAY(\
                SELECT a.rid FROM goldseam.run_attributes AS a WHERE a.name = ";
            query.add_text(from, Some(name));
            query.add_if("))", true);
        }
        SearchIndex::Range { name, kind, low, high } => {
            let from = " FROM goldseam.runs AS r WHERE r.summary IS NOT NULL AND r.rid = ANY (ARRAY(\
                SELECT a.rid FROM goldseam.run_attributes AS a WHERE a.text = '' AND a.name = ";
            query.add_text(from, Some(name));
            query.add_text(" AND a.kind = ", Some(kind));
            query.add_float(" AND a.number >= ", *low);
            query.add_float(" AND a.number <= ", *high);
            query.add_if("))", true);
        }
    }
}

/// One walk over an index.
struct PgWalker<'a> {
    connection: &'a PgConnection,
    filter: &'a RunFilter,
    driver: &'a SearchIndex,
    check: Option<&'a [SqlPart]>,
    created: CreatedBounds,
    status: Option<Status>,
    /// Rows left to look at, and to decode.
    scans: usize,
    decodes: usize,
}

/// The place of a row, and the row if the filter selects it or it is unreadable.
type Seen = (Option<Cursor>, Option<Result<Row, String>>);

impl PgWalker<'_> {
    async fn walk(mut self, after: Option<Cursor>) -> Result<Walk, StoreError> {
        let enough = self.filter.limit as usize + 1;
        let mut walk = Walk { found: Vec::new(), stopped: None };
        let mut here = after;
        let mut piece = PIECE.max(enough);
        loop {
            // Without a check, every row is decoded.
            let most = if self.check.is_some() { self.scans } else { self.scans.min(self.decodes) };
            let size = piece.min(most).min(PIECE_MAX);
            let query = self.query(here.as_ref(), size);
            let rows = self.connection.read(&query.sql, &query.values()).await?;
            let scanned = rows.first().map(|row| column::<i64>(row, 8)).transpose();
            let scanned = scanned.map_err(|fault| fault.to_read_error())?.unwrap_or_default();
            let scanned = usize::try_from(scanned).unwrap_or_default();
            self.scans = self.scans.saturating_sub(scanned);
            for row in &rows {
                let listed = self.take(row).map_err(|fault| fault.to_read_error())?;
                here = listed.0.clone().or(here);
                if let (Some(place), Some(found)) = listed {
                    walk.found.push((place, found));
                }
                if walk.found.len() >= enough || self.decodes == 0 {
                    walk.stopped = here;
                    return Ok(walk);
                }
            }
            if scanned < size {
                return Ok(walk);
            }
            if self.scans == 0 {
                walk.stopped = here;
                return Ok(walk);
            }
            piece = piece.saturating_mul(PIECE_GROWTH);
        }
    }

    /// Returns the place of a row, and the row if the filter selects it or it is unreadable.
    fn take(&mut self, row: &tokio_postgres::Row) -> Result<Seen, PgFault> {
        let id: String = column(row, 3)?;
        let place = place(self.filter, column(row, 6)?, &id);
        let Some(columns) = PgColumns::read(row, 0, Some(4))? else { return Ok((place, None)) };
        self.decodes = self.decodes.saturating_sub(1);
        Ok(match columns.parse() {
            Ok(found) if !self.filter.selects(&found) => (place, None),
            found => (place, Some(found)),
        })
    }

    fn query(&self, after: Option<&Cursor>, size: usize) -> PgQuery {
        let mut query = PgQuery::new(
            "WITH w AS MATERIALIZED (SELECT p.*, row_number() OVER () AS n FROM (SELECT r.rid, r.id, (",
        );
        match self.check {
            None => query.add_if("true", true),
            Some(parts) => parts.iter().for_each(|part| match part {
                SqlPart::Sql(sql) => query.add_if(sql, true),
                SqlPart::Text(value) => query.add_text("", Some(value)),
                SqlPart::Integer(number) => query.add_number("", Some(*number)),
                SqlPart::Number(number) => query.add_float("", *number),
            }),
        }
        query.add_if(") IS TRUE AS ok, ", true);
        let column = match (self.filter.order.key(), self.driver) {
            (OrderKey::Recovered, _) => "r.recovered_at",
            (OrderKey::Created, SearchIndex::Tag(..) | SearchIndex::Attribute(_)) => "t.created_at",
            (OrderKey::Created, _) => "r.created_at",
        };
        query.add_if(column, true);
        query.add_if(" AS at", true);
        match self.filter.order.key() {
            OrderKey::Recovered => query.add_if(
                " FROM goldseam.runs AS r WHERE r.summary IS NOT NULL AND r.recovered_at IS NOT NULL",
                true,
            ),
            OrderKey::Created => add_source(&mut query, self.driver, self.status),
        }
        if self.filter.order.key() == OrderKey::Created {
            for (sign, bound) in [(" >= ", self.created.low), (" <= ", self.created.high)] {
                query.add_if(" AND ", bound.is_some());
                query.add_if(column, bound.is_some());
                query.add_number(sign, bound);
            }
        }
        let is_latest_first = self.filter.order.is_latest_first();
        if let Some(after) = after {
            query.add_if(" AND (", true);
            query.add_if(column, true);
            query.add_number(if is_latest_first { ", r.id) < (" } else { ", r.id) > (" }, Some(after.at.0));
            query.add_text(", ", Some(after.run.as_str()));
            query.add_if(")", true);
        }
        let direction = if is_latest_first { " DESC" } else { "" };
        for piece in [" ORDER BY ", column, direction, ", r.id", direction] {
            query.add_if(piece, true);
        }
        query.add_number(" LIMIT ", Some(sql_count(size)));
        query.add_if(") AS p", true);
        query.add_if(READ, true);
        query
    }
}
