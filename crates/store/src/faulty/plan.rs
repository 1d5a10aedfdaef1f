//! Plans of faults: by the number of the call, or by seeded rates.

use std::collections::BTreeMap;
use std::time::Duration;

use super::StoreMethod;
use crate::splitmix::SplitMix;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CallFault {
    /// No fault.
    #[default]
    Pass,
    /// The call is not made, and the caller knows it (`Busy`).
    FailBefore,
    /// The call is made, but the caller does not know it (`Unknown`).
    LoseReply,
    /// The node crashes before the call.
    CrashBefore,
    /// The node crashes after the call.
    CrashAfter,
    /// The call is made later; the caller waits.
    Delay(Duration),
    /// The caller gets `Unknown` at once; the call is made later, regardless of what has happened since.
    DelayPastReply(Duration),
    /// The call is made and answered, and is made again later, as if a network delivered it twice.
    Duplicate(Duration),
}

impl CallFault {
    /// Returns the fault for that method: if no reply can be lost, the call fails before.
    pub(super) fn for_op(self, op: StoreMethod) -> Self {
        match self {
            Self::LoseReply | Self::DelayPastReply(_) if !op.writes() => Self::FailBefore,
            // Reading twice has no effect.
            Self::Duplicate(_) if !op.writes() => Self::Pass,
            other => other,
        }
    }
}

/// How often each fault occurs, per thousand calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultRates {
    /// See [`CallFault::FailBefore`].
    pub fail_before: u16,
    /// See [`CallFault::LoseReply`].
    pub lose_reply: u16,
    /// See [`CallFault::CrashBefore`].
    pub crash_before: u16,
    /// See [`CallFault::CrashAfter`].
    pub crash_after: u16,
    /// See [`CallFault::Delay`].
    pub delay: u16,
    /// See [`CallFault::DelayPastReply`].
    pub delay_past_reply: u16,
    /// See [`CallFault::Duplicate`].
    pub duplicate: u16,
    /// The longest delay.
    pub delay_max: Duration,
}

/// Decides the fault of every call: by number first, then by method, then by rate.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    numbered: BTreeMap<u64, CallFault>,
    appends: BTreeMap<u64, CallFault>,
    methods: Vec<(StoreMethod, CallFault)>,
    rates: FaultRates,
    dice: SplitMix,
}

impl FaultPlan {
    /// Creates a plan without faults.
    pub fn pass() -> Self {
        Self::seeded(0, FaultRates::default())
    }

    /// Creates a plan with faults at these rates, decided by `seed`.
    pub fn seeded(seed: u64, rates: FaultRates) -> Self {
        Self {
            numbered: BTreeMap::new(),
            appends: BTreeMap::new(),
            methods: Vec::new(),
            rates,
            dice: SplitMix::new(seed),
        }
    }

    /// Adds a fault for the `number`-th call, counted from 1.
    #[must_use]
    pub fn at(mut self, number: u64, fault: CallFault) -> Self {
        self.numbered.insert(number, fault);
        self
    }

    /// Adds a fault for the `number`-th append, counted from 1.
    #[must_use]
    pub fn at_append(mut self, number: u64, fault: CallFault) -> Self {
        self.appends.insert(number, fault);
        self
    }

    /// Adds a fault for every call of a method.
    #[must_use]
    pub fn every(mut self, op: StoreMethod, fault: CallFault) -> Self {
        self.methods.push((op, fault));
        self
    }

    /// Returns the fault of a call. Draws two numbers for every call, so that the calls are independent.
    pub(super) fn draw(&mut self, number: u64, op: StoreMethod, appends: u64) -> CallFault {
        let lot = self.dice.below(1_000);
        let length = self.dice.draw();
        let append = || self.appends.get(&appends).filter(|_| op == StoreMethod::Append).copied();
        let method = || self.methods.iter().find(|(of, _)| *of == op).map(|(_, fault)| *fault);
        let planned = self.numbered.get(&number).copied().or_else(append).or_else(method);
        planned.unwrap_or_else(|| self.rates.pick(lot, length))
    }
}

impl FaultRates {
    fn pick(&self, lot: u64, length: u64) -> CallFault {
        let longest = u64::try_from(self.delay_max.as_millis()).unwrap_or(u64::MAX);
        let span = Duration::from_millis(length % longest.saturating_add(1).max(1));
        let table = [
            (self.fail_before, CallFault::FailBefore),
            (self.lose_reply, CallFault::LoseReply),
            (self.crash_before, CallFault::CrashBefore),
            (self.crash_after, CallFault::CrashAfter),
            (self.delay, CallFault::Delay(span)),
            (self.delay_past_reply, CallFault::DelayPastReply(span)),
            (self.duplicate, CallFault::Duplicate(span)),
        ];
        let mut bound = 0;
        for (rate, fault) in table {
            bound += u64::from(rate);
            if lot < bound {
                return fault;
            }
        }
        CallFault::Pass
    }
}
