//! What goes wrong in one case.

use std::fmt;
use std::time::Duration;

use goldseam_engine::{Entropy, Seeded};
use goldseam_store::faulty::{Fault, Plan, Rates};

/// One case: what goes wrong while the workflow runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Nothing.
    Calm,
    /// The first node dies before its append of this number, counted from 1: what it did since the one before is done,
    /// and nobody knows.
    CrashBefore(u64),
    /// The first node dies right after its append of this number.
    CrashAfter(u64),
    /// Everything that follows from this seed: crashes, lost replies, delays, clocks that disagree, signals that come
    /// early, late or twice.
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
    /// How to repeat it alone.
    pub(super) fn repeat(self) -> String {
        match self {
            Self::Calm => "tester.once()".to_owned(),
            Self::CrashBefore(_) | Self::CrashAfter(_) | Self::Seed(_) => {
                format!("tester.case(Case::{self:?})")
            }
        }
    }

    /// What goes wrong on the connection of the first node.
    pub(super) fn plan(self) -> Plan {
        match self {
            Self::CrashBefore(number) => Plan::pass().at_append(number, Fault::CrashBefore),
            Self::CrashAfter(number) => Plan::pass().at_append(number, Fault::CrashAfter),
            Self::Calm | Self::Seed(_) => Plan::pass(),
        }
    }
}

/// Numbers that follow from a seed.
#[derive(Debug)]
pub(super) struct Dice(Seeded);

impl Dice {
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

/// Crashes of one case at the most.
const CRASHES_MAX: u64 = 8;

/// The faults of a seed: for a while, and not without end.
#[derive(Debug)]
pub(super) struct Storm {
    pub(super) dice: Dice,
    rates: Rates,
    /// When it is over, in virtual time that was not skipped.
    pub(super) until: Duration,
    pub(super) nodes: usize,
}

impl Storm {
    pub(super) fn of(seed: u64) -> Self {
        let dice = Dice::new(seed);
        // Some seeds are calm, some are rough; no fault is always there, so that none hides another.
        let rate = |most: u64| match dice.percent(30) {
            true => 0,
            false => u16::try_from(dice.below(most + 1)).unwrap_or(0),
        };
        let rates = Rates {
            fail_before: rate(60),
            lose_reply: rate(60),
            crash_before: rate(40),
            crash_after: rate(40),
            delay: rate(60),
            delay_past_reply: rate(30),
            duplicate: rate(30),
            // Shorter than any node may be silent: whoever is slow is never taken for dead.
            delay_max: Duration::from_millis(500),
        };
        let until = Duration::from_millis(500 + dice.below(20_000));
        let nodes = 1 + usize::from(dice.percent(50));
        Self { dice, rates, until, nodes }
    }

    /// What goes wrong on the connection of a node that starts now, after so many crashes.
    pub(super) fn plan(&self, now: Duration, crashes: u64) -> Plan {
        let seed = self.dice.draw();
        if now >= self.until {
            return Plan::pass();
        }
        let mut rates = self.rates;
        if crashes >= CRASHES_MAX {
            (rates.crash_before, rates.crash_after) = (0, 0);
        }
        Plan::seeded(seed, rates)
    }
}
