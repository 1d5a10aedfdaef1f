//! The feed of all appends ([`crate::feed_log`]). A reader at its end extends it: it finds the runs whose logs have
//! grown, and appends a page that says so. A bucket without readers has no feed and pays nothing.
//!
//! Invariant: a page is written before its events are returned, and never changes. A crash between any two requests
//! therefore loses and repeats nothing: the next reader continues from the pages that exist.
//!
//! Appends of this process are known at once. Those of other processes are found by a list of `workflow/`, one request
//! per 1,000 objects; lists are the rarer the more requests they take, so that their number per hour is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use goldseam_core::{RunId, Seq};
use goldseam_store::feed::{place_beyond_end, unknown_place};
use goldseam_store::{ChangedRuns, Feed, FeedEvent, StoreError};

use crate::bucket::{Put, PutCondition};
use crate::clock::MonotonicTime;
use crate::fault::busy;
use crate::feed_log::{BatchRange, BucketFeedPlace, FeedEnds, FeedPage, RANGES_MAX};
use crate::feed_state::Extender;
use crate::inner::BucketState;
use crate::keys::{self, Part};

/// Objects per request of a list.
const LISTED_EACH: usize = 1_000;
/// Fewest pages between two checkpoints.
const CHECKPOINT_EVERY: u64 = 64;
/// Runs for which a checkpoint may be one page rarer.
const CHECKPOINT_RUNS: u64 = 100;
/// How long a call waits for another one that extends the feed.
const EXTENDING_MAX: Duration = Duration::from_secs(10);

/// How eagerly appends of other processes are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FeedSearch {
    /// If a list is due.
    WhenDue,
    /// Now.
    Now,
}

impl BucketState {
    /// Reads a page; none after the last one. A damaged page counts as empty: its batches enter the feed again.
    async fn feed_page(&self, number: u64) -> Result<Option<Arc<FeedPage>>, StoreError> {
        if let Some(page) = self.feed.pages().0.get(&number) {
            return Ok(Some(Arc::clone(page)));
        }
        let key = keys::feed_page(number);
        let Some(object) = self.bucket.get(&key).await? else { return Ok(None) };
        let page = FeedPage::decode(&key, &object.body).unwrap_or_else(|error| {
            tracing::error!(key, %error, "skipping damaged page of the feed");
            FeedPage { write: String::new(), ranges: Vec::new() }
        });
        let page = Arc::new(page);
        self.feed.remember(number, Arc::clone(&page));
        Ok(Some(page))
    }

    /// Returns where the feed ends, after adding all appends that are known or were found. Returns the last page.
    async fn extend_feed(&self, search: FeedSearch) -> Result<u64, StoreError> {
        self.feed.own().read_at = Some(MonotonicTime::now());
        let held = tokio::time::timeout(EXTENDING_MAX, self.feed.extending.lock()).await;
        let mut extender =
            held.map_err(|_| busy("extending the feed", "another call still extends it".into()))?;
        let mut current = match extender.ends.take() {
            Some(ends) => ends,
            // At the first read, and after a call that was dropped half-way.
            None => {
                let found = self.feed_checkpoint().await?;
                *extender = Extender { checkpoint: found.page, ..Extender::default() };
                found
            }
        };
        let extended = self.extend_from(&mut extender, &mut current, search).await;
        let last = current.page;
        self.feed.known_end.store(last, Ordering::SeqCst);
        extender.ends = Some(current);
        extended.map(|()| last)
    }

    async fn extend_from(
        &self,
        extender: &mut Extender,
        ends: &mut FeedEnds,
        search: FeedSearch,
    ) -> Result<(), StoreError> {
        let lists = search == FeedSearch::Now || extender.is_list_due(self.requests);
        if !lists && !extender.is_page_due(self.requests) {
            return Ok(());
        }
        let own = std::mem::take(&mut self.feed.own().last_batches);
        if !lists && own.is_empty() {
            return Ok(());
        }
        let written = self.write_pages(extender, ends, own.clone(), lists).await;
        if written.is_err() {
            for (run, batch) in own {
                self.feed.note_append(&run, batch);
            }
        }
        written
    }

    async fn write_pages(
        &self,
        extender: &mut Extender,
        ends: &mut FeedEnds,
        mut last_batches: HashMap<RunId, u64>,
        lists: bool,
    ) -> Result<(), StoreError> {
        if lists {
            let began = MonotonicTime::now();
            let (found, requests) = self.last_batches().await?;
            for (run, batch) in found {
                let last = last_batches.entry(run).or_default();
                *last = (*last).max(batch);
            }
            (extender.listed_at, extender.list_requests) = (Some(began), requests);
            self.follow_pages(ends).await?;
        }
        loop {
            let ranges = ends.missing(&last_batches);
            if lists {
                extender.quiet_lists =
                    if ranges.is_empty() { extender.quiet_lists.saturating_add(1) } else { 0 };
            }
            if self.append_pages(extender, ends, ranges).await? {
                break;
            }
            // Another reader extended the feed, perhaps by the same batches.
            self.follow_pages(ends).await?;
        }
        let due = extender.checkpoint + CHECKPOINT_EVERY.max(ends.runs() as u64 / CHECKPOINT_RUNS);
        if ends.page >= due {
            self.write_feed_checkpoint(ends).await;
            extender.checkpoint = ends.page;
        }
        Ok(())
    }

    /// Appends these ranges, page by page. Returns false if another reader wrote a page meanwhile.
    async fn append_pages(
        &self,
        extender: &mut Extender,
        ends: &mut FeedEnds,
        ranges: Vec<BatchRange>,
    ) -> Result<bool, StoreError> {
        for ranges in ranges.chunks(RANGES_MAX) {
            let page = FeedPage { write: self.write_ids.next(), ranges: ranges.to_vec() };
            let number = ends.page + 1;
            let key = keys::feed_page(number);
            match self.bucket.put_if(&key, page.encode(), PutCondition::CreateOnce).await? {
                Put::Done(_) => {
                    ends.add(&page);
                    self.feed.remember(number, Arc::new(page));
                    extender.paged_at = Some(MonotonicTime::now());
                }
                Put::Lost(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Counts the pages that other readers have written.
    async fn follow_pages(&self, ends: &mut FeedEnds) -> Result<(), StoreError> {
        while let Some(page) = self.feed_page(ends.page + 1).await? {
            ends.add(&page);
        }
        Ok(())
    }

    /// The last batch of every log, and the number of requests of the list.
    async fn last_batches(&self) -> Result<(HashMap<RunId, u64>, u32), StoreError> {
        let listed = self.bucket.list(keys::WORKFLOWS, None, usize::MAX).await?;
        let requests = u32::try_from(listed.len() / LISTED_EACH + 1).unwrap_or(u32::MAX);
        let mut last_batches: HashMap<RunId, u64> = HashMap::new();
        for (run, part) in listed.iter().filter_map(|entry| keys::run_part(&entry.key)) {
            if let Part::Batch(batch) = part {
                let last = last_batches.entry(run).or_default();
                *last = (*last).max(batch);
            }
        }
        Ok((last_batches, requests))
    }

    /// The latest checkpoint, so that a new reader does not read every page.
    async fn feed_checkpoint(&self) -> Result<FeedEnds, StoreError> {
        let latest = self.bucket.list(keys::FEED_ENDS, None, 1).await?;
        let Some(entry) = latest.first() else { return Ok(FeedEnds::default()) };
        let Some(object) = self.bucket.get(&entry.key).await? else { return Ok(FeedEnds::default()) };
        Ok(serde_json::from_slice(&object.body).unwrap_or_else(|error| {
            tracing::warn!(key = entry.key, %error, "skipping damaged checkpoint of the feed");
            FeedEnds::default()
        }))
    }

    /// Writes a checkpoint and removes the others. Only a hint: without it, a new reader reads more pages.
    async fn write_feed_checkpoint(&self, ends: &FeedEnds) {
        let key = keys::feed_ends(ends.page);
        let write = async {
            self.bucket.put(&key, serde_json::to_vec(ends).unwrap_or_default().into()).await?;
            for old in self.bucket.list(keys::FEED_ENDS, Some(&key), LISTED_EACH).await? {
                self.bucket.delete(&old.key).await?;
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = write.await {
            tracing::warn!(%error, "failed to write checkpoint of the feed");
        }
    }

    /// Adds the events of a page after a place, up to `limit` in total.
    async fn add_events(
        &self,
        page: &FeedPage,
        after: BucketFeedPlace,
        limit: usize,
        events: &mut Vec<FeedEvent>,
    ) -> Result<(), StoreError> {
        for (range, BatchRange(run, first, last)) in page.ranges.iter().enumerate().skip(after.range) {
            let seen = if range == after.range { after.seq } else { Seq::ZERO };
            for batch in *first..=*last {
                if events.len() >= limit {
                    return Ok(());
                }
                // A trimmed or lost batch has no events.
                let Some((batch, _)) = self.logs.get(&self.bucket, run, batch).await? else { continue };
                let new = batch.records.iter().filter(|record| record.seq > seen);
                events.extend(new.take(limit - events.len()).map(|record| FeedEvent {
                    place: BucketFeedPlace { page: after.page, range, seq: record.seq }.text(),
                    run: run.clone(),
                    record: record.clone(),
                }));
            }
        }
        Ok(())
    }

    /// The place after the last event of the feed.
    async fn feed_end(&self, last: u64) -> Result<Option<BucketFeedPlace>, StoreError> {
        if last == 0 {
            return Ok(None);
        }
        let ranges = self.feed_page(last).await?.map_or(0, |page| page.ranges.len());
        Ok(Some(BucketFeedPlace::end_of(last, ranges)))
    }

    /// Refuses a place that no page of the feed has.
    async fn check_place(&self, place: BucketFeedPlace, text: &str, last: u64) -> Result<(), StoreError> {
        if place.page > last {
            return Err(place_beyond_end(text));
        }
        match self.feed_page(place.page).await? {
            Some(page) if place.range < page.ranges.len().max(1) => Ok(()),
            _ => Err(place_beyond_end(text)),
        }
    }
}

#[async_trait]
impl Feed for BucketState {
    async fn events_after(&self, place: Option<&str>, limit: u32) -> Result<Vec<FeedEvent>, StoreError> {
        let limit = limit as usize;
        let mut after = BucketFeedPlace::parse(place)?;
        let mut last = None;
        if let Some(text) = place {
            let known = self.feed_page(after.page).await?.is_some();
            let end = if known { after.page } else { self.extend_feed(FeedSearch::Now).await? };
            self.check_place(after, text, end).await?;
        }
        let mut events = Vec::new();
        while events.len() < limit {
            if let Some(page) = self.feed_page_up_to(after.page, last).await? {
                self.add_events(&page, after, limit, &mut events).await?;
                after = BucketFeedPlace { page: after.page + 1, ..BucketFeedPlace::START };
                continue;
            }
            // At the end: extend the feed once.
            if last.is_some() {
                break;
            }
            last = Some(self.extend_feed(FeedSearch::WhenDue).await?);
        }
        Ok(events)
    }

    async fn latest(&self) -> Result<Option<String>, StoreError> {
        let last = self.extend_feed(FeedSearch::WhenDue).await?;
        Ok(self.feed_end(last).await?.map(BucketFeedPlace::text))
    }

    /// Finds every run that has grown, however recently the last list was.
    async fn changed_runs(&self, mark: Option<&str>) -> Result<ChangedRuns, StoreError> {
        let since: Option<u64> =
            mark.map(|mark| mark.parse().map_err(|_| unknown_place(mark))).transpose()?;
        let last = self.extend_feed(FeedSearch::Now).await?;
        let mut runs = Vec::new();
        for number in since.map_or(last, |since| since.min(last)) + 1..=last {
            let page = self.feed_page(number).await?;
            runs.extend(page.iter().flat_map(|page| &page.ranges).map(|BatchRange(run, ..)| run.clone()));
        }
        runs.sort_unstable();
        runs.dedup();
        Ok(ChangedRuns { runs, mark: last.to_string() })
    }

    fn finds_changes_cheaply(&self) -> bool {
        false
    }

    fn is_written_by_readers(&self) -> bool {
        true
    }
}

impl BucketState {
    /// Reads a page; does not ask for pages after `last`, if that is known.
    async fn feed_page_up_to(
        &self,
        number: u64,
        last: Option<u64>,
    ) -> Result<Option<Arc<FeedPage>>, StoreError> {
        if last.is_some_and(|last| number > last) {
            return Ok(None);
        }
        if let Some(page) = self.feed.pages().0.get(&number) {
            return Ok(Some(Arc::clone(page)));
        }
        // Within the known part of the feed a page exists; at its end only a due extension asks for the next one.
        match self.feed.known_end.load(Ordering::SeqCst) {
            end if end > 0 && number > end => Ok(None),
            _ => self.feed_page(number).await,
        }
    }
}
