//! Tokens: stand for a claim on the wire. Opaque to workers; only the server makes and reads them.

use std::fmt::Debug;

use goldseam_core::{BranchId, Fence, Hash, NodeId, RunId, Seq, WriteId};

use super::wire::Doing;

/// Makes and opens tokens that no other party can make.
pub trait Tokens: Debug + Send + Sync + 'static {
    /// Makes the token for `text`.
    fn seal(&self, text: &str) -> String;

    /// Returns the text of a token; none if this server did not make it.
    fn open(&self, token: &str) -> Option<String>;
}

/// Tokens without protection, for workers in the same process and for tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlainTokens;

impl Tokens for PlainTokens {
    fn seal(&self, text: &str) -> String {
        text.to_owned()
    }

    fn open(&self, token: &str) -> Option<String> {
        Some(token.to_owned())
    }
}

/// A claim of a worker: which run, under which fence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) worker: NodeId,
    pub(super) run: RunId,
    pub(super) fence: Fence,
    /// The credential of the claim.
    pub(super) key: Option<String>,
}

impl Held {
    /// The claim, without the credential.
    fn text(&self) -> String {
        let Self { worker, run, fence, key: _ } = self;
        format!("{worker}/{run}/{}/{}", fence.epoch.0, fence.branch.0)
    }

    /// The text of a token: the claim and the credential.
    pub(super) fn sealed(&self) -> String {
        match &self.key {
            Some(key) => format!("{}/{key}", self.text()),
            None => self.text(),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '/');
        let worker = NodeId::new(parts.next()?).ok()?;
        let run = RunId::new(parts.next()?).ok()?;
        let epoch = Seq(parts.next()?.parse().ok()?);
        let branch = BranchId(parts.next()?.parse().ok()?);
        let key = parts.next().map(str::to_owned);
        Some(Self { worker, run, fence: Fence { epoch, branch }, key })
    }

    /// Derives the write-id of an append from its id and its doings.
    pub(super) fn write(&self, id: &str, doings: &[Doing]) -> AppendName {
        let called = Hash::of_parts(&["append", &self.text(), id]).leading();
        let content = Hash::of(canonical(doings).as_bytes()).leading();
        let write = WriteId((called & !CONTENT) | (content & CONTENT));
        AppendName { write, unmarked: WriteId(called) }
    }
}

/// The bits of a write-id that are derived from the content of an append. The others are derived from its claim and
/// id and must distinguish all appends of a run; these only distinguish a repeat from a reused id.
const CONTENT: u64 = 0xffff;

/// The write-ids of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AppendName {
    /// The write-id of its events.
    pub(super) write: WriteId,
    /// The write-id from releases that did not include the content.
    unmarked: WriteId,
}

impl AppendName {
    /// Whether a write has the same claim and id.
    pub(super) fn has_id_of(self, write: WriteId) -> bool {
        write.0 & !CONTENT == self.write.0 & !CONTENT
    }

    /// Whether such a write has the same content, as far as the log shows.
    pub(super) fn has_content_of(self, write: WriteId) -> bool {
        write == self.write || write == self.unmarked
    }
}

/// Serializes doings, independent of blanks and of the order of fields.
fn canonical(doings: &[Doing]) -> String {
    let sorted = serde_json::to_value(doings).map(|value| value.to_string());
    // For a number that no `Value` can hold, use the text as received: repeats must then be identical.
    sorted.or_else(|_| serde_json::to_string(doings)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_text_round_trips() {
        for text in ["node-1/ord-7/12/3", "node-1/ord-7/12/3/00c0ffee00c0ffee", "node-1/ord-7/12/3/a/b"] {
            assert_eq!(Held::parse(text).unwrap().sealed(), text);
        }
        for nonsense in ["", "node-1", "node-1/ord-7/12", "a b/ord-7/12/3", "n/r/x/1"] {
            assert_eq!(Held::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn append_has_the_same_name_for_every_key() {
        let held = |text: &str| Held::parse(text).unwrap().write("a-1", &[]);
        assert_eq!(held("node-1/ord-7/12/3"), held("node-1/ord-7/12/3/key"));
    }

    #[test]
    fn different_appends_with_one_id_are_distinguished() {
        let held = Held::parse("node-1/ord-7/12/3").unwrap();
        let named = |id: &str, json: &str| held.write(id, &serde_json::from_str::<Vec<Doing>>(json).unwrap());
        let first = named("a-1", r#"[{"complete":{"output":{"a":1,"b":[]}}}]"#);
        let blanks = named("a-1", r#"[ {"complete": {"output": {"b": [ ], "a": 1}}} ]"#);
        assert_eq!(first, blanks);
        let other = named("a-1", r#"[{"complete":{"output":2}}]"#);
        assert!(other.has_id_of(first.write) && !other.has_content_of(first.write));
        assert!(!named("a-2", r#"[{"complete":{"output":2}}]"#).has_id_of(first.write));
        let unmarked = first.unmarked;
        assert!(first.has_id_of(unmarked) && first.has_content_of(unmarked));
    }
}
