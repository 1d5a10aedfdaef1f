//! Seeds that failed once: kept in a file and replayed by the tests.

use std::io::Write as _;
use std::path::PathBuf;

/// Returns the path of the file.
pub fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds/failed.txt")
}

/// Reads the seeds. A line holds a seed, an optional remark after `#`, or nothing. Anything else is an error, so that
/// no seed is lost silently.
pub fn read() -> std::io::Result<Vec<u64>> {
    let text = std::fs::read_to_string(file())?;
    let seeds = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let seeds = seeds.filter(|seed| !seed.is_empty());
    seeds
        .map(|seed| seed.parse().map_err(|_| std::io::Error::other(format!("invalid seed {seed:?}"))))
        .collect()
}

/// Adds a seed that failed, unless the file has it.
pub fn keep(seed: u64, remark: &str) -> std::io::Result<()> {
    if read()?.contains(&seed) {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file())?;
    writeln!(file, "{seed} # {remark}")
}
