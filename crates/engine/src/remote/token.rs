//! What stands for a claim on the wire: opaque to workers, made and read by the server alone.

use std::fmt::Debug;

use goldseam_core::{BranchId, Fence, NodeId, RunId, Seq, WriteId};

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

    /// The name in the log of the append that the worker calls `id`.
    pub(super) fn write(&self, id: &str) -> WriteId {
        WriteId(goldseam_core::Hash::of_parts(&["append", &self.text(), id]).leading())
    }
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
        let held = |text: &str| Held::parse(text).unwrap().write("a-1");
        assert_eq!(held("node-1/ord-7/12/3"), held("node-1/ord-7/12/3/key"));
    }
}
