//! Durations such as `90s`, and timestamps.

use std::time::Duration;

use goldseam::Millis;
use goldseam::unstable::core::moment::parse_iso;
pub(crate) use goldseam_api::timestamp::{clock, iso};

/// Units of a duration, in milliseconds.
const UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Parses `250ms`, `90s`, `15m`, `1h`, `2d`, `1w`, or a combination such as `1h30m`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let invalid = || format!("invalid duration {text:?}; write 250ms, 90s, 15m, 1h, 2d or 1h30m");
    let mut rest = text.trim();
    let mut total = 0u64;
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let letters = rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - digits);
        let count: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        let unit = &rest[digits..digits + letters];
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        let span = count.checked_mul(*millis).ok_or_else(invalid)?;
        total = total.checked_add(span).ok_or_else(invalid)?;
        rest = &rest[digits + letters..];
    }
    Ok(Duration::from_millis(total))
}

/// Parses a time as in RFC 3339, or a date.
pub(crate) fn parse_time(text: &str) -> Result<Millis, String> {
    parse_iso(text.trim())
        .ok_or_else(|| format!("invalid time {text:?}; write 2026-11-18T09:30:00Z or 2026-11-18"))
}

/// Returns a duration in milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Parses a duration, or a plain number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.trim().parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_span(text),
    }
}

/// Formats a duration with at most two units.
pub(crate) fn span(span: Duration) -> String {
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let s = ms / 1_000;
    let m = ms / 60_000;
    let h = ms / 3_600_000;
    let d = ms / 86_400_000;
    match () {
        () if ms < 1_000 => format!("{ms}ms"),
        () if s < 10 => format!("{}.{}s", s, ms % 1_000 / 100),
        () if m < 1 => format!("{s}s"),
        () if h < 1 => format!("{m}m{:02}s", s % 60),
        () if d < 1 => format!("{h}h{:02}m", m % 60),
        () => format!("{d}d{:02}h", h % 24),
    }
}

/// Formats the time since `at` with one unit.
pub(crate) fn age(at: Millis, now: Millis) -> String {
    let full = span(now.since(at));
    match full.find(['m', 'h', 'd']) {
        Some(end) if !full.contains("ms") => full[..=end].to_owned(),
        _ => full,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations() {
        assert_eq!(parse_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_span("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_span("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "5", "h", "1x", "-1s", "99999999999999999999d", "1 h"] {
            assert!(parse_span(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn parse_seconds_accepts_plain_numbers() {
        assert_eq!(parse_seconds("300"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_seconds("0"), Ok(Duration::ZERO));
        assert_eq!(parse_seconds("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_seconds("-5").is_err() && parse_seconds("soon").is_err());
    }

    #[test]
    fn formats_durations() {
        let of = |ms| span(Duration::from_millis(ms));
        assert_eq!([of(7), of(1_250), of(42_000), of(75_000)], ["7ms", "1.2s", "42s", "1m15s"]);
        assert_eq!([of(3_700_000), of(90_000_000)], ["1h01m", "1d01h"]);
        assert_eq!(age(Millis(0), Millis(3_700_000)), "1h");
        assert_eq!(age(Millis(0), Millis(70)), "70ms");
    }
}
