//! Seeds that failed once: kept in a file, replayed by the tests for ever.

use std::io::Write as _;
use std::path::PathBuf;

/// The file of kept seeds.
pub fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds/failed.txt")
}

/// The kept seeds. A line is a seed, and perhaps a remark after `#`.
pub fn read() -> Vec<u64> {
    let text = std::fs::read_to_string(file()).unwrap_or_default();
    text.lines().filter_map(|line| line.split('#').next()?.trim().parse().ok()).collect()
}

/// Keeps a seed that failed, once.
pub fn keep(seed: u64, remark: &str) -> std::io::Result<()> {
    if read().contains(&seed) {
        return Ok(());
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file())?;
    writeln!(file, "{seed} # {remark}")
}
