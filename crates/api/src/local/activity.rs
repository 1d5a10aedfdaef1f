//! Counts starts, ends and recoveries of a recent time.

use goldseam::unstable::store::RunFilter;
use goldseam::{Millis, Status, Summary};

use super::{LocalApi, search};
use crate::api::{ApiResult, HealingApi};
use crate::doc::PAGE_MAX;
use crate::doc::activity::{
    ActivityDoc, ActivityQuery, INTERVAL_MS_DEFAULT, INTERVALS_MAX, IntervalDoc, WINDOW_MS_DEFAULT,
};
use crate::doc::heal::{HealingDoc, RecoveriesQuery};
use crate::problem::Problem;
use crate::timestamp::iso;
use crate::view::percentiles::Percentiles;

/// Maximum number of pages of runs that one request reads for starts, and again for ends of runs that began before.
const PAGES_MAX: usize = 40;
/// Maximum number of recoveries that one request reads.
const RECOVERIES_MAX: usize = 5_000;

/// The intervals while they are counted.
struct Intervals {
    since: i64,
    length: i64,
    counts: Vec<IntervalDoc>,
}

impl Intervals {
    fn new(query: &ActivityQuery, now: Millis) -> Result<Self, Problem> {
        let length = query.interval_ms.unwrap_or(INTERVAL_MS_DEFAULT);
        let since = query.since_ms.unwrap_or(now.0 - WINDOW_MS_DEFAULT);
        let invalid = |what: String| Problem::bad_request(what).code("GS0627").limit(INTERVALS_MAX);
        let span = match now.0.checked_sub(since) {
            Some(span) if span >= 0 => span,
            _ => return Err(invalid("`since_ms` is after the present time".to_owned())),
        };
        let Some(length) = i64::try_from(length).ok().filter(|length| *length > 0) else {
            return Err(invalid("`interval_ms` must be greater than zero".to_owned()));
        };
        // Intervals begin at multiples of their length, so that later requests count the same ones.
        let first = since.div_euclid(length).saturating_mul(length);
        let count = u64::try_from(span / length).unwrap_or(u64::MAX).saturating_add(2);
        if count > INTERVALS_MAX + 2 {
            return Err(invalid(format!(
                "that are more than {INTERVALS_MAX} intervals; choose a later `since_ms` or a longer `interval_ms`"
            )));
        }
        let begins = (0..).map(|n: i64| first + n * length).take_while(|at| *at <= now.0);
        let counts = begins.map(|at| IntervalDoc { at: Millis(at), ..IntervalDoc::default() }).collect();
        Ok(Self { since: first, length, counts })
    }

    /// The interval of a time; none if it is not counted.
    fn at(&mut self, at: Millis) -> Option<&mut IntervalDoc> {
        let place = usize::try_from((at.0 - self.since).div_euclid(self.length)).ok()?;
        self.counts.get_mut(place)
    }

    fn count_start(&mut self, run: &Summary) {
        if let Some(interval) = self.at(run.created_at) {
            interval.started += 1;
        }
    }

    fn count_end(&mut self, run: &Summary) {
        let Some(interval) = run.finished_at.and_then(|at| self.at(at)) else { return };
        match run.status {
            Status::Completed => interval.completed += 1,
            Status::Failed => interval.failed += 1,
            Status::Cancelled => interval.cancelled += 1,
            _ => {}
        }
    }
}

impl LocalApi {
    /// Counts what happened since a time.
    pub(super) async fn count_activity(&self, query: ActivityQuery) -> ApiResult<ActivityDoc> {
        let now = self.client.now();
        let mut intervals = Intervals::new(&query, now)?;
        let runs_complete = self.count_runs(&mut intervals).await?;
        let (healings, healings_complete) = self.healings_since(intervals.since).await?;
        for healing in &healings {
            if let Some(interval) = intervals.at(healing.at_ms) {
                interval.recovered += 1;
            }
        }
        let stalled = |one: &HealingDoc| i64::try_from(one.stalled_ms).unwrap_or(i64::MAX);
        Ok(ActivityDoc {
            complete: runs_complete && healings_complete,
            interval_ms: u64::try_from(intervals.length).unwrap_or_default(),
            stalled_ms: Percentiles::of(healings.iter().map(stalled).collect()),
            heal_ms: Percentiles::of(healings.iter().filter_map(|one| one.heal_ms).collect()),
            intervals: intervals.counts,
            now,
        })
    }

    /// Counts runs that were queued or ended in the time. Returns whether all were read.
    ///
    /// Two walks: runs that were queued in the time are neighbours in an index. Those that were queued before and ended
    /// in it are found from the latest on.
    async fn count_runs(&self, intervals: &mut Intervals) -> ApiResult<bool> {
        let since = Millis(intervals.since);
        let recent = RunFilter { since: Some(since), limit: PAGE_MAX, ..RunFilter::default() };
        let all_recent = self
            .walk(recent, |run| {
                intervals.count_start(run);
                intervals.count_end(run);
            })
            .await?;
        let since = iso(since);
        let condition = format!("created < {since} and ended >= {since}");
        let condition = search::condition(Some(&condition), self.client.now())?;
        let older = RunFilter { condition, limit: PAGE_MAX, ..RunFilter::default() };
        let all_older = self.walk(older, |run| intervals.count_end(run)).await?;
        Ok(all_recent && all_older)
    }

    /// Calls `each` for the runs of a filter. Returns whether all were read.
    async fn walk(&self, mut filter: RunFilter, mut each: impl FnMut(&Summary)) -> ApiResult<bool> {
        for _ in 0..PAGES_MAX {
            let page = self.client.list(filter.clone()).await?;
            page.items.iter().for_each(|row| each(&row.summary));
            match page.next {
                Some(next) => filter.after = Some(next),
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Returns the recoveries since a time, and whether all were read.
    async fn healings_since(&self, since: i64) -> ApiResult<(Vec<HealingDoc>, bool)> {
        let mut query =
            RecoveriesQuery { since_ms: Some(since), limit: Some(PAGE_MAX), ..RecoveriesQuery::default() };
        let mut healings = Vec::new();
        while healings.len() < RECOVERIES_MAX {
            let page = self.recoveries(query.clone()).await?;
            healings.extend(page.items);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok((healings, true)),
            }
        }
        Ok((healings, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(since_ms: i64, interval_ms: u64) -> ActivityQuery {
        ActivityQuery { since_ms: Some(since_ms), interval_ms: Some(interval_ms) }
    }

    #[test]
    fn intervals_begin_at_multiples_of_their_length() {
        let mut intervals = Intervals::new(&query(150, 100), Millis(420)).unwrap();
        let begins: Vec<i64> = intervals.counts.iter().map(|interval| interval.at.0).collect();
        assert_eq!(begins, [100, 200, 300, 400]);
        assert_eq!(intervals.at(Millis(399)).unwrap().at, Millis(300));
        assert_eq!(intervals.at(Millis(99)), None);
        assert_eq!(intervals.at(Millis(500)), None);
    }

    #[test]
    fn refuses_the_future_and_too_many_intervals() {
        for (since, length) in [(1_000, 10), (0, 0), (i64::MIN, 1), (0, u64::MAX), (-10_000_000, 1)] {
            let problem = Intervals::new(&query(since, length), Millis(500)).err();
            assert_eq!(
                problem.and_then(|problem| problem.code).as_deref(),
                Some("GS0627"),
                "{since} {length}"
            );
        }
    }
}
