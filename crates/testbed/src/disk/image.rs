//! Possible files of a database after a power loss, and the files of a copy.
//!
//! Synced data survives. Any later write may be lost, in any order, and may be torn at a sector. Names behave as on
//! journalling file systems: creations and removals since the last sync of the folder survive up to some moment.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::dice::DiskRandom;
use super::journal::{File, FileChange};

/// Bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// The files of a database at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image(BTreeMap<File, Vec<u8>>);

impl Image {
    /// Writes the files of a database at this path.
    pub fn put(&self, database: &Path) -> io::Result<()> {
        for (file, bytes) in &self.0 {
            let mut name = database.as_os_str().to_owned();
            name.push(file.suffix());
            fs::write(name, bytes)?;
        }
        Ok(())
    }

    /// Whether the image has no file.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The files with all changes: a copy at this moment.
pub fn copied(changes: &[FileChange]) -> Image {
    let mut rest = Remains::default();
    changes.iter().for_each(|change| rest.take(change));
    let names = rest.names_after(rest.moves.len());
    let whole = |inode: usize| {
        let Inode { mut bytes, pending } = rest.inodes[inode].clone();
        pending.iter().for_each(|change| change.apply(&mut bytes));
        bytes
    };
    Image(names.into_iter().map(|(file, inode)| (file, whole(inode))).collect())
}

/// Possible files after a power loss right after these changes.
pub fn after_power_loss(changes: &[FileChange], dice: &mut DiskRandom) -> Image {
    let mut rest = Remains::default();
    changes.iter().for_each(|change| rest.take(change));
    let kept = dice.below(rest.moves.len() + 1);
    let names = rest.names_after(kept);
    let mut luck = || [0, 20, 50, 80, 100][dice.below(5)];
    let lucks = [luck(), luck(), luck()];
    let torn = luck() / 2;
    let mut image = Image::default();
    for (file, inode) in names {
        let Inode { mut bytes, pending } = rest.inodes[inode].clone();
        for change in pending {
            if !dice.chance(lucks[file as usize % lucks.len()]) {
                continue;
            }
            match dice.chance(torn) {
                true => change.sectors().iter().filter(|_| dice.chance(50)).for_each(|s| s.apply(&mut bytes)),
                false => change.apply(&mut bytes),
            }
        }
        image.0.insert(file, bytes);
    }
    image
}

/// Data on the disk, and data in the cache of the system.
#[derive(Debug, Default)]
struct Remains {
    inodes: Vec<Inode>,
    names: BTreeMap<File, usize>,
    /// Names created (with their inodes) and removed since the last sync of the folder.
    moves: Vec<(File, Option<usize>)>,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    bytes: Vec<u8>,
    pending: Vec<PendingChange>,
}

#[derive(Debug, Clone)]
enum PendingChange {
    Write(usize, Vec<u8>),
    Cut(usize),
}

impl PendingChange {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Self::Write(offset, bytes) => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
            Self::Cut(length) => to.resize(*length, 0),
        }
    }

    /// The parts that reach the disk independently.
    fn sectors(&self) -> Vec<Self> {
        let Self::Write(offset, bytes) = self else { return vec![self.clone()] };
        let mut parts = Vec::new();
        let mut from = 0;
        while from < bytes.len() {
            let until = (from + SECTOR - (offset + from) % SECTOR).min(bytes.len());
            parts.push(Self::Write(offset + from, bytes[from..until].to_vec()));
            from = until;
        }
        parts
    }
}

impl Remains {
    fn take(&mut self, change: &FileChange) {
        match change {
            FileChange::Made(file) => {
                self.inodes.push(Inode::default());
                self.moves.push((*file, Some(self.inodes.len() - 1)));
            }
            FileChange::Removed(file) => self.moves.push((*file, None)),
            FileChange::Written { file, offset, bytes } => {
                self.change(*file, PendingChange::Write(*offset, bytes.clone()));
            }
            FileChange::Cut { file, length } => self.change(*file, PendingChange::Cut(*length)),
            FileChange::Synced(File::Folder) => {
                self.names = self.names_after(self.moves.len());
                self.moves.clear();
            }
            FileChange::Synced(file) => {
                if let Some(inode) = self.open(*file) {
                    let Inode { bytes, pending } = &mut self.inodes[inode];
                    pending.drain(..).for_each(|change| change.apply(bytes));
                }
            }
            FileChange::Mark(_) | FileChange::Failed(_) => {}
        }
    }

    /// The inode of a name, as programs see it.
    fn open(&self, file: File) -> Option<usize> {
        self.names_after(self.moves.len()).get(&file).copied()
    }

    fn change(&mut self, file: File, change: PendingChange) {
        if let Some(inode) = self.open(file) {
            self.inodes[inode].pending.push(change);
        }
    }

    /// The names after the first `count` moves.
    fn names_after(&self, count: usize) -> BTreeMap<File, usize> {
        let mut names = self.names.clone();
        for (file, inode) in &self.moves[..count] {
            match inode {
                Some(inode) => names.insert(*file, *inode),
                None => names.remove(file),
            };
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: File = File::Database;

    fn wrote(offset: usize, byte: u8, length: usize) -> FileChange {
        FileChange::Written { file: DB, offset, bytes: vec![byte; length] }
    }

    fn images(changes: &[FileChange]) -> Vec<Image> {
        (0..2_000).map(|seed| after_power_loss(changes, &mut DiskRandom::new(seed))).collect()
    }

    #[test]
    fn synced_data_always_survives() {
        let made = [
            FileChange::Made(DB),
            FileChange::Synced(File::Folder),
            wrote(0, 1, 1024),
            FileChange::Synced(DB),
        ];
        let whole = Image([(DB, vec![1; 1024])].into());
        assert!(images(&made).iter().all(|image| *image == whole));
        assert_eq!(copied(&made), whole);
    }

    #[test]
    fn unsynced_writes_may_be_lost_torn_or_reordered() {
        let mut changes = vec![FileChange::Made(DB), FileChange::Synced(File::Folder), wrote(0, 1, 1024)];
        changes.extend([FileChange::Synced(DB), wrote(0, 2, 1024), wrote(1024, 3, 512)]);
        let seen: Vec<Vec<u8>> = images(&changes).into_iter().map(|image| image.0[&DB].clone()).collect();
        let has = |parts: [u8; 3]| {
            seen.iter().any(|bytes| {
                parts
                    .iter()
                    .enumerate()
                    .all(|(at, part)| bytes.get(at * SECTOR).copied().unwrap_or(0) == *part)
            })
        };
        for parts in [[1, 1, 0], [2, 2, 3], [2, 2, 0], [1, 1, 3], [1, 2, 3], [2, 1, 0]] {
            assert!(has(parts), "{parts:?}");
        }
        assert!(
            seen.iter().all(|bytes| bytes.len() >= 1024 && bytes.iter().all(|byte| (1..=3).contains(byte)))
        );
    }

    #[test]
    fn a_name_survives_once_its_folder_was_synced() {
        let wal = File::Wal;
        let made = [
            FileChange::Made(DB),
            FileChange::Synced(File::Folder),
            FileChange::Made(wal),
            FileChange::Removed(DB),
        ];
        let names = |image: &Image| image.0.keys().copied().collect::<Vec<_>>();
        let seen: Vec<_> = images(&made).iter().map(names).collect();
        for expected in [vec![DB], vec![DB, wal], vec![wal]] {
            assert!(seen.contains(&expected), "{expected:?}");
        }
        assert!(seen.iter().all(|names| !names.is_empty()));
    }
}
