//! A longer trial of a server: two writers race for as long as a person likes to wait, and everything is timed.

use std::fmt;
use std::time::Duration;

use goldseam_store::StoreError;

use crate::bucket::Bucket;
use crate::bucket::{Put, When};
use crate::check::shown;
use crate::clock::Moment;
use crate::probe::{Trial, broken, probe};

/// How long creates are raced, and then updates.
const SPAN: Duration = Duration::from_secs(1);
/// Races at the most: a server in memory would do thousands.
const RACES_MAX: u64 = 200;
/// Objects that must be listed once they are there.
const LISTED: usize = 8;

/// What a server showed of itself.
#[derive(Debug)]
pub(crate) struct Tried {
    /// Races in which exactly one writer won.
    pub(crate) races: u64,
    /// Updates of a counter, none of which was lost.
    pub(crate) updates: u64,
    /// What was written was in the next list.
    pub(crate) listed: bool,
    pub(crate) versioned: bool,
    pub(crate) puts: Times,
    pub(crate) gets: Times,
    pub(crate) lists: Times,
}

/// How long requests of one sort took.
#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    async fn measure<T>(
        &mut self,
        doing: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = Moment::now();
        let done = doing.await?;
        self.0.push(begun.elapsed());
        Ok(done)
    }

    /// The time that so many of a hundred did not exceed.
    fn percentile(&self, of_hundred: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * of_hundred).div_ceil(100).saturating_sub(1);
        sorted.get(index).copied().unwrap_or_default()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p50 {}, p99 {} of {}",
            shown(self.percentile(50)),
            shown(self.percentile(99)),
            self.0.len()
        )
    }
}

/// Tries a server for about two seconds. None: these keys may not write, so nobody knows.
pub(crate) async fn long(bucket: &Bucket) -> Result<Option<Tried>, StoreError> {
    let versioned = match probe(bucket).await {
        Ok(shown) => shown.versioned,
        Err(StoreError::Refused { code: "GS0219", .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let trial = Trial::new(bucket);
    let tried = longer(&trial, versioned).await;
    // All of it, whatever was found.
    for made in bucket.list(trial.folder(), None, usize::MAX).await? {
        trial.remove(&made.key, &tried).await;
    }
    tried.map(Some)
}

async fn longer(trial: &Trial<'_>, versioned: bool) -> Result<Tried, StoreError> {
    let races = creates(trial).await?;
    let updates = updates(trial).await?;
    let (mut puts, mut gets, mut lists) = (Times::default(), Times::default(), Times::default());
    let mut made = Vec::new();
    for number in 0..LISTED {
        let key = trial.key(&format!("listed/{number}"));
        puts.measure(trial.bucket.put_if(&key, trial.content(), When::Absent)).await?;
        gets.measure(trial.bucket.get(&key)).await?;
        made.push(key);
    }
    let mut listed = true;
    for _ in 0..LISTED {
        let found = lists.measure(trial.bucket.list(&trial.key("listed/"), None, usize::MAX)).await?;
        listed &= made.iter().all(|key| found.iter().any(|entry| entry.key == *key));
    }
    Ok(Tried { races, updates, listed, versioned, puts, gets, lists })
}

/// Two writers create one object after the other.
async fn creates(trial: &Trial<'_>) -> Result<u64, StoreError> {
    let begun = Moment::now();
    let mut races = 0;
    while begun.elapsed() < SPAN && races < RACES_MAX {
        let key = trial.key(&format!("raced/{races}"));
        trial.race(&key, When::Never).await?;
        races += 1;
    }
    Ok(races)
}

/// Two writers count in one object: what it says in the end is what they were told.
async fn updates(trial: &Trial<'_>) -> Result<u64, StoreError> {
    let key = trial.key("counter");
    trial.bucket.put_if(&key, counted(trial, 0), When::Absent).await?;
    let begun = Moment::now();
    let (left, right) =
        futures_util::future::join(count(trial, &key, begun), count(trial, &key, begun)).await;
    let told = left? + right?;
    match trial.bucket.get(&key).await?.and_then(|found| number(&found.body)) {
        Some(there) if there == told => Ok(told),
        there => Err(broken(&format!(
            "a counter is {} after {told} acknowledged updates",
            there.map_or_else(|| "nothing".to_owned(), |there| there.to_string())
        ))),
    }
}

/// Counts on until time is up; returns how often it was told that it did.
async fn count(trial: &Trial<'_>, key: &str, begun: Moment) -> Result<u64, StoreError> {
    let mut told = 0;
    while begun.elapsed() < SPAN && told < RACES_MAX {
        let Some(found) = trial.bucket.get(key).await? else {
            return Err(broken("a written object is missing"));
        };
        let next = number(&found.body).unwrap_or_default() + 1;
        match trial.bucket.put_if(key, counted(trial, next), When::Is(found.tag)).await? {
            Put::Done(_) => told += 1,
            Put::Lost(_) => {}
        }
    }
    Ok(told)
}

fn counted(trial: &Trial<'_>, number: u64) -> bytes::Bytes {
    [format!("{number} ").as_bytes(), &trial.content()].concat().into()
}

fn number(content: &[u8]) -> Option<u64> {
    std::str::from_utf8(content).ok()?.split(' ').next()?.parse().ok()
}
