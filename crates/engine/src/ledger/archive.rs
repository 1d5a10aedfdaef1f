//! The text format of archived runs: JSON lines.
//!
//! Each run has a header line, then the texts of its events, one line each, exactly as in the log. The last line has
//! the counts and the SHA-256 of everything before it.

use goldseam_core::codec::decode_all;
use goldseam_core::hash::sha256_hex;
use goldseam_core::{Corrupt, Hash, RunId, Seq, State, Summary, derive};
use serde::{Deserialize, Serialize};

/// The format version that this release writes.
const FORMAT: u32 = 1;

/// The line before the events of a run.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    goldseam_archive: u32,
    run: RunId,
    events: u64,
    sha256: String,
    summary: Summary,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct End {
    goldseam_archive: u32,
    runs: u64,
    events: u64,
    sha256: String,
}

/// A complete log, read and checked.
#[derive(Debug)]
pub struct Whole {
    pub run: RunId,
    pub texts: Vec<String>,
    pub state: State,
    pub sha256: String,
}

impl Whole {
    /// Checks that a log is complete and undamaged.
    pub fn new(run: &RunId, texts: Vec<String>) -> Result<Self, Corrupt> {
        let numbered = (1..).map(Seq).zip(texts.iter().map(String::as_str));
        let (history, head) = decode_all(Seq::ZERO, Hash::ZERO, numbered)?;
        let state = derive(run, &history, head)?;
        if let Some(at) = texts.iter().position(|text| text.contains('\n')) {
            return Err(Corrupt::new(Seq(at as u64 + 1), "its text has more than one line"));
        }
        let sha256 = fingerprint(texts.iter().map(String::as_str));
        Ok(Self { run: run.clone(), texts, state, sha256 })
    }

    /// Number of bytes of its texts.
    pub fn bytes(&self) -> usize {
        self.texts.iter().map(|text| text.len() + 1).sum()
    }
}

/// SHA-256 of texts, each with a line end.
fn fingerprint<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let lines: String = texts.flat_map(|text| [text, "\n"]).collect();
    sha256_hex(lines.as_bytes())
}

/// Serializes a batch.
pub fn write(runs: &[Whole]) -> Vec<u8> {
    let mut text = String::with_capacity(runs.iter().map(Whole::bytes).sum::<usize>() + runs.len() * 1_024);
    for whole in runs {
        let header = Header {
            goldseam_archive: FORMAT,
            run: whole.run.clone(),
            events: whole.texts.len() as u64,
            sha256: whole.sha256.clone(),
            summary: whole.state.summary.clone(),
        };
        line(&mut text, &header);
        whole.texts.iter().for_each(|body| text.extend([body.as_str(), "\n"]));
    }
    let end = End {
        goldseam_archive: FORMAT,
        runs: runs.len() as u64,
        events: runs.iter().map(|whole| whole.texts.len() as u64).sum(),
        sha256: sha256_hex(text.as_bytes()),
    };
    line(&mut text, &end);
    text.into_bytes()
}

fn line(text: &mut String, value: &impl Serialize) {
    // Serializing these types to a string cannot fail.
    text.push_str(&serde_json::to_string(value).unwrap_or_default());
    text.push('\n');
}

/// A run in an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct ArchivedRun {
    /// The run.
    pub run: RunId,
    /// Number of events.
    pub events: u64,
    /// SHA-256 of their texts, each with a line end; also in the tombstone.
    pub sha256: String,
    /// The summary derived from the events.
    pub summary: Summary,
}

/// A defect of a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the archive: {what}")]
pub struct BatchFlaw {
    /// The line.
    pub line: usize,
    /// The defect.
    pub what: String,
}

/// Reads a batch of an archive, and verifies every fingerprint and every chain of events.
pub fn verify(batch: &[u8]) -> Result<Vec<ArchivedRun>, BatchFlaw> {
    let flaw = |line: usize, what: String| BatchFlaw { line, what };
    let text = std::str::from_utf8(batch).map_err(|error| flaw(1, error.to_string()))?;
    let lines: Vec<&str> = text.lines().collect();
    let Some((last, lines)) = lines.split_last() else {
        return Err(flaw(1, "the batch is empty".to_owned()));
    };
    let end: End = serde_json::from_str(last)
        .map_err(|_| flaw(lines.len() + 1, "the batch is truncated: the last line is missing".to_owned()))?;
    let mut runs = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let run = read(&lines[at..]).map_err(|what| flaw(at + 1, what))?;
        at += 1 + usize::try_from(run.events).unwrap_or(usize::MAX);
        runs.push(run);
    }
    if end.sha256 != fingerprint(lines.iter().copied()) {
        return Err(flaw(lines.len() + 1, "the fingerprint of the batch does not match".to_owned()));
    }
    let events: u64 = runs.iter().map(|run| run.events).sum();
    if (end.runs, end.events) != (runs.len() as u64, events) {
        return Err(flaw(
            lines.len() + 1,
            format!("the last line counts {} runs, but there are {}", end.runs, runs.len()),
        ));
    }
    Ok(runs)
}

/// Reads every run of a batch, with the state derived from its log.
pub(crate) fn archived_states(text: &str) -> Result<Vec<(RunId, State)>, BatchFlaw> {
    let lines: Vec<&str> = text.lines().collect();
    let mut runs = Vec::new();
    let mut at = 0;
    while at < lines.len().saturating_sub(1) {
        let (header, whole) = whole(&lines[at..]).map_err(|what| BatchFlaw { line: at + 1, what })?;
        at += 1 + usize::try_from(header.events).unwrap_or(usize::MAX);
        runs.push((header.run, whole.state));
    }
    Ok(runs)
}

/// Reads the run that starts with the first line.
fn read(lines: &[&str]) -> Result<ArchivedRun, String> {
    let (header, whole) = whole(lines)?;
    Ok(ArchivedRun {
        run: header.run,
        events: header.events,
        sha256: header.sha256,
        summary: whole.state.summary,
    })
}

fn whole(lines: &[&str]) -> Result<(Header, Whole), String> {
    let Some((first, rest)) = lines.split_first() else { return Err("the batch is empty".to_owned()) };
    let header: Header =
        serde_json::from_str(first).map_err(|error| format!("not the header of a run: {error}"))?;
    if header.goldseam_archive > FORMAT {
        return Err(format!("it was written by a newer release (format {})", header.goldseam_archive));
    }
    let run = header.run.clone();
    let count = usize::try_from(header.events).unwrap_or(usize::MAX);
    let Some(texts) = rest.get(..count) else { return Err(format!("run {run} is truncated")) };
    if fingerprint(texts.iter().copied()) != header.sha256 {
        return Err(format!("the fingerprint of run {run} does not match"));
    }
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let whole = Whole::new(&run, texts).map_err(|corrupt| format!("run {run}: {corrupt}"))?;
    let header_row = &header.summary;
    let found = &whole.state.summary;
    if (header_row.status, header_row.as_of, header_row.head) != (found.status, found.as_of, found.head) {
        return Err(format!(
            "run {run} is {} by its events and {} by its header",
            found.status, header_row.status
        ));
    }
    Ok((header, whole))
}
