//! Disks with injected faults, and disks that journal every change, under a program with a SQLite database.
//!
//! A small C library intercepts the calls of the program (`disk.c`, compiled on first use, loaded by `LD_PRELOAD`). It
//! writes a [`DiskJournal`], from which [`image`] derives the possible files after a power loss at any moment.

mod dice;
pub mod image;
mod journal;

use std::collections::hash_map::DefaultHasher;
use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub use dice::DiskRandom;
pub use journal::{DiskJournal, File, FileChange};

use crate::TestbedError;

const SOURCE: &str = include_str!("disk.c");

/// A kind of call to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemCall {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file or the folder is synced.
    Sync,
    /// A file is truncated.
    Truncate,
    /// A file is opened or created.
    Open,
}

/// Which calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailingCalls {
    /// One call.
    Once,
    /// That call and all later ones.
    On,
    /// A write writes half of its bytes, and the next one fails.
    Short,
}

/// An injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskFault {
    /// The kind of call.
    pub call: SystemCall,
    /// The number of the first failing call of that kind, from 1.
    pub first: u64,
    /// Name of the error: `ENOSPC`, `EIO`, `EROFS` or `EDQUOT`.
    pub errno: &'static str,
    /// Which calls fail.
    pub manner: FailingCalls,
}

impl fmt::Display for DiskFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = match self.call {
            SystemCall::Read => "read",
            SystemCall::Write => "write",
            SystemCall::Sync => "sync",
            SystemCall::Truncate => "truncate",
            SystemCall::Open => "open",
        };
        let manner = match self.manner {
            FailingCalls::Once => "once",
            FailingCalls::On => "on",
            FailingCalls::Short => "short",
        };
        write!(f, "{call} {} {} {manner}", self.first, self.errno)
    }
}

/// The disk of one database.
#[derive(Debug, Clone)]
pub struct Disk {
    database: PathBuf,
    fault: Option<DiskFault>,
    healed: Option<PathBuf>,
    journal: Option<PathBuf>,
}

impl Disk {
    /// A disk without faults.
    pub fn under(database: &Path) -> Self {
        Self { database: database.to_owned(), fault: None, healed: None, journal: None }
    }

    /// Adds a fault.
    #[must_use]
    pub fn failing(mut self, fault: DiskFault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Ends the fault once the file `healed` exists.
    #[must_use]
    pub fn until(mut self, healed: &Path) -> Self {
        self.healed = Some(healed.to_owned());
        self
    }

    /// Appends every change to the file `journal`.
    #[must_use]
    pub fn journalling_to(mut self, journal: &Path) -> Self {
        self.journal = Some(journal.to_owned());
        self
    }

    /// Makes `command` use this disk.
    pub fn put_under(&self, command: &mut Command) -> Result<(), TestbedError> {
        command.env("LD_PRELOAD", library()?).env("GOLDSEAM_DISK_FILE", &self.database);
        command.envs(self.fault.map(|fault| ("GOLDSEAM_DISK_FAULT", fault.to_string())));
        command.envs(self.healed.iter().map(|path| ("GOLDSEAM_DISK_HEALED", path)));
        command.envs(self.journal.iter().map(|path| ("GOLDSEAM_DISK_JOURNAL", path)));
        Ok(())
    }
}

/// The library, compiled once and kept beside the running program.
fn library() -> Result<PathBuf, TestbedError> {
    static LIBRARY: OnceLock<Result<PathBuf, TestbedError>> = OnceLock::new();
    LIBRARY.get_or_init(compile).clone()
}

fn compile() -> Result<PathBuf, TestbedError> {
    let failed = |error: std::io::Error| TestbedError::failed("compiling disk.c", error);
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let program = std::env::current_exe().map_err(failed)?;
    let library = program.with_file_name(format!("goldseam-disk-{:016x}.so", hasher.finish()));
    if library.is_file() {
        return Ok(library);
    }
    // Several processes may compile at once: each uses its own files, and the last one stays.
    let own = library.with_extension(format!("{}.so", std::process::id()));
    let source = own.with_extension("c");
    fs::write(&source, SOURCE).map_err(failed)?;
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .args([&own, &source])
        .args(["-ldl", "-lpthread"])
        .stdin(Stdio::null())
        .output();
    let _ = fs::remove_file(&source);
    let hint = "install a C compiler: the Debian package `gcc` or your system's equivalent".to_owned();
    let compiled = compiled.map_err(|_| TestbedError::Missing { program: "cc", hint })?;
    if !compiled.status.success() {
        return Err(TestbedError::failed("cc", String::from_utf8_lossy(&compiled.stderr)));
    }
    fs::rename(&own, &library).map_err(failed)?;
    Ok(library)
}
