//! Whether code is replaying recorded history.

use goldseam_core::{Path, Seq};

use super::{Arm, Inner, Mode};

impl Inner {
    /// Whether the code of `arm` has executed before: the log has an operation that the code requests later, or the
    /// run left memory after the latest operation that the code has requested.
    ///
    /// An arm takes part in what happens inside it: operations of nested arms and groups count until the code has
    /// requested them, if they began after the latest operation that the arm has requested. Once the code has
    /// requested an operation whose end the log does not have, only operations of the arm itself count.
    pub(crate) fn is_replaying(&self, arm: &Path) -> bool {
        self.only_replays || self.has_gone_on(arm) || self.had_come_to_rest(arm)
    }

    /// Whether the log has an operation that the code of `arm` requests after those that it has requested.
    pub(crate) fn has_gone_on(&self, arm: &Path) -> bool {
        let (next, live, seen) =
            self.arms.get(arm).map_or_else(Default::default, |arm| (arm.next, arm.live, arm.seen));
        if self.state.goes_on(arm.as_str(), next) {
            return true;
        }
        let is_ahead = |(path, op): (&Path, &goldseam_core::state::Op)| {
            let inside = path.arm();
            op.first > seen
                && is_inside(inside, arm.as_str())
                && self.arms.get(inside).is_none_or(|nested| nested.next <= op.ord)
        };
        !live && self.state.ops.iter().any(is_ahead)
    }

    /// Whether the run left memory while the code of `arm` was where it is now. The arms around it and inside it count
    /// too: an arm may begin after what its parent awaited, and a parent goes on after what its arms awaited.
    fn had_come_to_rest(&self, arm: &Path) -> bool {
        let unloaded = self.state.unloaded;
        let is_past = |(path, counters): (&Path, &Arm)| {
            let other = path.as_str();
            let is_related = path == arm || is_inside(arm.as_str(), other) || is_inside(other, arm.as_str());
            is_related && (counters.live || counters.seen > unloaded)
        };
        unloaded > Seq::ZERO && !self.arms.iter().any(is_past)
    }

    /// Marks an execution that begins nothing new: all of its code has executed before, or must have no effect.
    pub(super) fn replay_only(mode: Mode) -> bool {
        matches!(mode, Mode::Replay | Mode::Preflight)
    }
}

/// Whether the arm `inside` is nested in `arm`.
fn is_inside(inside: &str, arm: &str) -> bool {
    match inside.strip_prefix(arm) {
        Some("") | None => false,
        Some(rest) => arm.is_empty() || rest.starts_with('/'),
    }
}
