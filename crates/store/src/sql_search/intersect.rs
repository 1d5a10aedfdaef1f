//! A page of a search: intersects lists of entries in windows of time, reads the rows that are left, and stops after a
//! bounded amount of work.
//!
//! Invariant: a window ends between two milliseconds. So every run up to the end of a window was examined, whatever the
//! order of the runs of one millisecond in a list.

use std::collections::HashSet;

use super::lists::SearchIndex;
use super::page::{SearchFound, page};
use super::{CreatedBounds, Plan};
use crate::cursor::{Cursor, OrderKey};
use crate::types::{Page, Row, RunFilter};

/// Entries of the first window of a list.
const WINDOW_FIRST: usize = 1_000;
/// Most entries of a window, unless one millisecond has more.
const WINDOW_MAX: usize = 16_384;
/// A window grows by this factor.
const GROWTH: usize = 4;
/// A list without order is used if it has at most this number of entries.
const UNORDERED_MAX: usize = 20_000;
/// The same for lists whose entries do not have the time of the run.
const UNTIMED_MAX: usize = 5_000;
/// Rows are read at once if there are at most this number of entries.
const FEW: usize = 64;
/// A list is read in a window if it has at most this number of entries for each candidate; if not, each candidate is
/// looked up.
const DENSE: usize = 8;

/// What a page may cost, in units of one entry that is read in order from a file.
const WORK_MAX: usize = 800_000;
/// Cost of looking up an entry.
const LOOKUP_WORK: usize = 12;
/// Cost of reading a row and checking it in SQL.
const ROW_WORK: usize = 40;
/// Cost of decoding a row, in addition.
const DECODE_WORK: usize = 120;

/// An entry of a list: the time of a run in the order of the list, and its number in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ListEntry {
    /// The time.
    pub at: i64,
    /// The number.
    pub rid: i64,
}

/// A span of time, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    /// The earliest time.
    pub low: i64,
    /// The latest time.
    pub high: i64,
}

/// A row of a candidate.
#[derive(Debug)]
pub struct SearchedRow {
    /// Its place in the list.
    pub place: Cursor,
    /// The row if the check of SQL holds for it, or why it is unreadable.
    pub row: Option<Result<Row, String>>,
}

/// The lists and rows of a database, for one search.
pub trait SearchSource {
    /// Why it cannot be read.
    type Error;
    /// Returns the cost of reading one entry of a list in order, compared with a file.
    fn entry_work(list: &SearchIndex) -> usize;

    /// Reads at most `most` entries of a list within a span: in the order of the page, those of one millisecond in any
    /// order. A list that is unordered is read in any order.
    fn read(
        &self,
        list: &SearchIndex,
        span: TimeSpan,
        most: usize,
    ) -> impl Future<Output = Result<Vec<ListEntry>, Self::Error>>;

    /// Returns which of the entries a list has; none if reading the rows is as cheap.
    fn look_up(
        &self,
        list: &SearchIndex,
        entries: &[ListEntry],
    ) -> impl Future<Output = Result<Option<Vec<ListEntry>>, Self::Error>>;

    /// Reads the rows of entries, in any order, without lost rows.
    fn rows(&self, entries: &[ListEntry]) -> impl Future<Output = Result<Vec<SearchedRow>, Self::Error>>;
}

/// Returns one page of the runs that a filter selects.
pub async fn search<S: SearchSource>(
    source: &S,
    filter: &RunFilter,
    after: Option<&Cursor>,
    plan: Plan,
) -> Result<Page<Row>, S::Error> {
    let mut search = PageSearch { source, filter, after, work: 0, rows: Vec::new() };
    let is_created = filter.order.key() == OrderKey::Created;
    let created = if is_created { plan.created } else { CreatedBounds::default() };
    let begin = after.filter(|_| is_created).map(|after| after.at.0);
    let axis = Axis { is_latest_first: filter.order.is_latest_first() };
    let from = axis.begin(created, begin);
    let end = axis.end(created);
    let mut groups = Vec::new();
    for lists in plan.groups {
        let mut group = ListGroup { lists, axis, is_dense: false, window: None };
        if group.begin(&mut search, from, end).await? {
            groups.push(group);
        }
    }
    let stopped = if is_created {
        search.intersect(groups, &plan.without, axis, AxisBounds { from, end }).await?
    } else {
        search.recovered(&groups, axis).await?
    };
    Ok(page(filter, SearchFound { rows: search.rows, stopped }))
}

/// The direction of a list. Times on the axis grow along the list.
#[derive(Debug, Clone, Copy)]
struct Axis {
    is_latest_first: bool,
}

impl Axis {
    fn of(self, at: i64) -> i64 {
        if self.is_latest_first { at.saturating_neg() } else { at }
    }

    fn begin(self, created: CreatedBounds, after: Option<i64>) -> i64 {
        let bound = if self.is_latest_first { created.high } else { created.low };
        let begins = [bound, after].into_iter().flatten().map(|at| self.of(at));
        begins.max().unwrap_or(i64::MIN)
    }

    fn end(self, created: CreatedBounds) -> i64 {
        let bound = if self.is_latest_first { created.low } else { created.high };
        bound.map_or(i64::MAX, |at| self.of(at))
    }

    fn span(self, bounds: AxisBounds) -> TimeSpan {
        let from = self.of(bounds.from);
        let end = self.of(bounds.end);
        TimeSpan { low: from.min(end), high: from.max(end) }
    }

    fn sort(self, entries: &mut Vec<ListEntry>) {
        entries.sort_unstable_by_key(|entry| (self.of(entry.at), entry.rid));
        entries.dedup();
    }
}

/// A part of the axis, both inclusive.
#[derive(Debug, Clone, Copy)]
struct AxisBounds {
    from: i64,
    end: i64,
}

/// Entries of a group within a part of the axis.
#[derive(Debug, Clone)]
struct ListWindow {
    entries: Vec<ListEntry>,
    /// The end of the part that was read completely; none: the whole list after its beginning was read.
    through: Option<i64>,
}

/// Lists of which at least one has each run of the search.
#[derive(Debug)]
struct ListGroup {
    lists: Vec<SearchIndex>,
    axis: Axis,
    /// Whether its entries were too many for the candidates of a window.
    is_dense: bool,
    /// Its first window.
    window: Option<ListWindow>,
}

impl ListGroup {
    /// Reads the first window. Returns whether the group can be used.
    async fn begin<S: SearchSource>(
        &mut self,
        search: &mut PageSearch<'_, S>,
        from: i64,
        end: i64,
    ) -> Result<bool, S::Error> {
        if from > end {
            self.window = Some(ListWindow { entries: Vec::new(), through: None });
            return Ok(true);
        }
        let bounds = AxisBounds { from, end };
        if !self.lists.iter().any(SearchIndex::is_unordered) {
            let most = (WINDOW_FIRST / self.lists.len().max(1)).max(FEW);
            self.window = Some(self.read(search, bounds, most).await?);
            return Ok(true);
        }
        let mut entries = Vec::new();
        for list in &self.lists {
            let limit = match list {
                SearchIndex::Owner(_) | SearchIndex::Parent(_) => UNTIMED_MAX,
                _ => UNORDERED_MAX,
            };
            let read = search.read(list, self.axis.span(bounds), limit + 1).await?;
            if entries.len() + read.len() > limit {
                return Ok(false);
            }
            entries.extend(read);
        }
        entries.retain(|entry| (from..=end).contains(&self.axis.of(entry.at)));
        self.axis.sort(&mut entries);
        self.window = Some(ListWindow { entries, through: None });
        Ok(true)
    }

    /// Reads about `most` entries of each list, up to the end of a millisecond.
    async fn read<S: SearchSource>(
        &self,
        search: &mut PageSearch<'_, S>,
        bounds: AxisBounds,
        most: usize,
    ) -> Result<ListWindow, S::Error> {
        let mut all = Vec::new();
        let mut through: Option<i64> = None;
        for list in &self.lists {
            let mut most = most;
            loop {
                let entries = search.read(list, self.axis.span(bounds), most).await?;
                let last = entries.last().filter(|_| entries.len() >= most).map(|last| self.axis.of(last.at));
                let first = entries.first().map(|first| self.axis.of(first.at));
                if last.is_some() && last == first {
                    // More runs of one millisecond than were asked for.
                    most = most.saturating_mul(GROWTH);
                    continue;
                }
                if let Some(last) = last {
                    through = Some(through.map_or(last - 1, |through| through.min(last - 1)));
                }
                all.extend(entries);
                break;
            }
        }
        if let Some(through) = through {
            all.retain(|entry| self.axis.of(entry.at) <= through);
        }
        self.axis.sort(&mut all);
        Ok(ListWindow { entries: all, through })
    }

    /// Returns the candidates that the group has.
    async fn keep<S: SearchSource>(
        &mut self,
        search: &mut PageSearch<'_, S>,
        candidates: Vec<ListEntry>,
    ) -> Result<Kept, S::Error> {
        if let Some(ListWindow { entries, through: None }) = &self.window {
            let has: HashSet<i64> = entries.iter().map(|entry| entry.rid).collect();
            let count = Some(entries.len());
            return Ok(Kept { entries: having(candidates, &has), count });
        }
        let mut has = HashSet::new();
        let mut count = 0;
        for list in &self.lists {
            let (entries, is_looked_up) =
                match search.within(list, &candidates, self.axis, self.is_dense).await? {
                    NearEntries::All(entries) => (entries, false),
                    NearEntries::LookedUp(entries) => (entries, true),
                    NearEntries::TooMany => {
                        self.is_dense = true;
                        return Ok(Kept { entries: candidates, count: None });
                    }
                };
            self.is_dense |= is_looked_up;
            count += entries.len();
            has.extend(entries.iter().map(|entry| entry.rid));
        }
        let count = (!self.is_dense).then_some(count);
        Ok(Kept { entries: having(candidates, &has), count })
    }
}

fn having(mut candidates: Vec<ListEntry>, has: &HashSet<i64>) -> Vec<ListEntry> {
    candidates.retain(|entry| has.contains(&entry.rid));
    candidates
}

/// Candidates that a group has.
struct Kept {
    entries: Vec<ListEntry>,
    /// The number of entries of the group in the window, if they were read.
    count: Option<usize>,
}

/// Entries of a list around candidates.
enum NearEntries {
    /// All between the first and the last candidate.
    All(Vec<ListEntry>),
    /// Those of candidates.
    LookedUp(Vec<ListEntry>),
    /// Reading the rows of the candidates is as cheap.
    TooMany,
}

struct PageSearch<'a, S> {
    source: &'a S,
    filter: &'a RunFilter,
    after: Option<&'a Cursor>,
    /// What it cost so far.
    work: usize,
    rows: Vec<(Cursor, Result<Row, String>)>,
}

impl<S: SearchSource> PageSearch<'_, S> {
    async fn read(
        &mut self,
        list: &SearchIndex,
        span: TimeSpan,
        most: usize,
    ) -> Result<Vec<ListEntry>, S::Error> {
        let entries = self.source.read(list, span, most).await?;
        self.work += entries.len() * S::entry_work(list);
        Ok(entries)
    }

    /// Reads the entries of a list around candidates, or looks the candidates up if the list has many more.
    async fn within(
        &mut self,
        list: &SearchIndex,
        candidates: &[ListEntry],
        axis: Axis,
        is_dense: bool,
    ) -> Result<NearEntries, S::Error> {
        let (Some(first), Some(last)) = (candidates.first(), candidates.last()) else {
            return Ok(NearEntries::All(Vec::new()));
        };
        if !is_dense {
            let bounds = AxisBounds { from: axis.of(first.at), end: axis.of(last.at) };
            let most = candidates.len() * DENSE;
            let entries = self.read(list, axis.span(bounds), most).await?;
            if entries.len() < most {
                return Ok(NearEntries::All(entries));
            }
        }
        let found = self.source.look_up(list, candidates).await?;
        self.work += candidates.len() * LOOKUP_WORK;
        Ok(found.map_or(NearEntries::TooMany, NearEntries::LookedUp))
    }

    /// Walks over the sparsest group and intersects it with the others. Returns where it stopped.
    async fn intersect(
        &mut self,
        mut groups: Vec<ListGroup>,
        without: &[SearchIndex],
        axis: Axis,
        bounds: AxisBounds,
    ) -> Result<Option<Cursor>, S::Error> {
        if groups.is_empty() {
            let mut all = ListGroup { lists: vec![SearchIndex::All], axis, is_dense: false, window: None };
            all.begin(self, bounds.from, bounds.end).await?;
            groups.push(all);
        }
        let mut driver = sparsest(&groups);
        let mut window = groups[driver].window.clone();
        let mut dense: Vec<bool> = without.iter().map(|_| false).collect();
        let mut size = WINDOW_FIRST;
        let mut from = bounds.from;
        loop {
            let ListWindow { entries, through } = match window.take() {
                Some(window) => window,
                None => groups[driver].read(self, AxisBounds { from, ..bounds }, size).await?,
            };
            let driven = entries.len();
            let last = entries.last().copied();
            let mut candidates = entries;
            let mut next_driver = driver;
            for (number, group) in groups.iter_mut().enumerate() {
                if number == driver || candidates.len() <= FEW {
                    continue;
                }
                let kept = group.keep(self, candidates).await?;
                candidates = kept.entries;
                if kept.count.is_some_and(|count| count < driven / 2) && through.is_some() {
                    next_driver = number;
                }
            }
            for (list, is_dense) in without.iter().zip(&mut dense) {
                if candidates.len() <= FEW {
                    break;
                }
                let entries = match self.within(list, &candidates, axis, *is_dense).await? {
                    NearEntries::All(entries) => entries,
                    NearEntries::LookedUp(entries) => {
                        *is_dense = true;
                        entries
                    }
                    NearEntries::TooMany => continue,
                };
                let has: HashSet<i64> = entries.iter().map(|entry| entry.rid).collect();
                candidates.retain(|entry| !has.contains(&entry.rid));
            }
            if let Some(stopped) = self.examine(&candidates).await? {
                return Ok(Some(stopped));
            }
            let Some(through) = through else { return Ok(None) };
            if self.work >= WORK_MAX
                && let Some(last) = last
                && let Some(stopped) = self.extreme(&[last]).await?
            {
                return Ok(Some(stopped));
            }
            if through >= bounds.end {
                return Ok(None);
            }
            from = through + 1;
            driver = next_driver;
            size = (size * GROWTH).min(WINDOW_MAX);
        }
    }

    /// Reads the rows of a few recovered runs and sorts them, or walks over all of them. Returns where it stopped.
    async fn recovered(&mut self, groups: &[ListGroup], axis: Axis) -> Result<Option<Cursor>, S::Error> {
        let whole =
            groups.iter().filter_map(|group| group.window.as_ref()).filter(|window| window.through.is_none());
        let fewest = whole.min_by_key(|window| window.entries.len());
        if let Some(window) = fewest.filter(|window| window.entries.len() <= UNTIMED_MAX) {
            for row in self.source.rows(&window.entries).await? {
                self.take(row);
            }
            return Ok(None);
        }
        let all = ListGroup { lists: vec![SearchIndex::Recovered], axis, is_dense: false, window: None };
        let mut from = axis.begin(CreatedBounds::default(), self.after.map(|after| after.at.0));
        let mut size = WINDOW_FIRST;
        loop {
            let window = all.read(self, AxisBounds { from, end: i64::MAX }, size).await?;
            if let Some(stopped) = self.examine(&window.entries).await? {
                return Ok(Some(stopped));
            }
            let Some(through) = window.through else { return Ok(None) };
            from = through + 1;
            size = (size * GROWTH).min(WINDOW_MAX);
        }
    }

    /// Reads the rows of candidates, in order, until the page is full or cost too much. Returns where it stopped.
    async fn examine(&mut self, candidates: &[ListEntry]) -> Result<Option<Cursor>, S::Error> {
        let enough = self.filter.limit as usize + 1;
        let mut size = enough.max(FEW);
        let mut rest = candidates;
        while let Some(boundary) = rest.get(size.min(rest.len()).wrapping_sub(1)) {
            let count = rest.partition_point_of(boundary.at);
            let (slice, after) = rest.split_at(count);
            rest = after;
            let stopped = self.extreme(slice).await?;
            if (self.rows.len() >= enough || self.work >= WORK_MAX) && stopped.is_some() {
                return Ok(stopped);
            }
            size = (size * GROWTH).min(WINDOW_MAX);
        }
        Ok(None)
    }

    /// Reads the rows of entries. Returns the last place among them, if it is after the beginning of the page.
    async fn extreme(&mut self, entries: &[ListEntry]) -> Result<Option<Cursor>, S::Error> {
        let mut last: Option<Cursor> = None;
        for row in self.source.rows(entries).await? {
            if last.as_ref().is_none_or(|last| self.is_after(&row.place, last)) {
                last = Some(row.place.clone());
            }
            self.take(row);
        }
        self.work += entries.len() * ROW_WORK;
        Ok(last.filter(|last| self.after.is_none_or(|after| self.is_after(last, after))))
    }

    fn take(&mut self, searched: SearchedRow) {
        let SearchedRow { place, row } = searched;
        let Some(row) = row else { return };
        self.work += DECODE_WORK;
        if self.after.is_some_and(|after| !self.is_after(&place, after)) {
            return;
        }
        match row {
            Ok(row) if !self.filter.selects(&row) => {}
            row => self.rows.push((place, row)),
        }
    }

    fn is_after(&self, place: &Cursor, other: &Cursor) -> bool {
        if self.filter.order.is_latest_first() { place < other } else { place > other }
    }
}

/// Returns the number of the group that has the fewest entries for its part of the axis.
fn sparsest(groups: &[ListGroup]) -> usize {
    let sparsity = |group: &ListGroup| match &group.window {
        Some(ListWindow { entries, through: None }) => (0, entries.len(), 0),
        Some(ListWindow { entries, through: Some(through) }) => {
            let begin = entries.first().map_or(*through, |first| group.axis.of(first.at));
            let density = i128::try_from(entries.len()).unwrap_or(i128::MAX) * 1_000_000
                / (i128::from(*through) - i128::from(begin) + 1).max(1);
            (1, 0, density)
        }
        None => (2, 0, 0),
    };
    let numbers = 0..groups.len();
    numbers.min_by_key(|number| groups.get(*number).map(sparsity)).unwrap_or_default()
}

/// Entries in the order of a list.
trait Ordered {
    /// Returns the number of entries up to the end of this millisecond, which the entries contain.
    fn partition_point_of(&self, at: i64) -> usize;
}

impl Ordered for [ListEntry] {
    fn partition_point_of(&self, at: i64) -> usize {
        self.iter().rposition(|entry| entry.at == at).map_or(0, |last| last + 1)
    }
}
