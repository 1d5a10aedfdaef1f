//! The witness: a file to which every effect appends a line when it begins and when it ends.
//!
//! Each line is one `write` to a file opened for appending: lines of several processes never mix, and a written line
//! survives the end of the process.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

/// A writer of the witness file.
#[derive(Debug)]
pub(crate) struct WitnessWriter(File);

/// A line of the witness file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WitnessLine {
    /// Whether the effect ended; otherwise it began.
    pub(crate) ended: bool,
    pub(crate) run: String,
    /// The step, or `undo/STEP`.
    pub(crate) path: String,
    pub(crate) attempt: u32,
    /// The idempotency key of the step.
    pub(crate) key: String,
    /// The process.
    pub(crate) pid: u32,
    /// The time in microseconds since 1970.
    pub(crate) at_us: i64,
}

impl WitnessWriter {
    /// Opens a file for appending.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    /// Records that an effect begins.
    pub(crate) fn begin(&self, run: &str, path: &str, attempt: u32, key: &str) -> io::Result<()> {
        self.write(false, [run, path, &attempt.to_string(), key])
    }

    /// Records that an effect ended.
    pub(crate) fn end(&self, run: &str, path: &str, attempt: u32, key: &str) -> io::Result<()> {
        self.write(true, [run, path, &attempt.to_string(), key])
    }

    fn write(&self, ended: bool, [run, path, attempt, key]: [&str; 4]) -> io::Result<()> {
        let word = if ended { "end" } else { "begin" };
        let pid = std::process::id();
        let micros = micros_now();
        let line = format!("{word}\t{run}\t{path}\t{attempt}\t{key}\t{pid}\t{micros}\n");
        (&self.0).write_all(line.as_bytes())
    }
}

/// Reads all lines, in order.
pub(crate) fn read(path: &Path) -> io::Result<Vec<WitnessLine>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().filter_map(parse).collect())
}

fn parse(line: &str) -> Option<WitnessLine> {
    let mut parts = line.split('\t');
    let ended = match parts.next()? {
        "end" => true,
        "begin" => false,
        _ => return None,
    };
    Some(WitnessLine {
        ended,
        run: parts.next()?.to_owned(),
        path: parts.next()?.to_owned(),
        attempt: parts.next()?.parse().ok()?,
        key: parts.next()?.to_owned(),
        pid: parts.next()?.parse().ok()?,
        at_us: parts.next()?.parse().ok()?,
    })
}

/// The time of the machine's clock, in microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the witness must not depend on the engine's clock")]
pub(crate) fn micros_now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_round_trip() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("witness.tsv");
        let witness = WitnessWriter::open(&path).unwrap();
        witness.begin("r", "pick:a", 2, "k").unwrap();
        witness.end("r", "pick:a", 2, "k").unwrap();
        let seen = read(&path).unwrap();
        assert_eq!(seen.len(), 2);
        assert_eq!((seen[0].ended, seen[1].ended), (false, true));
        assert_eq!((seen[0].path.as_str(), seen[0].attempt, seen[0].pid), ("pick:a", 2, std::process::id()));
    }
}
