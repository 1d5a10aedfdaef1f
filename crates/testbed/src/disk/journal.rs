//! The journal of all changes of a database's files, in order.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::TestbedError;

/// Bytes of the header of a record.
const HEAD: usize = 14;
/// The kind of a record that a test wrote.
const MARK: u8 = b'M';

/// A file of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum File {
    /// The database.
    Database,
    /// Its write-ahead log.
    Wal,
    /// Its rollback journal.
    Rollback,
    /// The folder of these files.
    Folder,
}

impl File {
    /// The suffix after the name of the database.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Database | Self::Folder => "",
            Self::Wal => "-wal",
            Self::Rollback => "-journal",
        }
    }
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// A file was created.
    Made(File),
    /// Bytes were written.
    Written {
        /// The file.
        file: File,
        /// The offset in the file.
        offset: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file was truncated or extended.
    Cut {
        /// The file.
        file: File,
        /// The new length.
        length: usize,
    },
    /// All earlier changes of the file have reached the disk.
    Synced(File),
    /// A file was removed.
    Removed(File),
    /// A call failed because of an injected fault.
    Failed(File),
    /// A mark of a test.
    Mark(String),
}

/// All changes.
#[derive(Debug, Clone, Default)]
pub struct DiskJournal {
    /// The changes in order.
    pub changes: Vec<FileChange>,
}

impl DiskJournal {
    /// Reads the journal of a disk.
    pub fn read(path: &Path) -> Result<Self, TestbedError> {
        let bytes = fs::read(path).map_err(|error| TestbedError::failed("reading a disk journal", error))?;
        let mut changes = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let Some((change, after)) = parse(rest) else {
                return Err(TestbedError::failed("reading a disk journal", "invalid record"));
            };
            changes.push(change);
            rest = after;
        }
        Ok(Self { changes })
    }

    /// The same changes of an existing, synced database.
    #[must_use]
    pub fn onto(self, database: &[u8]) -> Self {
        let file = File::Database;
        let mut changes = vec![FileChange::Made(file), FileChange::Synced(File::Folder)];
        changes.push(FileChange::Written { file, offset: 0, bytes: database.to_vec() });
        changes.push(FileChange::Synced(file));
        changes.extend(self.changes);
        Self { changes }
    }

    /// Writes a mark between the changes.
    pub fn mark(path: &Path, word: &str) -> io::Result<()> {
        let mut record = vec![MARK, 0];
        record.extend_from_slice(&0_u64.to_le_bytes());
        record.extend_from_slice(&u32::try_from(word.len()).unwrap_or(0).to_le_bytes());
        record.extend_from_slice(word.as_bytes());
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.lock()?;
        file.write_all(&record)
    }
}

fn parse(bytes: &[u8]) -> Option<(FileChange, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let file = match head[1] {
        0 => File::Database,
        1 => File::Wal,
        2 => File::Rollback,
        _ => File::Folder,
    };
    let offset = usize::try_from(u64::from_le_bytes(head[2..10].try_into().ok()?)).ok()?;
    let length = usize::try_from(u32::from_le_bytes(head[10..14].try_into().ok()?)).ok()?;
    let (carried, rest) = rest.split_at_checked(length)?;
    let change = match head[0] {
        b'C' => FileChange::Made(file),
        b'W' => FileChange::Written { file, offset, bytes: carried.to_vec() },
        b'T' => FileChange::Cut { file, length: offset },
        b'S' => FileChange::Synced(file),
        b'U' => FileChange::Removed(file),
        b'F' => FileChange::Failed(file),
        MARK => FileChange::Mark(String::from_utf8_lossy(carried).into_owned()),
        _ => return None,
    };
    Some((change, rest))
}
