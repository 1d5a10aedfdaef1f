//! The faults of one case.

use std::fmt;
use std::time::Duration;

use goldseam_engine::{Entropy, Seeded};
use goldseam_store::faulty::{CallFault, FaultPlan, FaultRates};

/// One case of a search: the faults that are injected while the workflow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// No faults.
    Calm,
    /// The first node crashes before its append of this number, counted from 1. Its effects since the previous append
    /// happened, but are not recorded.
    CrashBefore(u64),
    /// The first node crashes right after its append of this number, counted from 1.
    CrashAfter(u64),
    /// The faults of this seed: crashes, lost replies, delays, clock differences, and signals that arrive early, late
    /// or twice.
    Seed(u64),
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calm => write!(f, "without faults"),
            Self::CrashBefore(number) => write!(f, "crash before append {number}"),
            Self::CrashAfter(number) => write!(f, "crash after append {number}"),
            Self::Seed(seed) => write!(f, "seed {seed}"),
        }
    }
}

impl Case {
    /// Returns the code that repeats this case alone.
    pub(super) fn repeat(self) -> String {
        match self {
            Self::Calm => "tester.once()".to_owned(),
            Self::CrashBefore(_) | Self::CrashAfter(_) | Self::Seed(_) => {
                format!("tester.case(Case::{self:?})")
            }
        }
    }

    /// Returns the faults on the store connection of the first node.
    pub(super) fn plan(self) -> FaultPlan {
        match self {
            Self::CrashBefore(number) => FaultPlan::pass().at_append(number, CallFault::CrashBefore),
            Self::CrashAfter(number) => FaultPlan::pass().at_append(number, CallFault::CrashAfter),
            Self::Calm | Self::Seed(_) => FaultPlan::pass(),
        }
    }
}

/// Random numbers from a seed.
#[derive(Debug)]
pub(super) struct Random(Seeded);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Seeded::new(seed ^ 0x5851_f42d_4c95_7f2d))
    }

    pub(super) fn draw(&self) -> u64 {
        self.0.next()
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    pub(super) fn percent(&self, share: u64) -> bool {
        self.below(100) < share
    }
}

/// Maximum number of crashes in one case.
const CRASHES_MAX: u64 = 8;

/// The faults of a seed, injected until a fixed time.
#[derive(Debug)]
pub(super) struct SeededFaults {
    pub(super) random: Random,
    rates: FaultRates,
    /// When the faults end, in virtual time without skipped time.
    pub(super) until: Duration,
    pub(super) nodes: usize,
}

impl SeededFaults {
    pub(super) fn new(seed: u64) -> Self {
        let random = Random::new(seed);
        // Each fault is off in some seeds, so that no fault hides another.
        let rate = |most: u64| {
            if random.percent(30) { 0 } else { u16::try_from(random.below(most + 1)).unwrap_or(0) }
        };
        let rates = FaultRates {
            fail_before: rate(60),
            lose_reply: rate(60),
            crash_before: rate(40),
            crash_after: rate(40),
            delay: rate(60),
            delay_past_reply: rate(30),
            duplicate: rate(30),
            // Shorter than `silence_max`: a slow node is never declared dead.
            delay_max: Duration::from_millis(500),
        };
        let until = Duration::from_millis(500 + random.below(20_000));
        let nodes = 1 + usize::from(random.percent(50));
        Self { random, rates, until, nodes }
    }

    /// Returns the faults on the store connection of a node that starts at `now`, after this many crashes.
    pub(super) fn plan(&self, now: Duration, crashes: u64) -> FaultPlan {
        let seed = self.random.draw();
        if now >= self.until {
            return FaultPlan::pass();
        }
        let mut rates = self.rates;
        if crashes >= CRASHES_MAX {
            rates.crash_before = 0;
            rates.crash_after = 0;
        }
        FaultPlan::seeded(seed, rates)
    }
}
