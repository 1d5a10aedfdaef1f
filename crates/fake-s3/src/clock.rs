//! The clock of the server, and its date formats.

use std::time::{SystemTime, UNIX_EPOCH};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [(&str, u64); 12] = [
    ("Jan", 31),
    ("Feb", 28),
    ("Mar", 31),
    ("Apr", 30),
    ("May", 31),
    ("Jun", 30),
    ("Jul", 31),
    ("Aug", 31),
    ("Sep", 30),
    ("Oct", 31),
    ("Nov", 30),
    ("Dec", 31),
];

/// The clock of the server, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerClock {
    /// The system's clock, or one with an offset.
    Running {
        /// Milliseconds ahead of the system's clock; behind if negative.
        ahead: i64,
    },
    /// A stopped clock, which a test steps.
    Stopped {
        /// The time that it shows.
        at: u64,
    },
}

impl ServerClock {
    #[expect(clippy::disallowed_methods, reason = "a server has its own clock")]
    pub(crate) fn now(self) -> u64 {
        match self {
            Self::Running { ahead } => {
                let real = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                u64::try_from(real).unwrap_or_default().saturating_add_signed(ahead)
            }
            Self::Stopped { at } => at,
        }
    }
}

/// The format of the headers `Date` and `Last-Modified`, in whole seconds.
pub(crate) fn http_date(millis: u64) -> String {
    let Civil { weekday, year, month, day, hour, minute, second, .. } = Civil::of(millis);
    let month = MONTHS[month].0;
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

/// The format of lists.
pub(crate) fn iso_date(millis: u64) -> String {
    let Civil { year, month, day, hour, minute, second, milli, .. } = Civil::of(millis);
    format!("{year}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z", month + 1)
}

/// A moment as calendar fields.
struct Civil {
    weekday: &'static str,
    year: u64,
    /// From 0.
    month: usize,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    milli: u64,
}

impl Civil {
    fn of(millis: u64) -> Self {
        let seconds = millis / 1_000;
        let days = seconds / 86_400;
        let rest = seconds % 86_400;
        let weekday = usize::try_from(days % 7).map_or("", |day| DAYS[day]);
        let mut year = 1970;
        let mut month = 0;
        let mut day = days;
        while day >= 365 + leap_day(year) {
            day -= 365 + leap_day(year);
            year += 1;
        }
        let length = |month: usize| MONTHS[month].1 + if month == 1 { leap_day(year) } else { 0 };
        while day >= length(month) {
            day -= length(month);
            month += 1;
        }
        Self {
            weekday,
            year,
            month,
            day: day + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            milli: millis % 1_000,
        }
    }
}

fn leap_day(year: u64) -> u64 {
    u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_calendar_dates() {
        for (millis, http, iso) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00.000Z"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37.000Z"),
            (951_782_400_001, "Tue, 29 Feb 2000 00:00:00 GMT", "2000-02-29T00:00:00.001Z"),
            (1_798_761_599_999, "Thu, 31 Dec 2026 23:59:59 GMT", "2026-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "Mon, 01 Mar 2100 00:00:00 GMT", "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(http_date(millis), http);
            assert_eq!(iso_date(millis), iso);
        }
    }
}
