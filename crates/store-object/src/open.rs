//! Opens a prefix: checks that the server answers and enforces conditional writes, and that the prefix is ours.
//!
//! `goldseam.json` marks a prefix as a store. A prefix without it becomes a store only if it is empty, or holds only
//! workflow states of another system.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::{Hint, Millis, NextStep};
use goldseam_store::{OpenMode, StoreError};
use serde::{Deserialize, Serialize};

use crate::bucket::{BucketPrefix, ObjectTag, Put, PutCondition};
use crate::clock::BucketClock;
use crate::connect::connect;
use crate::fault::{self, damaged};
use crate::keys::{self, Part};
use crate::probe::{self, FOLDER};
use crate::request_counter::RequestCounter;
use crate::url::BucketOptions;
use crate::write_ids::WriteIds;

/// The object that marks a prefix as a store.
const MANIFEST: &str = "goldseam.json";
/// The format of stores that this program writes.
pub(crate) const FORMAT: u32 = 1;
/// The release that probes the server.
const RELEASE: &str = env!("CARGO_PKG_VERSION");
/// Timeout of the first request.
const FIRST_TIMEOUT: Duration = Duration::from_secs(8);
/// Timeout of opening.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a probe is valid for a process that does not create stores.
const PROBE_VALID: Duration = Duration::from_secs(24 * 3_600);
/// How old the probe in the manifest may become before an engine that starts writes it again.
const PROBE_REWRITE: Duration = Duration::from_secs(3_600);
/// Keys listed at a time.
const CHUNK: usize = 1_000;

/// `goldseam.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    made_at: Millis,
    /// When a probe last showed that the server enforces conditional writes.
    probed_at: Millis,
    /// The release that probed it.
    probed_by: String,
    write: String,
}

/// A prefix that is being opened.
#[derive(Debug)]
pub(crate) struct StoreOpening {
    pub(crate) bucket: BucketPrefix,
    pub(crate) clock: Arc<BucketClock>,
    place: String,
}

/// Opens a store. Returns its bucket and its clock.
pub(crate) async fn open(
    options: &BucketOptions,
    mode: OpenMode,
) -> Result<(BucketPrefix, Arc<BucketClock>), StoreError> {
    let opening = StoreOpening::new(options)?;
    opening.within(OPEN_TIMEOUT, opening.prepare(mode)).await?;
    Ok((opening.bucket, opening.clock))
}

/// Creates a store if the prefix holds none. Returns the format before, 0 without a store.
pub(crate) async fn prepare(options: &BucketOptions, mode: OpenMode) -> Result<u32, StoreError> {
    let opening = StoreOpening::new(options)?;
    opening.within(OPEN_TIMEOUT, opening.prepare(mode)).await
}

impl StoreOpening {
    pub(crate) fn new(options: &BucketOptions) -> Result<Self, StoreError> {
        let clock = Arc::new(BucketClock::new(options.clock.clone()));
        let bucket = connect(options, Arc::clone(&clock), Arc::new(RequestCounter::default()))?;
        Ok(Self { bucket, clock, place: options.place() })
    }

    /// Runs `doing` with a timeout. While a store is opened, no caller retries.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        doing: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(limit, doing).await {
            Ok(done) => done.map_err(|error| fault::at_opening(error, &self.place)),
            Err(_) => Err(fault::unreachable_at(&self.place, &format_args!("no answer within {limit:?}"))),
        }
    }

    /// Makes sure that there is a usable store. Returns the format before, 0 if there was no store.
    async fn prepare(&self, mode: OpenMode) -> Result<u32, StoreError> {
        match (self.identify().await?, mode) {
            (Some((manifest, tag)), OpenMode::CreateOrMigrate) => {
                self.check_writable().await?;
                self.renew(&manifest, tag).await?;
                probe::remove_leftovers(&self.bucket, self.clock.now()).await?;
                Ok(manifest.format)
            }
            (Some((manifest, tag)), OpenMode::RequireCurrent) => {
                if !self.is_fresh(&manifest, PROBE_VALID) {
                    match self.check_writable().await {
                        Ok(()) => self.renew(&manifest, tag).await?,
                        // A reader needs no conditional writes, and a write is refused with this error.
                        Err(StoreError::Refused { code: "GS0219", .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(manifest.format)
            }
            (None, OpenMode::CreateOrMigrate) => {
                self.check_writable().await?;
                self.create().await?;
                Ok(0)
            }
            (None, OpenMode::RequireCurrent) => Err(StoreError::Refused {
                code: "GS0205",
                what: format!("no store exists at {}", self.place),
                hint: Hint::from("start an engine, which creates it, or run ")
                    .step(NextStep::StoreMigrate { store: None })
                    .text(" with this URL"),
            }),
        }
    }

    /// Refuses a prefix of another program or of a newer release. Changes nothing. Returns the format, 0 without a
    /// store.
    pub(crate) async fn format(&self) -> Result<u32, StoreError> {
        let found = self.identify();
        Ok(self.within(OPEN_TIMEOUT, found).await?.map_or(0, |(manifest, _)| manifest.format))
    }

    async fn identify(&self) -> Result<Option<(Manifest, ObjectTag)>, StoreError> {
        let found = self.within(FIRST_TIMEOUT, self.manifest()).await?;
        if !self.clock.is_set() {
            return Err(StoreError::Refused {
                code: "GS0223",
                what: format!("the server of {} sends no Date header", self.place),
                hint: "check whether a proxy between this machine and the server removes the Date header"
                    .into(),
            });
        }
        if found.is_some() {
            return Ok(found);
        }
        let Some(foreign) = self.foreign().await? else { return Ok(None) };
        // Another process may have created the store meanwhile.
        if let Some(found) = self.manifest().await? {
            return Ok(Some(found));
        }
        Err(StoreError::Refused {
            code: "GS0222",
            what: format!(
                "{} is in use by another program: it holds {foreign:?} but no {MANIFEST}",
                self.place
            ),
            hint: "use another prefix, as in s3://BUCKET/ANOTHER; nothing was changed here".into(),
        })
    }

    async fn manifest(&self) -> Result<Option<(Manifest, ObjectTag)>, StoreError> {
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let Some(found) = self.bucket.get(MANIFEST).await? else { return Ok(None) };
        let Any { format } = serde_json::from_slice(&found.body).map_err(|error| damaged(MANIFEST, error))?;
        if format > FORMAT {
            return Err(StoreError::Refused {
                code: "GS0202",
                what: format!(
                    "{} has format {format}; this program supports formats up to {FORMAT}",
                    self.place
                ),
                hint: "use a newer goldseam; an older one must not write to a format that it does not know"
                    .into(),
            });
        }
        let manifest = serde_json::from_slice(&found.body).map_err(|error| damaged(MANIFEST, error))?;
        Ok(Some((manifest, found.tag)))
    }

    /// A key that prevents the prefix from becoming a store. Workflow states and leftovers of earlier probes are
    /// allowed.
    async fn foreign(&self) -> Result<Option<String>, StoreError> {
        let mut after: Option<String> = None;
        loop {
            let listed = self.bucket.list("", after.as_deref(), CHUNK).await?;
            let allowed =
                |key: &str| matches!(keys::run_part(key), Some((_, Part::State))) || key.starts_with(FOLDER);
            if let Some(foreign) = listed.iter().find(|entry| !allowed(&entry.key)) {
                return Ok(Some(foreign.key.chars().take(200).collect()));
            }
            match listed.last() {
                Some(last) if listed.len() == CHUNK => after = Some(last.key.clone()),
                _ => return Ok(None),
            }
        }
    }

    /// Probes the server.
    async fn check_writable(&self) -> Result<(), StoreError> {
        probe::probe(&self.bucket).await.map(drop).map_err(|error| match error {
            StoreError::Refused { code: "GS0219", what, hint } => {
                let message = what.split_once(": ").map_or(what.as_str(), |(_, message)| message);
                let what = format!("these access keys may not write to {}: {message}", self.place);
                StoreError::Refused { code: "GS0219", what, hint }
            }
            error => error,
        })
    }

    fn is_fresh(&self, manifest: &Manifest, span: Duration) -> bool {
        manifest.probed_by == RELEASE && self.clock.now().since(manifest.probed_at) < span
    }

    fn content(&self, made_at: Millis) -> bytes::Bytes {
        let manifest = Manifest {
            format: FORMAT,
            made_at,
            probed_at: self.clock.now(),
            probed_by: RELEASE.to_owned(),
            write: WriteIds::new().next(),
        };
        serde_json::to_vec(&manifest).unwrap_or_default().into()
    }

    async fn create(&self) -> Result<(), StoreError> {
        match self.bucket.put_if(MANIFEST, self.content(self.clock.now()), PutCondition::Absent).await? {
            Put::Done(_) => Ok(()),
            // Another process was faster; its store must be usable.
            Put::Lost(_) => self.manifest().await.map(drop),
        }
    }

    /// Writes into the manifest that the server was probed. If another process does so at the same time, its write is
    /// enough.
    async fn renew(&self, manifest: &Manifest, tag: ObjectTag) -> Result<(), StoreError> {
        if !self.is_fresh(manifest, PROBE_REWRITE) {
            self.bucket
                .put_if(MANIFEST, self.content(manifest.made_at), PutCondition::Unchanged(tag))
                .await?;
        }
        Ok(())
    }
}
