//! What stands for a claim on the wire: opaque to workers, made and read by the server alone.

use std::fmt::Debug;

use goldseam_core::{BranchId, Fence, Hash, NodeId, RunId, Seq, WriteId};

use super::wire::Doing;

/// Makes tokens that nobody else can make.
pub trait Tokens: Debug + Send + Sync + 'static {
    /// The token that stands for `text`.
    fn seal(&self, text: &str) -> String;

    /// What `token` stands for; none if it was not made here.
    fn open(&self, token: &str) -> Option<String>;
}

/// Tokens that anybody could make: for workers in the same process, and for tests.
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

/// Who has which run, under which claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) worker: NodeId,
    pub(super) run: RunId,
    pub(super) fence: Fence,
    /// The credential that it was claimed with.
    pub(super) key: Option<String>,
}

impl Held {
    /// The claim, by any node.
    fn text(&self) -> String {
        let Self { worker, run, fence, key: _ } = self;
        format!("{worker}/{run}/{}/{}", fence.epoch.0, fence.branch.0)
    }

    /// What a token stands for: the claim, and the credential that it was made with.
    pub(super) fn sealed(&self) -> String {
        match &self.key {
            Some(key) => format!("{}/{key}", self.text()),
            None => self.text(),
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(5, '/');
        let (worker, run) = (NodeId::new(parts.next()?).ok()?, RunId::new(parts.next()?).ok()?);
        let epoch = Seq(parts.next()?.parse().ok()?);
        let branch = BranchId(parts.next()?.parse().ok()?);
        let key = parts.next().map(str::to_owned);
        Some(Self { worker, run, fence: Fence { epoch, branch }, key })
    }

    /// The name in the log of the append that the worker calls `id` and that has these doings.
    pub(super) fn write(&self, id: &str, doings: &[Doing]) -> AppendName {
        let called = Hash::of_parts(&["append", &self.text(), id]).leading();
        let content = Hash::of(canonical(doings).as_bytes()).leading();
        let write = WriteId((called & !CONTENT) | (content & CONTENT));
        AppendName { write, unmarked: WriteId(called) }
    }
}

/// The bits of a write-id that stand for the content of an append. The others stand for its claim and its id: they must
/// tell all appends of a run apart, while these only tell a repeat from a mistake.
const CONTENT: u64 = 0xffff;

/// How an append is known in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AppendName {
    /// The write-id of its events.
    pub(super) write: WriteId,
    /// The write-id that releases gave it that did not mark the content.
    unmarked: WriteId,
}

impl AppendName {
    /// Whether a write has the same claim and id.
    pub(super) fn has_id_of(self, write: WriteId) -> bool {
        write.0 & !CONTENT == self.write.0 & !CONTENT
    }

    /// Whether such a write has the same content, as far as the log tells.
    pub(super) fn has_content_of(self, write: WriteId) -> bool {
        write == self.write || write == self.unmarked
    }
}

/// Doings as text: the same for the same doings, whatever blanks and order of fields they came with.
fn canonical(doings: &[Doing]) -> String {
    let sorted = serde_json::to_value(doings).map(|value| value.to_string());
    // A number that no `Value` holds: the text as it came is as good, only less forgiving.
    sorted.or_else(|_| serde_json::to_string(doings)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_token_stands_for_goes_there_and_back() {
        for text in ["node-1/ord-7/12/3", "node-1/ord-7/12/3/00c0ffee00c0ffee", "node-1/ord-7/12/3/a/b"] {
            assert_eq!(Held::parse(text).unwrap().sealed(), text);
        }
        for nonsense in ["", "node-1", "node-1/ord-7/12", "a b/ord-7/12/3", "n/r/x/1"] {
            assert_eq!(Held::parse(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn an_append_has_the_same_name_whichever_key_sends_it_again() {
        let held = |text: &str| Held::parse(text).unwrap().write("a-1", &[]);
        assert_eq!(held("node-1/ord-7/12/3"), held("node-1/ord-7/12/3/key"));
    }

    #[test]
    fn an_append_is_told_from_another_one_with_its_id() {
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
