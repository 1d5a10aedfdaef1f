//! What columns prove about a run, and unproven runs by listing, for stores without such columns.

use goldseam_core::task::Task;
use goldseam_core::{Millis, Status, Summary};

use crate::api::Store;
use crate::error::StoreError;
use crate::types::{RunFilter, RunOrder, Unproven, UnprovenFilter, UnprovenScope};

/// Statuses of runs that are expected to progress.
pub const ACTIVE: [Status; 5] =
    [Status::Queued, Status::Running, Status::Waiting, Status::Sleeping, Status::Compensating];

/// What the columns of a row repeat of an active run, so that a store can prove that it is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// The kind of advance task that the run needs.
    pub needs: String,
    /// Twice the number of remote tasks that it waits for, plus 1 if it waits for children.
    pub on: i64,
    /// When its rest ends if nothing else happens; none if it does not rest.
    pub until: Option<Millis>,
}

impl Rest {
    /// Returns the columns of a row; none if the run is not active or the row contradicts itself.
    pub fn of(summary: &Summary) -> Option<Self> {
        if !ACTIVE.contains(&summary.status) || !summary.is_coherent() {
            return None;
        }
        let tasks: usize = summary.waits.iter().map(|wait| wait.tasks.len()).sum();
        let children = summary.waits.iter().any(|wait| !wait.children.is_empty());
        let is_delayed = summary.status == Status::Queued && summary.begins_at().is_some();
        let rests = (matches!(summary.status, Status::Waiting | Status::Sleeping) || is_delayed)
            && summary.owner.is_none()
            && summary.mail_unread == 0
            && summary.cancel.is_none()
            && summary.jump.is_none();
        Some(Self {
            needs: Task::advance_kind(summary.workflow.as_str(), summary.version),
            on: i64::try_from(2 * tasks).unwrap_or(i64::MAX - 1) + i64::from(children),
            until: rests.then(|| summary.due().unwrap_or(Millis::NEVER)),
        })
    }
}

/// Statuses in which a run never rests.
const PLAIN: [Status; 3] = [Status::Queued, Status::Running, Status::Compensating];

/// A part of the active runs. A store with indexes reads one part after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnprovenPart {
    /// Runs in a status in which no run rests.
    Plain(Status),
    /// Waiting runs that do not rest.
    Awake,
    /// Resting runs, in order of id.
    Resting,
    /// Resting runs whose rest is over.
    Ended,
    /// Resting runs whose task a lost node holds.
    Lost,
}

impl UnprovenPart {
    /// The parts of a scope.
    fn all(scope: UnprovenScope) -> [Option<Self>; 6] {
        let [one, two, three] = PLAIN.map(|status| Some(Self::Plain(status)));
        match scope {
            UnprovenScope::Every => [one, two, three, Some(Self::Awake), Some(Self::Resting), None],
            UnprovenScope::Watched => {
                [one, two, three, Some(Self::Awake), Some(Self::Ended), Some(Self::Lost)]
            }
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Plain(status) => status.as_str(),
            Self::Awake => "awake",
            Self::Resting => "resting",
            Self::Ended => "ended",
            Self::Lost => "lost",
        }
    }
}

/// The place after a page of unproven runs: the part, and the last run of it that was read. As text `awake:KEY`,
/// `queued:1700000000000:KEY` or `resting:KEY`; a key contains no colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnprovenPlace {
    /// The part.
    pub part: UnprovenPart,
    /// The time that orders the part, if one does.
    pub at: Option<i64>,
    /// The key of the run in this store; empty before the first.
    pub key: String,
}

impl UnprovenPlace {
    /// Where a search begins. Refuses a cursor that no page of this scope returned.
    pub fn of(filter: &UnprovenFilter) -> Result<Self, StoreError> {
        match filter.after.as_deref() {
            None => Ok(Self::start(UnprovenPart::Plain(PLAIN[0]))),
            Some(text) => Self::parse(text, filter.scope).ok_or_else(|| StoreError::foreign_cursor(text)),
        }
    }

    fn start(part: UnprovenPart) -> Self {
        Self { part, at: None, key: String::new() }
    }

    /// The beginning of the next part; none after the last.
    pub fn next(&self, scope: UnprovenScope) -> Option<Self> {
        let mut parts = UnprovenPart::all(scope).into_iter().flatten();
        parts.find(|part| *part == self.part);
        parts.next().map(Self::start)
    }

    fn parse(text: &str, scope: UnprovenScope) -> Option<Self> {
        let (word, rest) = text.split_once(':')?;
        let part = UnprovenPart::all(scope).into_iter().flatten().find(|part| part.word() == word)?;
        let (at, key) = match rest.split_once(':') {
            Some((at, key)) => (Some(at.parse().ok()?), key),
            None => (None, rest),
        };
        Some(Self { part, at, key: key.to_owned() })
    }

    /// The place as a cursor.
    pub fn text(&self) -> String {
        let word = self.part.word();
        match self.at {
            Some(at) => format!("{word}:{at}:{}", self.key),
            None => format!("{word}:{}", self.key),
        }
    }
}

impl UnprovenFilter {
    /// Most runs that a store reads at a time while `left` runs may still be read. Resting runs are read in large
    /// windows, because nearly all of them are proven to be well.
    pub fn group(&self, part: UnprovenPart, left: u32) -> u32 {
        match (part, self.found_max) {
            (UnprovenPart::Resting, _) | (_, None) => left,
            (_, Some(max)) => left.min(max.max(1)),
        }
    }

    /// Returns true once a page has reached the bound on unproven runs.
    pub fn is_full(&self, found: &Unproven) -> bool {
        let count = found.rows.len() + found.unreadable.len();
        self.found_max.is_some_and(|max| count >= max.max(1) as usize)
    }
}

/// Returns the next active runs, all of them unproven, and paused and parked runs whose deadline has passed.
pub(crate) async fn listed<S: Store + ?Sized>(
    store: &S,
    filter: UnprovenFilter,
) -> Result<Unproven, StoreError> {
    let UnprovenFilter { after, limit, found_max, now, .. } = filter;
    let limit = found_max.map_or(limit, |max| limit.min(max.max(1)));
    let list = RunFilter {
        statuses: ACTIVE.into_iter().chain([Status::Paused, Status::Parked]).collect(),
        order: RunOrder::Oldest,
        after,
        limit,
        ..RunFilter::default()
    };
    let mut page = store.runs(list).await?;
    page.items.retain(|row| row.summary.status.is_active() || row.summary.is_overdue(now));
    Ok(Unproven { rows: page.items, unreadable: page.unreadable, skipped: 0, next: page.next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_by_their_scope_and_cursors_of_ids_refused() {
        let filter = |scope, after: &str| UnprovenFilter {
            scope,
            after: Some(after.to_owned()),
            ..UnprovenFilter::default()
        };
        for scope in [UnprovenScope::Every, UnprovenScope::Watched] {
            let mut place = Some(UnprovenPlace::of(&UnprovenFilter { scope, ..Default::default() }).unwrap());
            let mut parts = Vec::new();
            while let Some(this) = place {
                let last = UnprovenPlace { at: Some(-7), key: "r-1".to_owned(), ..this.clone() };
                for read in [last, this.clone()] {
                    assert_eq!(UnprovenPlace::of(&filter(scope, &read.text())).unwrap(), read);
                }
                parts.push(this.part.word());
                place = this.next(scope);
            }
            assert_eq!(parts[..4], ["queued", "running", "compensating", "awake"]);
            assert_eq!(parts.last() == Some(&"resting"), scope == UnprovenScope::Every);
            // Earlier releases returned the id of a run.
            for other in ["r-1", "", "asleep:7", "queued:x:7"] {
                assert!(UnprovenPlace::of(&filter(scope, other)).is_err(), "{other}");
            }
        }
        assert!(UnprovenPlace::of(&filter(UnprovenScope::Watched, "resting:a")).is_err());
    }
}
