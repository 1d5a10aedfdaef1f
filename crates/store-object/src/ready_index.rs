//! What somebody must look at now or later: the markers of tasks, as the last list showed them.
//!
//! A hint: it decides who looks when, never what is so. Own writes are on it at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_store::StoreError;

use crate::clock::Moment;
use crate::keys::{self, TaskMarker};
use crate::store::Inner;

/// How old a list of what is due later may be that is looked at again: nothing is put there that is due within a
/// minute.
const FRESH_LATER: Duration = Duration::from_secs(30);
/// How long a list is remembered.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How long a marker whose task is not there is passed over before it is looked at again.
const DOUBT: Duration = Duration::from_secs(2);
/// Of what is due later, the nearest are read.
const LATER_MAX: usize = 1_000;

/// Markers with the moments at which they were written.
type Markers = BTreeMap<String, (TaskMarker, Millis)>;

#[derive(Debug, Default)]
struct Side {
    markers: Markers,
    listed: Option<Moment>,
    /// What was written or removed while a list is on its way: the list may not show it. None: there is none.
    since: Option<Vec<(String, bool)>>,
    /// Markers without their tasks, and since when they are not looked at.
    doubtful: BTreeMap<String, Moment>,
}

impl Side {
    fn is_fresh(&self, age: Duration) -> bool {
        self.listed.is_some_and(|at| at.elapsed() < age)
    }

    fn change(&mut self, key: &str, there: bool) {
        if let Some(since) = &mut self.since {
            since.push((key.to_owned(), there));
        }
        // Whoever never looks need not remember what there is to see.
        if !self.is_fresh(REMEMBERED) {
            self.markers.clear();
            return;
        }
        self.doubtful.remove(key);
        match TaskMarker::parse(key).filter(|_| there) {
            Some(marker) => self.markers.insert(key.to_owned(), (marker, Millis::NEVER)),
            None => self.markers.remove(key),
        };
    }
}

/// The markers that this process knows of.
#[derive(Debug, Default)]
pub(crate) struct Board {
    now: Mutex<Side>,
    later: Mutex<Side>,
    /// One list at a time.
    listing: tokio::sync::Mutex<()>,
}

impl Board {
    fn side(&self, key: &str) -> &Mutex<Side> {
        if key.starts_with(keys::LATER) { &self.later } else { &self.now }
    }

    /// This process has put a marker there.
    pub(crate) fn wrote(&self, key: &str) {
        self.side(key).lock().unwrap_or_else(PoisonError::into_inner).change(key, true);
    }

    /// This process takes a marker away.
    pub(crate) fn removed(&self, key: &str) {
        self.side(key).lock().unwrap_or_else(PoisonError::into_inner).change(key, false);
    }

    /// Where this marker stands, if that is known.
    pub(crate) fn place_of(&self, marker: &TaskMarker) -> Option<String> {
        let there = |key: &String| {
            self.side(key).lock().unwrap_or_else(PoisonError::into_inner).markers.contains_key(key)
        };
        marker.keys().into_iter().find(there)
    }

    /// Everything on the board, which is listed anew if it is old.
    pub(crate) async fn look(&self, inner: &Inner) -> Result<Vec<(String, TaskMarker)>, StoreError> {
        self.refresh(inner, inner.fresh()).await?;
        let both = [&self.now, &self.later];
        let mut all = Vec::new();
        for side in both {
            let mut side = side.lock().unwrap_or_else(PoisonError::into_inner);
            let Side { markers, doubtful, .. } = &mut *side;
            doubtful.retain(|key, since| since.elapsed() < DOUBT && markers.contains_key(key));
            let credible = markers.iter().filter(|(key, _)| !doubtful.contains_key(*key));
            all.extend(credible.map(|(key, (marker, _))| (key.clone(), marker.clone())));
        }
        Ok(all)
    }

    /// The task of this marker is not there, or not yet as it says: nobody asks again for a moment.
    pub(crate) fn doubt(&self, key: &str) {
        let mut side = self.side(key).lock().unwrap_or_else(PoisonError::into_inner);
        side.doubtful.insert(key.to_owned(), Moment::now());
    }

    /// When this marker was written; never, if this process wrote it or it is not there.
    pub(crate) fn written_at(&self, key: &str) -> Millis {
        let side = self.side(key).lock().unwrap_or_else(PoisonError::into_inner);
        side.markers.get(key).map_or(Millis::NEVER, |(_, at)| *at)
    }

    /// Lists what is older than `age`. Whether something is on the board that was not there before.
    pub(crate) async fn refresh(&self, inner: &Inner, age: Duration) -> Result<bool, StoreError> {
        let _one = self.listing.lock().await;
        let mut news = false;
        if !self.now.lock().unwrap_or_else(PoisonError::into_inner).is_fresh(age) {
            news |= self.list(inner, keys::NOW, usize::MAX).await?;
        }
        if !self.later.lock().unwrap_or_else(PoisonError::into_inner).is_fresh(FRESH_LATER) {
            news |= self.list(inner, keys::LATER, LATER_MAX).await?;
        }
        Ok(news)
    }

    async fn list(&self, inner: &Inner, folder: &str, limit: usize) -> Result<bool, StoreError> {
        self.side(folder).lock().unwrap_or_else(PoisonError::into_inner).since = Some(Vec::new());
        let at = Moment::now();
        let listed = inner.bucket.list(folder, None, limit).await?;
        let mut side = self.side(folder).lock().unwrap_or_else(PoisonError::into_inner);
        let parse = |key: &str| TaskMarker::parse(key);
        let mut markers: Markers = listed
            .into_iter()
            .filter_map(|entry| Some((entry.key.clone(), (parse(&entry.key)?, entry.modified))))
            .collect();
        for (key, there) in side.since.take().unwrap_or_default() {
            match parse(&key).filter(|_| there) {
                Some(marker) => markers.insert(key, (marker, Millis::NEVER)),
                None => markers.remove(&key),
            };
        }
        let news = markers.keys().any(|key| !side.markers.contains_key(key));
        side.markers = markers;
        side.listed = Some(at);
        Ok(news)
    }
}
