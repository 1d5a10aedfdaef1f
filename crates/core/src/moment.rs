//! Times as text: RFC 3339, dates, and spans relative to now.

use crate::time::Millis;

const DAY_MS: i64 = 86_400_000;
/// Years 1 to 9999.
const EARLIEST: i64 = -62_135_596_800_000;
pub(crate) const LATEST: i64 = 253_402_300_799_999;

/// Formats a time as `2026-11-15T18:05:02.125Z`.
pub fn iso(at: Millis) -> String {
    let (year, month, day) = civil(at.0.div_euclid(DAY_MS));
    format!("{year:04}-{month:02}-{day:02}T{}Z", clock(at))
}

/// Formats the time of day, `18:05:02.125`.
pub fn clock(at: Millis) -> String {
    let ms = at.0.rem_euclid(DAY_MS);
    let h = ms / 3_600_000;
    let m = ms / 60_000 % 60;
    let s = ms / 1_000 % 60;
    format!("{h:02}:{m:02}:{s:02}.{:03}", ms % 1_000)
}

/// Parses a time as in RFC 3339, or a date, which is its first moment in UTC. Cuts off what is below a millisecond.
pub fn parse_iso(text: &str) -> Option<Millis> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = digits(parts.next()?, 2)?;
    let day = digits(parts.next()?, 2)?;
    if parts.next().is_some()
        || year < 1
        || !(1..=12).contains(&month)
        || !(1..=days_in(year, month)).contains(&day)
    {
        return None;
    }
    let midnight = days(year, month, day) * DAY_MS;
    let at = match time {
        None => midnight,
        Some(time) => midnight + time_of_day(time)?,
    };
    within(at)
}

/// Returns the time if it is within the years that can be written.
fn within(at: i64) -> Option<Millis> {
    (EARLIEST..=LATEST).contains(&at).then_some(Millis(at))
}

/// Parses `18:05:02.125+01:00` to milliseconds of the day in UTC.
fn time_of_day(text: &str) -> Option<i64> {
    let zone = text.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = text.split_at_checked(zone)?;
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let (sign, zone) = zone.split_at_checked(1)?;
            let (h, m) = zone.split_once(':')?;
            let h = digits(h, 2)?;
            let m = digits(m, 2)?;
            let minutes = (h < 24 && m < 60).then_some(h * 60 + m)?;
            if sign == "-" { -minutes } else { minutes }
        }
    };
    let (clock, fraction) = clock.split_once('.').map_or((clock, "0"), |(clock, part)| (clock, part));
    let mut parts = clock.split(':');
    let h = digits(parts.next()?, 2)?;
    let m = digits(parts.next()?, 2)?;
    let s = parts.next().map_or(Some(0), |s| digits(s, 2))?;
    if parts.next().is_some() || h > 23 || m > 59 || s > 59 {
        return None;
    }
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let ms: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some(((h * 60 + m - offset) * 60 + s) * 1_000 + ms)
}

/// Parses exactly this number of digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && text.bytes().all(|c| c.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Parses `-2h`, `-1h30m` or `+7d` relative to now. Units: `ms`, `s`, `m`, `h`, `d`, `w`.
pub fn relative(text: &str, now: Millis) -> Option<Millis> {
    let (sign, mut rest) = match text.split_at_checked(1)? {
        ("-", rest) => (-1, rest),
        ("+", rest) => (1, rest),
        _ => return None,
    };
    if rest.is_empty() {
        return None;
    }
    let mut span: i64 = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (count, after) = rest.split_at_checked(end)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(end)?;
        let unit_ms: i64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => DAY_MS,
            "w" => 7 * DAY_MS,
            _ => return None,
        };
        span = span.checked_add(count.parse::<i64>().ok()?.checked_mul(unit_ms)?)?;
        rest = after;
    }
    within(now.0.checked_add(sign * span)?)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Converts days since 1970 to a Gregorian date.
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

/// Converts a Gregorian date to days since 1970. The caller checks that the month and the day exist.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_and_zones_shift_them() {
        for at in [EARLIEST, -1, 0, 1_700_000_000_123, LATEST] {
            assert_eq!(parse_iso(&iso(Millis(at))), Some(Millis(at)));
        }
        for (text, at) in [
            ("1970-01-02", DAY_MS),
            ("1970-01-01T01:00:00+01:00", 0),
            ("1970-01-01T00:00Z", 0),
            ("1970-01-01T00:00:00.1239-00:30", 1_800_123),
            ("2024-02-29", 1_709_164_800_000),
        ] {
            assert_eq!(parse_iso(text), Some(Millis(at)), "{text}");
        }
        for wrong in [
            "",
            "1970",
            "1970-1-1",
            "1970-13-01",
            "2023-02-29",
            "1970-01-01T",
            "1970-01-01T00:00:00",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:00:00.Z",
            "0000-01-01",
            "1970-01-01T00:00:00+1:00",
        ] {
            assert_eq!(parse_iso(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn relative_times_have_units_and_saturate_as_errors() {
        let now = Millis(1_000_000_000);
        for (text, ms) in [("-2h", -7_200_000), ("-1h30m", -5_400_000), ("+1w", 604_800_000), ("-5ms", -5)] {
            assert_eq!(relative(text, now), Some(Millis(now.0 + ms)), "{text}");
        }
        for wrong in ["2h", "-2", "-h", "-2y", "-9223372036854775807d", "-", "-2h3"] {
            assert_eq!(relative(wrong, now), None, "{wrong}");
        }
    }
}
