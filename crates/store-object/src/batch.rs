//! One append as an object: a header line, then the texts of the events, one per line.
//!
//! The numbers of batches are dense, so creating the next batch proves where the log ended. The texts are stored
//! verbatim, so a person can read a log with any tool that downloads objects.

use bytes::Bytes;
use goldseam_core::{Hash, Seq};
use goldseam_store::{Record, StoreError};
use serde::{Deserialize, Serialize};

use crate::fault::damaged;

/// Most bytes that are shown of a damaged text.
const SHOWN_MAX: usize = 4_096;

/// The header line of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct BatchHeader {
    batch: u64,
    first: Seq,
    /// The epoch of the writer, if it knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<Seq>,
    write: String,
    /// The hash of the previous batch.
    before: Hash,
    /// The position and the length of each event.
    events: Vec<(Seq, usize)>,
    /// The next batch of a trimmed log. Only batch 1 has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<u64>,
}

/// One object of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogBatch {
    pub(crate) batch: u64,
    pub(crate) first: Seq,
    pub(crate) epoch: Option<Seq>,
    pub(crate) write: String,
    pub(crate) before: Hash,
    pub(crate) records: Vec<Record>,
    /// The next batch, if the batches in between were trimmed.
    pub(crate) kept: Option<u64>,
}

impl LogBatch {
    /// The first batch of a trimmed log, whose next batch is `first`. It prevents the log from beginning again.
    pub(crate) fn trimmed_to(first: &Self, write: String) -> Self {
        Self {
            batch: 1,
            first: Seq(1),
            epoch: None,
            write,
            before: first.before,
            records: Vec::new(),
            kept: Some(first.batch),
        }
    }

    /// The number of the next batch.
    pub(crate) fn next(&self) -> u64 {
        self.kept.unwrap_or(self.batch + 1)
    }

    /// The position of its last event.
    pub(crate) fn end(&self) -> Seq {
        self.records.last().map_or(self.first.before(), |record| record.seq)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let events = self.records.iter().map(|record| (record.seq, record.body.len())).collect();
        let header = BatchHeader {
            batch: self.batch,
            first: self.first,
            epoch: self.epoch,
            write: self.write.clone(),
            before: self.before,
            events,
            kept: self.kept,
        };
        let mut text = serde_json::to_vec(&header).unwrap_or_default();
        let length: usize = self.records.iter().map(|record| record.body.len() + 1).sum();
        text.reserve(length + 1);
        text.push(b'\n');
        for record in &self.records {
            text.extend_from_slice(record.body.as_bytes());
            text.push(b'\n');
        }
        text.into()
    }

    pub(crate) fn decode(key: &str, object: &[u8]) -> Result<Self, StoreError> {
        let line = object
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or_else(|| damaged(key, "the header line is missing"))?;
        let header: BatchHeader =
            serde_json::from_slice(&object[..line]).map_err(|error| damaged(key, error))?;
        let mut rest = &object[line + 1..];
        let mut records = Vec::with_capacity(header.events.len());
        for (seq, length) in header.events {
            let truncated = || damaged(key, format_args!("event {seq} is truncated"));
            let body = rest.get(..length).ok_or_else(truncated)?;
            let body = std::str::from_utf8(body).map_err(|error| damaged(key, error))?.to_owned();
            rest = rest.get(length + 1..).ok_or_else(truncated)?;
            records.push(Record { seq, body });
        }
        let BatchHeader { batch, first, epoch, write, before, kept, .. } = header;
        Ok(Self { batch, first, epoch, write, before, records, kept })
    }

    /// Recovers batch `batch` after position `end` from an object that [`decode`](Self::decode) refuses. Intact texts
    /// stay as they are. A damaged text is replaced by one that no event has; if the header is damaged too, one such
    /// text replaces all events.
    pub(crate) fn salvage(object: &[u8], batch: u64, end: Seq) -> Self {
        let lost = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
            format!("{}{text}", char::REPLACEMENT_CHARACTER)
        };
        let line = object.iter().position(|byte| *byte == b'\n').unwrap_or(object.len());
        let header = serde_json::from_slice::<BatchHeader>(&object[..line]).ok();
        let Some(header) = header.filter(|header| header.batch == batch && !header.events.is_empty()) else {
            let records = vec![Record { seq: end.next(), body: lost(object) }];
            return Self {
                batch,
                first: end.next(),
                epoch: None,
                write: String::new(),
                before: Hash::ZERO,
                records,
                kept: None,
            };
        };
        let mut rest = object.get(line + 1..).unwrap_or_default();
        let mut records = Vec::with_capacity(header.events.len());
        for (seq, length) in header.events {
            let (body, following) = rest.split_at_checked(length).unwrap_or((rest, &[]));
            let text = std::str::from_utf8(body).ok().filter(|_| body.len() == length);
            records.push(Record { seq, body: text.map_or_else(|| lost(body), str::to_owned) });
            rest = following.get(1..).unwrap_or_default();
        }
        let BatchHeader { first, epoch, write, before, kept, .. } = header;
        Self { batch, first, epoch, write, before, records, kept }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(bodies: &[&str]) -> LogBatch {
        let records = (5..).zip(bodies).map(|(seq, body)| Record { seq: Seq(seq), body: (*body).to_owned() });
        LogBatch {
            batch: 3,
            first: Seq(5),
            epoch: Some(Seq(2)),
            write: "w1".to_owned(),
            before: Hash::of(b"x"),
            records: records.collect(),
            kept: None,
        }
    }

    #[test]
    fn texts_survive_encoding() {
        for bodies in [&["a", "", "line\nline\n", "ä🏺"][..], &[""], &[]] {
            let batch = batch(bodies);
            assert_eq!(LogBatch::decode("k", &batch.encode()).unwrap(), batch);
        }
    }

    #[test]
    fn intact_texts_of_a_damaged_batch_are_recovered() {
        let whole = batch(&["abc", "def"]).encode();
        let mut broken = whole.to_vec();
        let at = broken.windows(3).position(|text| text == b"abc").unwrap();
        broken[at] = 0xfc;
        let texts = |object: &[u8]| -> Vec<(u64, String)> {
            let salvaged = LogBatch::salvage(object, 3, Seq(4));
            salvaged.records.into_iter().map(|record| (record.seq.0, record.body)).collect()
        };
        let first = (5, "\u{fffd}\u{fffd}bc".to_owned());
        let second = (6, "def".to_owned());
        assert_eq!(texts(&broken), [first, second]);
        assert_eq!(texts(&whole[..whole.len() - 3])[0], (5, "abc".to_owned()));
        assert!(texts(&whole[..whole.len() - 3])[1].1.starts_with('\u{fffd}'));
        assert_eq!(texts(b"garbage"), [(5, "\u{fffd}garbage".to_owned())]);
        assert_eq!(texts(b""), [(5, "\u{fffd}".to_owned())]);
    }

    #[test]
    fn a_truncated_object_is_damaged() {
        let whole = batch(&["abc", "def"]).encode();
        for length in 0..whole.len() {
            assert!(LogBatch::decode("k", &whole[..length]).is_err(), "{length} bytes");
        }
    }
}
