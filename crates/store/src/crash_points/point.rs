//! The crash point of the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// The environment variable that names the point.
const VARIABLE: &str = "GOLDSEAM_CRASH_POINT";

/// The side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallSide {
    Before,
    After,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Point {
    place: String,
    what: Option<String>,
    side: CallSide,
    nth: u64,
}

impl Point {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':').peekable();
        let place = parts.next().filter(|place| !place.is_empty())?.to_owned();
        let what = parts.next_if(|part| call_side(part).is_none()).map(str::to_owned);
        let side = call_side(parts.next()?)?;
        let nth = parts.next().map_or(Some(1), |number| number.parse().ok().filter(|number| *number > 0))?;
        parts.next().is_none().then_some(Self { place, what, side, nth })
    }

    fn is_at(&self, place: &str, what: &[&str], side: CallSide) -> bool {
        let is_about = self.what.as_ref().is_none_or(|wanted| what.contains(&wanted.as_str()));
        self.place == place && self.side == side && is_about
    }
}

fn call_side(word: &str) -> Option<CallSide> {
    match word {
        "before" => Some(CallSide::Before),
        "after" => Some(CallSide::After),
        _ => None,
    }
}

fn point() -> Option<&'static Point> {
    static POINT: OnceLock<Option<Point>> = OnceLock::new();
    let read = || {
        let text = std::env::var(VARIABLE).ok()?;
        let point = Point::parse(&text);
        if point.is_none() {
            tracing::error!(%text, "invalid crash point in {VARIABLE}");
        }
        point
    };
    POINT.get_or_init(read).as_ref()
}

/// Returns whether this process has a crash point.
pub(crate) fn is_set() -> bool {
    point().is_some()
}

/// Kills the process if this is the point.
pub(crate) fn pass(place: &str, what: &[&str], side: CallSide) {
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let Some(point) = point().filter(|point| point.is_at(place, what, side)) else { return };
    if PASSED.fetch_add(1, Ordering::SeqCst) + 1 == point.nth {
        // SIGKILL ends the process at once; the next line never runs.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_crash_points() {
        let point = |place: &str, what: Option<&str>, side, nth| {
            Some(Point { place: place.to_owned(), what: what.map(str::to_owned), side, nth })
        };
        let completed = Some("step.completed");
        assert_eq!(
            Point::parse("append:step.completed:after:2"),
            point("append", completed, CallSide::After, 2)
        );
        assert_eq!(
            Point::parse("append:step.completed:before"),
            point("append", completed, CallSide::Before, 1)
        );
        assert_eq!(Point::parse("claim:after"), point("claim", None, CallSide::After, 1));
        for wrong in
            ["", "append", "append:", "append:after:0", "append:after:x", "append:after:1:2", ":after"]
        {
            assert_eq!(Point::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_point_matches_one_side_of_one_kind_of_call() {
        let point = Point::parse("append:run.claimed:after").unwrap();
        assert!(point.is_at("append", &["run.claimed", "run.started"], CallSide::After));
        assert!(!point.is_at("append", &["run.claimed"], CallSide::Before));
        assert!(!point.is_at("append", &["run.queued"], CallSide::After));
        assert!(!point.is_at("claim", &["run.claimed"], CallSide::After));
    }
}
