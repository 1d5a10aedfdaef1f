//! Opening: is there a server, does it keep conditions, is the prefix ours.
//!
//! `goldseam.json` marks a prefix as a store. A prefix without it is made a store only if it is empty, or holds
//! nothing but states of workflows that somebody else wrote.

use std::sync::Arc;
use std::time::Duration;

use goldseam_core::Millis;
use goldseam_store::StoreError;
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Put, Tag, When};
use crate::clock::StoreClock;
use crate::connect::connect;
use crate::fault::{self, damaged};
use crate::keys::{self, Part};
use crate::probe::{self, FOLDER};
use crate::request_counter::Tallies;
use crate::url::Options;
use crate::write_ids::Writes;

/// The object that marks a store.
const MARK: &str = "goldseam.json";
/// The format that this program writes.
pub(crate) const FORMAT: u32 = 1;
/// Who tried the server out.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");
/// How long the first request may take.
const FIRST_ANSWER: Duration = Duration::from_secs(8);
/// How long all of them may take.
const ALL_ANSWERS: Duration = Duration::from_secs(60);
/// For so long nobody tries the server out again who only looks in.
const LATELY: Duration = Duration::from_secs(24 * 3_600);
/// How much older the mark may say the last trial is: an engine that starts often does not write it every time.
const WRITTEN_ANEW: Duration = Duration::from_secs(3_600);
/// Keys looked at at a time.
const CHUNK: usize = 1_000;

/// What to do with a prefix that holds no store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Older {
    /// Make one.
    Make,
    /// Leave it and refuse.
    Refuse,
}

/// `goldseam.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mark {
    format: u32,
    made_at: Millis,
    /// When the server was last shown to keep conditions.
    probed_at: Millis,
    /// The release that tried it out.
    probed_by: String,
    write: String,
}

/// A prefix that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) bucket: Bucket,
    pub(crate) clock: Arc<StoreClock>,
    place: String,
}

/// A bucket that is ready for use, with its clock.
pub(crate) async fn open(options: &Options, older: Older) -> Result<(Bucket, Arc<StoreClock>), StoreError> {
    let opening = Opening::new(options)?;
    opening.within(ALL_ANSWERS, opening.ready(older)).await?;
    Ok((opening.bucket, opening.clock))
}

/// The same for whoever only wants it to be there; returns the format that was there before, 0 if none was.
pub(crate) async fn ready(options: &Options, older: Older) -> Result<u32, StoreError> {
    let opening = Opening::new(options)?;
    opening.within(ALL_ANSWERS, opening.ready(older)).await
}

impl Opening {
    pub(crate) fn new(options: &Options) -> Result<Self, StoreError> {
        let clock = Arc::new(StoreClock::new(options.clock.clone()));
        let bucket = connect(options, Arc::clone(&clock), Arc::new(Tallies::default()))?;
        Ok(Self { bucket, clock, place: options.place() })
    }

    /// Does something that must not take for ever; nobody is there yet to wait and try again.
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

    /// Makes sure that there is a store that can be used; returns the format that was there before, 0 if none was.
    async fn ready(&self, older: Older) -> Result<u32, StoreError> {
        match (self.identify().await?, older) {
            (Some((mark, tag)), Older::Make) => {
                self.writable().await?;
                self.renew(&mark, tag).await?;
                probe::tidy(&self.bucket, self.clock.now()).await?;
                Ok(mark.format)
            }
            (Some((mark, tag)), Older::Refuse) => {
                if !self.is_fresh(&mark, LATELY) {
                    match self.writable().await {
                        Ok(()) => self.renew(&mark, tag).await?,
                        // Who only reads needs no conditions, and whoever writes is told.
                        Err(StoreError::Refused { code: "GS0219", .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(mark.format)
            }
            (None, Older::Make) => {
                self.writable().await?;
                self.make().await?;
                Ok(0)
            }
            (None, Older::Refuse) => Err(StoreError::Refused {
                code: "GS0205",
                what: format!("there is no store at {}", self.place),
                hint: "start an engine, which creates it, or run goldseam store migrate with this URL"
                    .to_owned(),
            }),
        }
    }

    /// Refuses a prefix that is somebody else's, or of a newer release. Changes nothing; returns the format, 0 if
    /// there is no store.
    pub(crate) async fn format(&self) -> Result<u32, StoreError> {
        let found = self.identify();
        Ok(self.within(ALL_ANSWERS, found).await?.map_or(0, |(mark, _)| mark.format))
    }

    async fn identify(&self) -> Result<Option<(Mark, Tag)>, StoreError> {
        let found = self.within(FIRST_ANSWER, self.mark()).await?;
        if !self.clock.is_set() {
            return Err(StoreError::Refused {
                code: "GS0223",
                what: format!("the server of {} sends no Date header", self.place),
                hint: "check whether a proxy between this machine and the server removes the Date header"
                    .to_owned(),
            });
        }
        if found.is_some() {
            return Ok(found);
        }
        let Some(foreign) = self.foreign().await? else { return Ok(None) };
        // Somebody may have made the store while we looked.
        if let Some(found) = self.mark().await? {
            return Ok(Some(found));
        }
        Err(StoreError::Refused {
            code: "GS0222",
            what: format!("{} is in use by another program: it holds {foreign:?} but no {MARK}", self.place),
            hint: "use another prefix, as in s3://BUCKET/ANOTHER; nothing was changed here".to_owned(),
        })
    }

    async fn mark(&self) -> Result<Option<(Mark, Tag)>, StoreError> {
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }
        let Some(found) = self.bucket.get(MARK).await? else { return Ok(None) };
        let Any { format } = serde_json::from_slice(&found.body).map_err(|error| damaged(MARK, error))?;
        if format > FORMAT {
            return Err(StoreError::Refused {
                code: "GS0202",
                what: format!(
                    "{} has format {format}; this program supports formats up to {FORMAT}",
                    self.place
                ),
                hint: "use a newer goldseam; an older one must not write to a format that it does not know"
                    .to_owned(),
            });
        }
        let mark = serde_json::from_slice(&found.body).map_err(|error| damaged(MARK, error))?;
        Ok(Some((mark, found.tag)))
    }

    /// A key that keeps the prefix from being made a store. States of workflows may be there first, and so may what
    /// an earlier try to make it left behind.
    async fn foreign(&self) -> Result<Option<String>, StoreError> {
        let mut after: Option<String> = None;
        loop {
            let listed = self.bucket.list("", after.as_deref(), CHUNK).await?;
            let allowed =
                |key: &str| matches!(keys::part(key), Some((_, Part::State))) || key.starts_with(FOLDER);
            if let Some(foreign) = listed.iter().find(|entry| !allowed(&entry.key)) {
                return Ok(Some(foreign.key.chars().take(200).collect()));
            }
            match listed.last() {
                Some(last) if listed.len() == CHUNK => after = Some(last.key.clone()),
                _ => return Ok(None),
            }
        }
    }

    /// Tries the server out.
    async fn writable(&self) -> Result<(), StoreError> {
        probe::probe(&self.bucket).await.map(drop).map_err(|error| match error {
            StoreError::Refused { code: "GS0219", what, hint } => {
                let words = what.split_once(": ").map_or(what.as_str(), |(_, words)| words);
                let what = format!("these access keys may not write to {}: {words}", self.place);
                StoreError::Refused { code: "GS0219", what, hint }
            }
            error => error,
        })
    }

    fn is_fresh(&self, mark: &Mark, span: Duration) -> bool {
        mark.probed_by == PROGRAM && self.clock.now().since(mark.probed_at) < span
    }

    fn content(&self, made_at: Millis) -> bytes::Bytes {
        let mark = Mark {
            format: FORMAT,
            made_at,
            probed_at: self.clock.now(),
            probed_by: PROGRAM.to_owned(),
            write: Writes::new().next(),
        };
        serde_json::to_vec(&mark).unwrap_or_default().into()
    }

    async fn make(&self) -> Result<(), StoreError> {
        match self.bucket.put_if(MARK, self.content(self.clock.now()), When::Absent).await? {
            Put::Done(_) => Ok(()),
            // Somebody was faster; what they made must suit.
            Put::Lost(_) => self.mark().await.map(drop),
        }
    }

    /// Notes that the server was tried out. If somebody else notes it at the same time, that will do.
    async fn renew(&self, mark: &Mark, tag: Tag) -> Result<(), StoreError> {
        if !self.is_fresh(mark, WRITTEN_ANEW) {
            self.bucket.put_if(MARK, self.content(mark.made_at), When::Is(tag)).await?;
        }
        Ok(())
    }
}
