//! Where a database lies, and whether that is still the file that is open.
//!
//! Removing or replacing the file takes everything with it that is written from then on: the open file has no name
//! any more, and ends with the process. So the writer compares the two before it acknowledges anything.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam_store::StoreError;

use crate::open::refused;

/// The place of an open database.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The file as it was when it was opened; none where files have no identity.
    file: Option<(u64, u64)>,
    lost: AtomicBool,
}

impl Place {
    /// The place of a database that has just been opened.
    pub(crate) fn of(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = path.metadata().ok().as_ref().and_then(identity);
        Self { path, file, lost: AtomicBool::new(false) }
    }

    /// Looks whether the file is still there. Once it is not, what came in its place is another one for ever.
    pub(crate) fn look(&self) -> Result<(), StoreError> {
        let is_there = || self.path.metadata().ok().as_ref().and_then(identity) == self.file;
        if self.file.is_some() && !self.lost.load(Ordering::Relaxed) && !is_there() {
            self.lost.store(true, Ordering::Relaxed);
            tracing::error!(path = %self.path.display(), "database file removed or replaced; refusing all further writes");
        }
        self.known()
    }

    /// What the last look saw.
    pub(crate) fn known(&self) -> Result<(), StoreError> {
        match self.lost.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(refused(
                "GS0226",
                format!("{} was removed or replaced while it was open", self.path.display()),
                "stop this process, put the file back, and start the process again",
            )),
        }
    }
}

#[cfg(unix)]
fn identity(file: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}
