//! A disk that fails as it is told, and one that remembers every change, under a program that keeps a SQLite database.
//!
//! A small library in C stands between the program and the system (`disk.c`, compiled when it is first needed, loaded
//! by `LD_PRELOAD`). What it remembers is a [`Journal`], and from that come the files as they could be after a power
//! loss at any moment ([`image`]).

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

pub use dice::Dice;
pub use journal::{Change, File, Journal};

use crate::Error;

const SOURCE: &str = include_str!("disk.c");

/// A kind of call to the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// A file or the folder is synced.
    Sync,
    /// A file is cut.
    Truncate,
    /// A file is opened or made.
    Open,
}

/// Which calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    /// One.
    Once,
    /// That one and all later ones.
    On,
    /// A write does half of its work, and the next one fails.
    Short,
}

/// What fails, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of call.
    pub call: Call,
    /// How many calls of that kind come first, plus one.
    pub first: u64,
    /// Name of the error: `ENOSPC`, `EIO`, `EROFS` or `EDQUOT`.
    pub errno: &'static str,
    /// Once or for good.
    pub manner: Manner,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = match self.call {
            Call::Read => "read",
            Call::Write => "write",
            Call::Sync => "sync",
            Call::Truncate => "truncate",
            Call::Open => "open",
        };
        let manner = match self.manner {
            Manner::Once => "once",
            Manner::On => "on",
            Manner::Short => "short",
        };
        write!(f, "{call} {} {} {manner}", self.first, self.errno)
    }
}

/// The disk under one database.
#[derive(Debug, Clone)]
pub struct Disk {
    database: PathBuf,
    fault: Option<Fault>,
    healed: Option<PathBuf>,
    journal: Option<PathBuf>,
}

impl Disk {
    /// A disk that does what it should.
    pub fn under(database: &Path) -> Self {
        Self { database: database.to_owned(), fault: None, healed: None, journal: None }
    }

    /// The same, but this fails.
    #[must_use]
    pub fn failing(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Nothing fails once there is a file `healed`.
    #[must_use]
    pub fn until(mut self, healed: &Path) -> Self {
        self.healed = Some(healed.to_owned());
        self
    }

    /// Every change is appended to the file `journal`.
    #[must_use]
    pub fn remembering(mut self, journal: &Path) -> Self {
        self.journal = Some(journal.to_owned());
        self
    }

    /// Puts the disk under `command`.
    pub fn put_under(&self, command: &mut Command) -> Result<(), Error> {
        command.env("LD_PRELOAD", library()?).env("GOLDSEAM_DISK_FILE", &self.database);
        command.envs(self.fault.map(|fault| ("GOLDSEAM_DISK_FAULT", fault.to_string())));
        command.envs(self.healed.iter().map(|path| ("GOLDSEAM_DISK_HEALED", path)));
        command.envs(self.journal.iter().map(|path| ("GOLDSEAM_DISK_JOURNAL", path)));
        Ok(())
    }
}

/// The library, compiled once and kept beside the program that asks for it.
fn library() -> Result<PathBuf, Error> {
    static LIBRARY: OnceLock<Result<PathBuf, Error>> = OnceLock::new();
    LIBRARY.get_or_init(compile).clone()
}

fn compile() -> Result<PathBuf, Error> {
    let failed = |error: std::io::Error| Error::failed("compiling disk.c", error);
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    let program = std::env::current_exe().map_err(failed)?;
    let library = program.with_file_name(format!("goldseam-disk-{:016x}.so", hasher.finish()));
    if library.is_file() {
        return Ok(library);
    }
    // Several processes may do it at once: each in its own files, and the last one stays.
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
    let compiled = compiled.map_err(|_| Error::Missing { program: "cc", hint })?;
    if !compiled.status.success() {
        return Err(Error::failed("cc", String::from_utf8_lossy(&compiled.stderr)));
    }
    fs::rename(&own, &library).map_err(failed)?;
    Ok(library)
}
