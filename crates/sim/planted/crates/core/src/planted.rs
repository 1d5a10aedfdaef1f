//! Planted bugs, which engines like this one have shipped. The search for lost and repeated steps must find every one
//! of them; otherwise it proves nothing.
//!
//! `cargo xtask planted` adds this module to a copy of the tree, and patches the copy so that the bugs ask whether they
//! are planted. At most one is planted at a time, and only for the thread that planted it.

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// An owner that was superseded may still write.
    NoFence,
    /// After a conflict, the owner adopts the newest claim as its own and writes its old events.
    BlindRetry,
    /// A write with an unknown outcome counts as done.
    UnknownIsDone,
    /// The liveness of nodes is read once and never updated.
    StaleSnapshot,
    /// A node counts as dead as soon as one heartbeat is late.
    LateIsDead,
    /// A silent owner is charged as if it had crashed.
    SilentIsCharged,
    /// The recovery is not counted at the claim.
    AttemptNotCounted,
    /// The count of recoveries restarts with every resume.
    CounterReset,
    /// A command with a known id is taken again.
    CommandTwice,
    /// A finished run takes mail.
    FinishedTakesMail,
    /// A start with a known id and different input returns the existing run.
    OtherInput,
    /// A run goes to rest although mail arrived after the last check.
    CheckThenWait,
    /// The newest signal of a name is taken first.
    NewestMailFirst,
    /// `continue_as_new` loses unread mail.
    ContinueDropsMail,
    /// Steps are compensated in the order of completion.
    UndoInOrder,
    /// The first completed step is not compensated.
    UndoSkipsOne,
    /// Steps that were compensated before a takeover are compensated again.
    UndoAgain,
    /// A compensating run goes forward if its code does not fail again.
    BeginsWhileUndoing,
    /// An at-most-once step begins without an event.
    OnceWithoutTrace,
    /// The cached row is written as it was before the append.
    RowNotFolded,
    /// Events are not chained by hashes.
    NoChain,
    /// A lock is released by the name of its holder, without its fence.
    ReleaseByName,
    /// A lock has the same fence for every holder.
    SameFence,
    /// A sweep writes although nothing is wrong.
    SweepWrites,
    /// Lost rows are not searched for.
    NoLostRows,
    /// A follower that reconnects begins one event too late.
    FollowSkips,
    /// A worker's result is acknowledged before the log has it.
    ResultBeforeLog,
    /// An execution that is loaded again continues under any claim of its node.
    AnyClaimIsOwn,
    /// A sweep ends at the first unreadable record.
    SweepStopsAtUnreadable,
    /// A node does not check whether it already executes a run, nor whether its task is still valid.
    TwoAtOnce,
    /// A run that only waits is charged with the death of its owner.
    WaitingIsCharged,
    /// A jump silently drops an acknowledged request to cancel.
    JumpDropsCancel,
    /// The owner of a terminated run may still write.
    TerminatedGoesOn,
    /// Nodes are offered runs of versions that they lack, and park them.
    ParksUnknownVersion,
    /// A version that no live node has at this moment counts as lost.
    NoVersionGrace,
    /// An operation that repeats a batch does not look for its own actions.
    OperationForgets,
    /// A canary goes on although a run of its stage failed again.
    CanaryIgnoresRelapse,
    /// A canary goes on before the runs of its stage have passed.
    CanaryDoesNotWait,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 38] = [
        Self::NoFence,
        Self::BlindRetry,
        Self::UnknownIsDone,
        Self::StaleSnapshot,
        Self::LateIsDead,
        Self::SilentIsCharged,
        Self::AttemptNotCounted,
        Self::CounterReset,
        Self::CommandTwice,
        Self::FinishedTakesMail,
        Self::OtherInput,
        Self::CheckThenWait,
        Self::NewestMailFirst,
        Self::ContinueDropsMail,
        Self::UndoInOrder,
        Self::UndoSkipsOne,
        Self::UndoAgain,
        Self::BeginsWhileUndoing,
        Self::OnceWithoutTrace,
        Self::RowNotFolded,
        Self::NoChain,
        Self::ReleaseByName,
        Self::SameFence,
        Self::SweepWrites,
        Self::NoLostRows,
        Self::FollowSkips,
        Self::ResultBeforeLog,
        Self::AnyClaimIsOwn,
        Self::SweepStopsAtUnreadable,
        Self::TwoAtOnce,
        Self::WaitingIsCharged,
        Self::JumpDropsCancel,
        Self::TerminatedGoesOn,
        Self::ParksUnknownVersion,
        Self::NoVersionGrace,
        Self::OperationForgets,
        Self::CanaryIgnoresRelapse,
        Self::CanaryDoesNotWait,
    ];
}

thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants `bug` for this thread, in place of another, or removes the planted one.
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Returns whether `bug` is planted on this thread.
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether this bug is planted. A patch needs no import for it.
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is($crate::planted::Bug::$bug)
    };
}
