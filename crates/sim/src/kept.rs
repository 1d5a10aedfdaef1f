//! Seeds that failed once: kept in a file, replayed by the tests for ever.

use std::io::Write as _;
use std::path::PathBuf;

/// The file of kept seeds.
pub fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds/failed.txt")
}

/// The kept seeds. A line is a seed, or nothing, and perhaps a remark after `#`; anything else is an error, or a seed
/// could be lost without anybody noticing.
pub fn read() -> std::io::Result<Vec<u64>> {
    let text = std::fs::read_to_string(file())?;
    let seeds = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let seeds = seeds.filter(|seed| !seed.is_empty());
    seeds
        .map(|seed| seed.parse().map_err(|_| std::io::Error::other(format!("{seed:?} is no seed"))))
        .collect()
}

/// Keeps a seed that failed, once.
pub fn keep(seed: u64, remark: &str) -> std::io::Result<()> {
    if read()?.contains(&seed) {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file())?;
    writeln!(file, "{seed} # {remark}")
}
