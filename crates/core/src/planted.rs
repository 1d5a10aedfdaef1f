//! Bugs planted on purpose: each one is a mistake that engines like this one have shipped. The search for lost and
//! repeated steps must find every one of them, or it proves nothing.
//!
//! Without the feature `planted` none of them exists: [`is`] is the constant `false`. With it, at most one at a time
//! is there, and only for the thread that planted it.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bug {
    /// An owner that was superseded may still write.
    NoFence,
    /// After a conflict the owner takes the newest claim for its own and writes what it had.
    BlindRetry,
    /// A write with an unknown outcome is taken for done.
    UnknownIsDone,
    /// Who lives is looked up once, and that look is used for ever.
    StaleSnapshot,
    /// A node is taken for dead as soon as one heartbeat is late.
    LateIsDead,
    /// Whoever is only silent is charged as if it had crashed.
    SilentIsCharged,
    /// The recovery is not counted at the claim.
    AttemptNotCounted,
    /// The count of recoveries begins anew with every resume.
    CounterReset,
    /// A command with an id that was seen is taken again.
    CommandTwice,
    /// A finished run takes mail.
    FinishedTakesMail,
    /// The same id with other input is taken for the same run.
    OtherInput,
    /// A run goes to rest although mail came between looking and resting.
    CheckThenWait,
    /// The newest signal of a name is taken first.
    NewestMailFirst,
    /// Mail that nobody read is left behind by `continue_as_new`.
    ContinueDropsMail,
    /// Steps are undone in the order in which they were done.
    UndoInOrder,
    /// The first step that was done is not undone.
    UndoSkipsOne,
    /// What was undone before a takeover is undone again.
    UndoAgain,
    /// A run that is being undone goes forward where its code does not fail again.
    BeginsWhileUndoing,
    /// A step that may be done only once begins without a trace.
    OnceWithoutTrace,
    /// The cached row is written as it was before the append.
    RowNotFolded,
    /// Events are not chained to what came before.
    NoChain,
    /// A lock is let go by the name of its holder.
    ReleaseByName,
    /// A lock has the same fence for every holder.
    SameFence,
    /// Whoever looks after the runs writes although nothing is wrong.
    SweepWrites,
    /// Lost rows are not looked for.
    NoLostRows,
    /// A follower that connects anew begins one event too late.
    FollowSkips,
    /// A worker is told that its result was taken before the log has it.
    ResultBeforeLog,
    /// An execution that is loaded again goes on under whatever claim its node has by then.
    AnyClaimIsOwn,
    /// A sweep ends at the first record that it cannot read.
    SweepStopsAtUnreadable,
    /// A node does not ask whether it executes a run already, nor whether the task that it acts for still counts.
    TwoAtOnce,
    /// A run that only waits is charged with the death of its owner.
    WaitingIsCharged,
    /// A jump drops an acknowledged request to cancel without a word.
    JumpDropsCancel,
    /// The owner of a terminated run may still write.
    TerminatedGoesOn,
    /// Nodes are offered runs of versions that they lack, and park them.
    ParksUnknownVersion,
    /// A version that no live node has at this moment counts as gone.
    NoVersionGrace,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 35] = [
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
    ];
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants `bug` for this thread, in place of another, or pulls out what was planted.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether `bug` is there.
#[cfg(feature = "planted")]
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether `bug` is there: it is not.
#[cfg(not(feature = "planted"))]
pub const fn is(_bug: Bug) -> bool {
    false
}
