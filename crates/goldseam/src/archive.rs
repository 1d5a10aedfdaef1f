//! Archives of pruned runs, in a directory or under a prefix of a bucket.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use goldseam_engine::EngineError;
use goldseam_store::{Archive, StoreError};

/// Opens an archive: a directory, which is created if it does not exist, or `s3://BUCKET/PREFIX`.
pub fn open_archive(place: &str) -> Result<Box<dyn Archive>, EngineError> {
    #[cfg(feature = "object")]
    if goldseam_store_object::url::is_ours(place) {
        let options = goldseam_store_object::url::parse(place)?;
        return Ok(Box::new(goldseam_store_object::BucketArchive::new(&options)?));
    }
    let folder = std::path::absolute(place).map_err(|error| cannot(Path::new(place), &error))?;
    fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    Ok(Box::new(FolderArchive { folder }))
}

/// Reads one batch of an archive from a file or from `s3://BUCKET/PREFIX/NAME`.
pub async fn read_archived(place: &str) -> Result<Vec<u8>, EngineError> {
    #[cfg(feature = "object")]
    if goldseam_store_object::url::is_ours(place) {
        let mut options = goldseam_store_object::url::parse(place)?;
        let whole = options.prefix.clone();
        let (prefix, name) = whole.rsplit_once('/').unwrap_or(("", &whole));
        options.prefix = prefix.to_owned();
        return Ok(goldseam_store_object::BucketArchive::new(&options)?.get(name).await?);
    }
    Ok(fs::read(place).map_err(|error| cannot(Path::new(place), &error))?)
}

/// A directory with one file for each batch.
#[derive(Debug)]
struct FolderArchive {
    folder: PathBuf,
}

impl FolderArchive {
    /// Writes and syncs a batch under a temporary name, then links it under `name` and syncs the directory.
    fn write(&self, name: &str, batch: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        let part = self.folder.join(format!("{name}.part"));
        let mut file = File::create(&part)?;
        file.write_all(batch)?;
        file.sync_all()?;
        // Unlike a rename, a link never replaces an existing file.
        let linked = fs::hard_link(&part, &path);
        fs::remove_file(&part)?;
        linked?;
        File::open(&self.folder)?.sync_all()
    }
}

#[async_trait]
impl Archive for FolderArchive {
    fn place(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    async fn put(&self, name: &str, batch: Vec<u8>) -> Result<(), StoreError> {
        self.write(name, &batch).map_err(|error| cannot(&self.folder, &error))
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        fs::read(self.folder.join(name)).map_err(|error| cannot(&self.folder, &error))
    }
}

fn cannot(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Refused {
        code: "GS0133",
        what: format!("cannot use archive {}: {error}", path.display()),
        hint: "pass a writable directory or s3://BUCKET/PREFIX; no run was removed".into(),
    }
}

/// Archives and removes runs that ended long ago, by hand or by policy; see [`goldseam_admin::retention`].
///
/// ```
/// use goldseam::admin::retention::{Retainer, RetentionPolicies, open_archive};
/// use goldseam::prelude::*;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> goldseam::Result<()> {
/// # let dir = tempfile::tempdir()?; let url = format!("sqlite:{}/x.db", dir.path().display());
/// # let place = format!("{}/archive", dir.path().display());
/// let engine = Engine::open(&url).await?.start().await?;
/// let policies: RetentionPolicies = "completed=7d, failed=90d, order:failed=forever".parse()?;
/// let retainer = Retainer::new(engine.client().clone(), open_archive(&place)?.into(), policies);
/// // Prunes while the engine runs, and ends with it.
/// engine.attach(retainer.run());
/// engine.shutdown().await;
/// # Ok(()) }
/// ```
pub mod retention {
    pub use super::{open_archive, read_archived};
    pub use goldseam_admin::retention::{
        ArchivedRun, BatchFlaw, Candidate, KEEP_MIN, PolicyError, PrunePlan, PruneProgress, PruneReport,
        PrunedRun, Pruner, Retainer, Retention, RetentionOutcome, RetentionPass, RetentionPolicies,
        RetentionPolicy, verify,
    };
    pub use goldseam_store::Archive;
}
