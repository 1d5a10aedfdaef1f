//! Whether code is replaying recorded history.

use goldseam_core::Path;

use super::{Inner, Mode};

impl Inner {
    /// Whether the code of `arm` has executed before: the log has an operation that the code requests later.
    ///
    /// An arm takes part in what happens inside it: operations of nested arms and groups count until the code has
    /// requested them, if they began after the latest operation that the arm has requested. Once the code has
    /// requested an operation whose end the log does not have, only operations of the arm itself count.
    pub(crate) fn is_replaying(&self, arm: &Path) -> bool {
        self.only_replays || self.has_gone_on(arm)
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
