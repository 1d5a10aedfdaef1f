//! Whether the path of a database still names the open file.
//!
//! If the file is removed or replaced, the open file has no name, and its content is lost when the process ends. The
//! writer therefore compares path and file before it acknowledges a write.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use goldseam_store::StoreError;

use crate::fault::refused;

/// The path of an open database, and the file that it named when it was opened.
#[derive(Debug)]
pub(crate) struct FileIdentity {
    path: PathBuf,
    /// Device and inode; none where files have none.
    file: Option<(u64, u64)>,
    lost: AtomicBool,
}

impl FileIdentity {
    /// Remembers the file of a database that has just been opened.
    pub(crate) fn of(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let file = path.metadata().ok().as_ref().and_then(device_and_inode);
        Self { path, file, lost: AtomicBool::new(false) }
    }

    /// Checks that the path still names the open file. Once it does not, every later check fails.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_same = || self.path.metadata().ok().as_ref().and_then(device_and_inode) == self.file;
        if self.file.is_some() && !self.lost.load(Ordering::Relaxed) && !is_same() {
            self.lost.store(true, Ordering::Relaxed);
            let path = self.path.display();
            tracing::error!(%path, "database file removed or replaced; refusing all further writes");
        }
        self.last_check()
    }

    /// Returns the result of the last check.
    pub(crate) fn last_check(&self) -> Result<(), StoreError> {
        if !self.lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(refused(
            "GS0226",
            format!("{} was removed or replaced while it was open", self.path.display()),
            "stop this process, put the file back, and start the process again",
        ))
    }
}

#[cfg(unix)]
fn device_and_inode(file: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn device_and_inode(_: &Metadata) -> Option<(u64, u64)> {
    None
}
