//! Spans such as `90s` and moments, read and written.

use std::time::Duration;

use goldseam::Millis;

/// Units that a span may be given in, and their milliseconds.
const UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000), ("w", 604_800_000)];

/// Reads `250ms`, `90s`, `15m`, `1h`, `2d`, `1w`, or several of them: `1h30m`.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration; write 250ms, 90s, 15m, 1h, 2d or 1h30m");
    let (mut rest, mut total) = (text.trim(), 0u64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let letters = rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len() - digits);
        let count: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        let unit = &rest[digits..digits + letters];
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let span = count.checked_mul(*millis).ok_or_else(wrong)?;
        total = total.checked_add(span).ok_or_else(wrong)?;
        rest = &rest[digits + letters..];
    }
    Ok(Duration::from_millis(total))
}

/// Reads a span, or a plain number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.trim().parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse_span(text),
    }
}

/// A span for a person: two units at the most.
pub(crate) fn span(span: Duration) -> String {
    let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let (s, m, h, d) = (ms / 1_000, ms / 60_000, ms / 3_600_000, ms / 86_400_000);
    match () {
        () if ms < 1_000 => format!("{ms}ms"),
        () if s < 10 => format!("{}.{}s", s, ms % 1_000 / 100),
        () if m < 1 => format!("{s}s"),
        () if h < 1 => format!("{m}m{:02}s", s % 60),
        () if d < 1 => format!("{h}h{:02}m", m % 60),
        () => format!("{d}d{:02}h", h % 24),
    }
}

/// How long ago, for a list.
pub(crate) fn age(at: Millis, now: Millis) -> String {
    let full = span(now.since(at));
    match full.find(['m', 'h', 'd']) {
        Some(end) if !full.contains("ms") => full[..=end].to_owned(),
        _ => full,
    }
}

/// A moment as `2026-11-15T18:05:02.125Z`.
pub(crate) fn iso(at: Millis) -> String {
    if at == Millis::NEVER {
        return "never".to_owned();
    }
    let (days, ms) = (at.0.div_euclid(86_400_000), at.0.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}T{}Z", time_of_day(ms))
}

/// A moment's time of day, `18:05:02.125`.
pub(crate) fn clock(at: Millis) -> String {
    time_of_day(at.0.rem_euclid(86_400_000))
}

fn time_of_day(ms: i64) -> String {
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
}

/// Days since 1970 as a date of the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let of_era = z.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read() {
        assert_eq!(parse_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_span("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(parse_span("250ms"), Ok(Duration::from_millis(250)));
        for text in ["", "5", "h", "1x", "-1s", "99999999999999999999d", "1 h"] {
            assert!(parse_span(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn plain_numbers_are_seconds_where_they_may_be() {
        assert_eq!(parse_seconds("300"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_seconds("0"), Ok(Duration::ZERO));
        assert_eq!(parse_seconds("5m"), Ok(Duration::from_secs(300)));
        assert!(parse_seconds("-5").is_err() && parse_seconds("soon").is_err());
    }

    #[test]
    fn spans_are_written() {
        let of = |ms| span(Duration::from_millis(ms));
        assert_eq!([of(7), of(1_250), of(42_000), of(75_000)], ["7ms", "1.2s", "42s", "1m15s"]);
        assert_eq!([of(3_700_000), of(90_000_000)], ["1h01m", "1d01h"]);
        assert_eq!(age(Millis(0), Millis(3_700_000)), "1h");
        assert_eq!(age(Millis(0), Millis(70)), "70ms");
    }

    #[test]
    fn moments_are_written() {
        assert_eq!(iso(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(Millis(1_709_210_096_789)), "2024-02-29T12:34:56.789Z");
        assert_eq!(iso(Millis::NEVER), "never");
    }
}
