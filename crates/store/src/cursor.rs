//! Cursors of lists of runs: the order is (time, run), so a cursor names both.

use std::fmt;
use std::str::FromStr;

use goldseam_core::hash::Hash;
use goldseam_core::{Millis, RunId};

use crate::error::StoreError;
use crate::types::{Row, RunFilter, RunOrder};

/// Prefix of a cursor of recovered runs.
const RECOVERED: char = 'r';
/// Separates a cursor from the list that it belongs to; neither times nor run ids contain it.
const OF_LIST: char = '~';

/// The time of a run that a list is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderKey {
    /// When it was queued.
    Created,
    /// When it was last recovered.
    Recovered,
}

impl RunOrder {
    /// Returns the time that orders the list.
    pub fn key(self) -> OrderKey {
        match self {
            Self::Newest | Self::Oldest => OrderKey::Created,
            Self::Recovered => OrderKey::Recovered,
        }
    }

    /// Returns whether later runs come first.
    pub fn is_latest_first(self) -> bool {
        match self {
            Self::Newest | Self::Recovered => true,
            Self::Oldest => false,
        }
    }
}

impl RunFilter {
    /// Returns the cursor to begin after. Refuses a cursor of a list in another order.
    pub fn cursor(&self) -> Result<Option<Cursor>, StoreError> {
        let Some(text) = &self.after else { return Ok(None) };
        let cursor: Cursor = text.parse()?;
        if cursor.by == self.order.key() { Ok(Some(cursor)) } else { Err(StoreError::foreign_cursor(text)) }
    }
}

/// The last run of a page; the next page begins after it, even if the run is gone by then.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    /// The time that orders the list.
    pub by: OrderKey,
    /// That time of the run.
    pub at: Millis,
    /// The run, among those with the same time.
    pub run: RunId,
}

impl Cursor {
    /// Returns the place of this row in a list of this order; none if the list does not contain it.
    pub fn of(row: &Row, order: RunOrder) -> Option<Self> {
        let by = order.key();
        let at = match by {
            OrderKey::Created => row.summary.created_at,
            OrderKey::Recovered => row.summary.recovered_at?,
        };
        Some(Self { by, at, run: row.summary.run.clone() })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            OrderKey::Created => write!(f, "{}:{}", self.at.0, self.run),
            OrderKey::Recovered => write!(f, "{RECOVERED}{}:{}", self.at.0, self.run),
        }
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let parse = || {
            let (by, rest) = match text.strip_prefix(RECOVERED) {
                Some(rest) => (OrderKey::Recovered, rest),
                None => (OrderKey::Created, text),
            };
            let (at, run) = rest.split_once(':')?;
            Some(Self { by, at: Millis(at.parse().ok()?), run: RunId::new(run).ok()? })
        };
        parse().ok_or_else(|| StoreError::foreign_cursor(text))
    }
}

/// The list that a cursor belongs to, as a hash of its condition and order. Moments do not count: a relative time such as
/// `-2h` is another moment on every page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundList(String);

impl BoundList {
    /// The list of these conditions and this order.
    pub fn new(parts: &[&str]) -> Self {
        let parts: Vec<String> = parts.iter().map(|part| without_moments(part)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        Self(format!("{:08x}", Hash::of_parts(&parts).leading() >> 32))
    }

    /// Binds a cursor of this list to it.
    pub fn bind(&self, cursor: Option<String>) -> Option<String> {
        cursor.map(|cursor| format!("{cursor}{OF_LIST}{}", self.0))
    }

    /// Returns a cursor without its list. Refuses a cursor of another list; accepts a cursor of an earlier release, which
    /// names none.
    pub fn open(&self, cursor: Option<String>) -> Result<Option<String>, StoreError> {
        let Some(text) = cursor else { return Ok(None) };
        match text.rsplit_once(OF_LIST) {
            Some((cursor, list)) if list == self.0 => Ok(Some(cursor.to_owned())),
            Some(_) => Err(StoreError::cursor_of_another_list()),
            None => Ok(Some(text)),
        }
    }
}

/// Returns the text without its moments, as in `2026-11-18T05:10:00.000Z`.
fn without_moments(text: &str) -> String {
    let is_moment = |rest: &str| {
        let date = rest.as_bytes().get(..11);
        date.is_some_and(|date| {
            date.iter().zip(b"0000-00-00T").all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                _ => byte == form,
            })
        })
    };
    let mut left = text;
    let mut without = String::new();
    while let Some(first) = left.chars().next() {
        if is_moment(left) {
            left = left.trim_start_matches(|c: char| c.is_ascii_digit() || "-T:.Z".contains(c));
        } else {
            without.push(first);
            left = &left[first.len_utf8()..];
        }
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_the_same_at_another_moment() {
        let list = |condition: &str| BoundList::new(&[condition, "Newest"]);
        let early = "created > 2026-11-18T05:10:00.000Z and amount > 1";
        assert_eq!(list(early), list("created > 2026-11-18T05:10:00.451Z and amount > 1"));
        assert_ne!(list(early), list("created > 2026-11-18T05:10:00.000Z and amount > 2"));
        assert_ne!(list("region = \"é\""), list("region = \"e\""));
    }

    #[test]
    fn a_cursor_round_trips_and_matches_its_list_only() {
        let at = Millis(7);
        let run = RunId::new("r1").unwrap();
        for (by, text, fits, other) in [
            (OrderKey::Created, "7:r1", RunOrder::Oldest, RunOrder::Recovered),
            (OrderKey::Recovered, "r7:r1", RunOrder::Recovered, RunOrder::Newest),
        ] {
            let cursor = Cursor { by, at, run: run.clone() };
            assert_eq!(
                (cursor.to_string().as_str(), text.parse::<Cursor>().unwrap()),
                (text, cursor.clone())
            );
            let asked =
                |order| RunFilter { order, after: Some(text.to_owned()), ..RunFilter::default() }.cursor();
            assert_eq!(asked(fits).unwrap(), Some(cursor));
            assert!(asked(other).is_err());
        }
        assert_eq!(RunFilter::default().cursor().unwrap(), None);
        for wrong in ["", "7", "7:", ":r1", "x7:r1", "7:a/b"] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_cursor_of_another_condition_or_order_is_refused() {
        let list = BoundList::new(&["status = failed", "newest"]);
        let cursor = list.bind(Some("7:r1".to_owned()));
        assert_eq!(list.open(cursor.clone()).unwrap().as_deref(), Some("7:r1"));
        for other in
            [["status = failed", "oldest"], ["status = parked", "newest"], ["", "status = failednewest"]]
        {
            let refused = BoundList::new(&other).open(cursor.clone());
            assert!(matches!(refused, Err(StoreError::Refused { code: "GS0154", .. })), "{refused:?}");
        }
        // An earlier release bound no cursor.
        assert_eq!(list.open(Some("7:r1".to_owned())).unwrap().as_deref(), Some("7:r1"));
        assert_eq!((list.bind(None), list.open(None).unwrap()), (None, None));
    }

    #[test]
    fn only_the_oldest_order_begins_with_early_runs() {
        let orders = [RunOrder::Newest, RunOrder::Oldest, RunOrder::Recovered];
        assert_eq!(orders.map(RunOrder::is_latest_first), [true, false, true]);
    }
}
