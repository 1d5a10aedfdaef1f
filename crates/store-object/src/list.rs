//! Lists of runs: markers give the order, rows say the rest. A marker that its row does not bear out is passed over.

use std::time::Duration;

use futures_util::future::try_join_all;
use goldseam_core::{Millis, RunId};
use goldseam_store::{Cursor, Page, RecordKind, Row, RunFilter, RunOrder, StoreError, Unreadable};

use crate::bucket::{Listed, SIDE_BY_SIDE};
use crate::keys::{self, Active, Place};
use crate::rows::Seen;
use crate::store::Inner;

/// Markers read at a time.
const CHUNK: usize = 1_000;
/// A marker whose run was never begun is left alone for so long: its writer may be on the way.
const ON_THE_WAY: Duration = Duration::from_secs(600);

/// Runs in the order of a list, and where to go on.
struct Chunk {
    places: Vec<Place>,
    /// The marker to go on behind; none: this is the last chunk.
    next: Option<String>,
}

impl Inner {
    pub(crate) async fn list_runs(&self, filter: &RunFilter) -> Result<Page<Row>, StoreError> {
        let after = filter.cursor()?;
        self.write_all_late().await?;
        let mut found: Vec<(Cursor, Result<Row, String>)> = Vec::new();
        let enough = filter.limit as usize + 1;
        let mut from = None;
        loop {
            let chunk = self.chunk(filter, after.as_ref(), from.take()).await?;
            let places: Vec<&Place> =
                chunk.places.iter().filter(|place| is_behind(place, filter, after.as_ref())).collect();
            for places in places.chunks(SIDE_BY_SIDE) {
                // A sweep goes from the oldest run that is not over to the newest; everybody else is told what is so.
                let rows = places.iter().map(async |place| match filter.order {
                    RunOrder::Oldest if is_narrow(filter) => self.row_for_sweep(&place.run).await,
                    _ => self.look_at_row(&place.run).await,
                });
                for (place, seen) in places.iter().zip(try_join_all(rows).await?) {
                    match seen {
                        Seen::None => {}
                        Seen::Row(known) => {
                            let Some(cursor) = Cursor::of(&known.row, filter.order) else { continue };
                            if cursor.at == place.at && filter.selects(&known.row) {
                                found.push((cursor, Ok(known.row)));
                            }
                        }
                        // Nothing but its marker says what sort of run it is.
                        Seen::Unreadable(reason) => {
                            let (by, at, run) = (filter.order.moment(), place.at, place.run.clone());
                            found.push((Cursor { by, at, run }, Err(reason)));
                        }
                    }
                }
                if found.len() >= enough {
                    break;
                }
            }
            match chunk.next {
                Some(next) if found.len() < enough => from = Some(next),
                _ => break,
            }
        }
        let more = found.len() >= enough;
        found.truncate(filter.limit as usize);
        let next = found.last().filter(|_| more).map(|(cursor, _)| cursor.to_string());
        let mut page = Page { next, ..Page::default() };
        for (cursor, row) in found {
            match row {
                Ok(row) => page.items.push(row),
                Err(reason) => {
                    page.unreadable.push(Unreadable::new(RecordKind::Row, cursor.run.as_str(), reason));
                }
            }
        }
        Ok(page)
    }

    /// A row as it is, or as it was when a sweep began that goes on.
    async fn row_for_sweep(&self, run: &RunId) -> Result<Seen, StoreError> {
        match self.rows.last_seen(run).filter(|known| self.walks.had(run, &known.tag)) {
            Some(known) => Ok(Seen::Row(Box::new(known))),
            None => self.look_at_row(run).await,
        }
    }

    /// The next runs that may be in the list, in its order.
    async fn chunk(
        &self,
        filter: &RunFilter,
        after: Option<&Cursor>,
        from: Option<String>,
    ) -> Result<Chunk, StoreError> {
        let is_narrow = is_narrow(filter);
        match filter.order {
            RunOrder::Oldest if is_narrow => {
                self.active(from.or(after.map(|after| Active::moment(after.at)))).await
            }
            RunOrder::Newest if is_narrow => {
                let mut all = Vec::new();
                let mut from = None;
                loop {
                    let chunk = self.active(from.take()).await?;
                    all.extend(chunk.places);
                    from = chunk.next;
                    if from.is_none() {
                        break;
                    }
                }
                all.reverse();
                Ok(Chunk { places: all, next: None })
            }
            RunOrder::Oldest => {
                let listed = self.bucket.list(keys::RUNS, None, usize::MAX).await?;
                let mut places = parse(keys::RUNS, &listed);
                places.sort_by(|a, b| (a.at, &a.run).cmp(&(b.at, &b.run)));
                Ok(Chunk { places, next: None })
            }
            RunOrder::Newest => {
                self.latest(keys::RUNS, from.or(after.map(|after| Place::moment(keys::RUNS, after.at)))).await
            }
            RunOrder::Recovered => {
                self.latest(
                    keys::RECOVERED,
                    from.or(after.map(|after| Place::moment(keys::RECOVERED, after.at))),
                )
                .await
            }
        }
    }

    /// Runs that are not over, the earliest queued first.
    async fn active(&self, from: Option<String>) -> Result<Chunk, StoreError> {
        let place = |key: &str| {
            let marker = Active::parse(key)?;
            Some(Place { at: marker.created, run: marker.run })
        };
        let (mut places, last) = self.whole_moments(keys::ACTIVE, from, place).await?;
        places.sort_by(|a, b| (a.at, &a.run).cmp(&(b.at, &b.run)));
        places.dedup();
        Ok(Chunk { places, next: last.map(|at| Active::moment(Millis(at.0 + 1))) })
    }

    /// Runs in a folder that begins with the latest.
    async fn latest(&self, folder: &str, from: Option<String>) -> Result<Chunk, StoreError> {
        let place = |key: &str| Place::parse(folder, key);
        let (mut places, last) = self.whole_moments(folder, from, place).await?;
        places.sort_by(|a, b| (b.at, &b.run).cmp(&(a.at, &a.run)));
        Ok(Chunk { places, next: last.map(|at| Place::moment(folder, Millis(at.0 - 1))) })
    }

    /// The next markers of a folder, all of each moment: within a moment they do not stand in the order of a list.
    /// With the last moment, if there may be more.
    async fn whole_moments(
        &self,
        folder: &str,
        from: Option<String>,
        parse: impl Fn(&str) -> Option<Place>,
    ) -> Result<(Vec<Place>, Option<Millis>), StoreError> {
        let mut limit = CHUNK;
        loop {
            let listed = self.bucket.list(folder, from.as_deref(), limit).await?;
            let full = listed.len() >= limit;
            let mut places: Vec<Place> = listed.iter().filter_map(|entry| parse(&entry.key)).collect();
            if !full {
                return Ok((places, None));
            }
            let last = places.last().map(|place| place.at);
            places.retain(|place| Some(place.at) != last);
            match places.last().map(|place| place.at) {
                Some(last) => return Ok((places, Some(last))),
                None => limit *= 4,
            }
        }
    }

    /// Takes markers away of runs that are over, and of runs that were never begun.
    pub(crate) async fn tidy_active(&self) -> Result<(), StoreError> {
        let listed = self.bucket.list(keys::ACTIVE, None, usize::MAX).await?;
        let now = self.clock.now();
        let old: Vec<(Active, &Listed)> = listed
            .iter()
            .filter(|entry| now.since(entry.modified) > ON_THE_WAY)
            .filter_map(|entry| Some((Active::parse(&entry.key)?, entry)))
            .collect();
        for markers in old.chunks(SIDE_BY_SIDE) {
            let rows =
                try_join_all(markers.iter().map(|(marker, _)| self.row_for_sweep(&marker.run))).await?;
            for ((marker, entry), known) in markers.iter().zip(rows) {
                let over = match known {
                    Seen::Unreadable(_) => false,
                    Seen::Row(known) => {
                        known.row.summary.created_at != marker.created
                            || known.is_over() && known.row.summary.as_of > marker.after
                    }
                    Seen::None => self.logs.find(&self.bucket, &marker.run, 0).await?.is_none(),
                };
                if over {
                    self.bucket.delete(&entry.key).await?;
                }
            }
        }
        Ok(())
    }
}

/// Whether only runs are asked for that are not over: they have markers of their own.
fn is_narrow(filter: &RunFilter) -> bool {
    !filter.statuses.is_empty() && filter.statuses.iter().all(|status| !status.is_terminal())
}

fn parse(folder: &str, listed: &[Listed]) -> Vec<Place> {
    listed.iter().filter_map(|entry| Place::parse(folder, &entry.key)).collect()
}

fn is_behind(place: &Place, filter: &RunFilter, after: Option<&Cursor>) -> bool {
    let Some(after) = after else { return true };
    let (here, there) = ((place.at, &place.run), (after.at, &after.run));
    if filter.order.is_latest_first() { here < there } else { here > there }
}
