//! A soak test of a server for `store check`: two writers race for about two seconds, and requests are timed.

use std::fmt;
use std::time::Duration;

use goldseam_store::StoreError;

use crate::bucket::{BucketPrefix, Put, PutCondition};
use crate::clock::MonotonicTime;
use crate::probe::{self, ProbeObjects, broken};

/// How long creates race, and then updates.
const SPAN: Duration = Duration::from_secs(1);
/// Most races: a server in memory would do thousands.
const RACES_MAX: u64 = 200;
/// Objects that a list must show.
const LISTED: usize = 8;

/// The result of a soak test.
#[derive(Debug)]
pub(crate) struct SoakReport {
    /// Races in which exactly one writer won.
    pub(crate) races: u64,
    /// Updates of a counter, without a lost one.
    pub(crate) updates: u64,
    /// Whether each list showed all written objects.
    pub(crate) listed: bool,
    pub(crate) versioned: bool,
    pub(crate) puts: Latencies,
    pub(crate) gets: Latencies,
    pub(crate) lists: Latencies,
}

/// The durations of requests of one kind.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    async fn measure<T>(
        &mut self,
        doing: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = MonotonicTime::now();
        let done = doing.await?;
        self.0.push(begun.elapsed());
        Ok(done)
    }

    /// The duration that `of_hundred` percent of the requests did not exceed.
    fn percentile(&self, of_hundred: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * of_hundred).div_ceil(100).saturating_sub(1);
        sorted.get(index).copied().unwrap_or_default()
    }
}

impl fmt::Display for Latencies {
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

/// Tests a server for about two seconds. Returns none if these access keys may not write.
pub(crate) async fn run(bucket: &BucketPrefix) -> Result<Option<SoakReport>, StoreError> {
    let versioned = match probe::probe(bucket).await {
        Ok(result) => result.versioned,
        Err(StoreError::Refused { code: "GS0219", .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let probe = ProbeObjects::new(bucket);
    let report = measure(&probe, versioned).await;
    // Remove all objects, whatever was found.
    for made in bucket.list(probe.folder(), None, usize::MAX).await? {
        probe.remove(&made.key, &report).await;
    }
    report.map(Some)
}

async fn measure(probe: &ProbeObjects<'_>, versioned: bool) -> Result<SoakReport, StoreError> {
    let races = creates(probe).await?;
    let updates = updates(probe).await?;
    let mut puts = Latencies::default();
    let mut gets = Latencies::default();
    let mut lists = Latencies::default();
    let mut made = Vec::new();
    for number in 0..LISTED {
        let key = probe.key(&format!("listed/{number}"));
        puts.measure(probe.bucket.put_if(&key, probe.content(), PutCondition::Absent)).await?;
        gets.measure(probe.bucket.get(&key)).await?;
        made.push(key);
    }
    let mut listed = true;
    for _ in 0..LISTED {
        let found = lists.measure(probe.bucket.list(&probe.key("listed/"), None, usize::MAX)).await?;
        listed &= made.iter().all(|key| found.iter().any(|entry| entry.key == *key));
    }
    Ok(SoakReport { races, updates, listed, versioned, puts, gets, lists })
}

/// Lets two writers create one object after the other.
async fn creates(probe: &ProbeObjects<'_>) -> Result<u64, StoreError> {
    let begun = MonotonicTime::now();
    let mut races = 0;
    while begun.elapsed() < SPAN && races < RACES_MAX {
        let key = probe.key(&format!("raced/{races}"));
        probe.race(&key, PutCondition::CreateOnce).await?;
        races += 1;
    }
    Ok(races)
}

/// Lets two writers increment a counter: its final value must be the number of acknowledged increments.
async fn updates(probe: &ProbeObjects<'_>) -> Result<u64, StoreError> {
    let key = probe.key("counter");
    probe.bucket.put_if(&key, counted(probe, 0), PutCondition::Absent).await?;
    let begun = MonotonicTime::now();
    let (left, right) =
        futures_util::future::join(count(probe, &key, begun), count(probe, &key, begun)).await;
    let acknowledged = left? + right?;
    match probe.bucket.get(&key).await?.and_then(|found| number(&found.body)) {
        Some(stored) if stored == acknowledged => Ok(acknowledged),
        stored => Err(broken(&format!(
            "a counter is {} after {acknowledged} acknowledged updates",
            stored.map_or_else(|| "missing".to_owned(), |stored| stored.to_string())
        ))),
    }
}

/// Increments the counter until the time is up. Returns the number of acknowledged increments.
async fn count(probe: &ProbeObjects<'_>, key: &str, begun: MonotonicTime) -> Result<u64, StoreError> {
    let mut acknowledged = 0;
    while begun.elapsed() < SPAN && acknowledged < RACES_MAX {
        let Some(found) = probe.bucket.get(key).await? else {
            return Err(broken("a written object is missing"));
        };
        let next = number(&found.body).unwrap_or_default() + 1;
        match probe.bucket.put_if(key, counted(probe, next), PutCondition::Unchanged(found.tag)).await? {
            Put::Done(_) => acknowledged += 1,
            Put::Lost(_) => {}
        }
    }
    Ok(acknowledged)
}

fn counted(probe: &ProbeObjects<'_>, number: u64) -> bytes::Bytes {
    [format!("{number} ").as_bytes(), &probe.content()].concat().into()
}

fn number(content: &[u8]) -> Option<u64> {
    std::str::from_utf8(content).ok()?.split(' ').next()?.parse().ok()
}

/// A duration as reports show it.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1_000.0)
}
