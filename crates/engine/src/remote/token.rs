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
}

impl Held {
    pub(super) fn text(&self) -> String {
        let Self { worker, run, fence } = self;
        format!("{worker}/{run}/{}/{}", fence.epoch.0, fence.branch.0)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let (worker, run) = (NodeId::new(parts.next()?).ok()?, RunId::new(parts.next()?).ok()?);
        let epoch = Seq(parts.next()?.parse().ok()?);
        let branch = BranchId(parts.next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { worker, run, fence: Fence { epoch, branch } })
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
        let text = "node-1/ord-7/12/3";
        assert_eq!(Held::parse(text).unwrap().text(), text);
        for nonsense in ["", "node-1", "node-1/ord-7/12", "node-1/ord-7/12/3/4", "a b/ord-7/12/3", "n/r/x/1"]
        {
            assert_eq!(Held::parse(nonsense), None, "{nonsense}");
        }
    }
}
