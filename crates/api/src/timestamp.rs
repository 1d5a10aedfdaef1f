//! Timestamps as text, `2026-11-15T18:05:02.125Z`, and as JSON numbers, in milliseconds since 1970.

use std::borrow::Cow;

use goldseam::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The text for a time that never comes.
const NEVER: &str = "never";

/// A point in time, serialized in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub Millis);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Wire::deserialize(deserializer)? {
            Wire::Number(at) => Ok(Self(Millis(at))),
            Wire::Text(text) => {
                parse(&text).map(Self).ok_or_else(|| de::Error::custom(format!("invalid timestamp {text:?}")))
            }
        }
    }
}

/// A timestamp as received: servers of earlier releases send text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Wire {
    Number(i64),
    Text(String),
}

impl PartialSchema for Timestamp {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
            .description(Some("Milliseconds since 1970; 9223372036854775807 is never."))
            .into()
    }
}

impl ToSchema for Timestamp {
    fn name() -> Cow<'static, str> {
        // The name in the published description, which generated clients use.
        Cow::Borrowed("Moment")
    }
}

/// Formats a timestamp as `2026-11-15T18:05:02.125Z`.
pub fn iso(at: Millis) -> String {
    if at == Millis::NEVER {
        return NEVER.to_owned();
    }
    let (year, month, day) = civil(at.0.div_euclid(86_400_000));
    format!("{year:04}-{month:02}-{day:02}T{}Z", time_of_day(at.0.rem_euclid(86_400_000)))
}

/// Formats the time of day, `18:05:02.125`.
pub fn clock(at: Millis) -> String {
    time_of_day(at.0.rem_euclid(86_400_000))
}

fn time_of_day(ms: i64) -> String {
    format!("{:02}:{:02}:{:02}.{:03}", ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60, ms % 1_000)
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

/// Converts a Gregorian date to days since 1970.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Parses the output of [`iso`].
fn parse(text: &str) -> Option<Millis> {
    if text == NEVER {
        return Some(Millis::NEVER);
    }
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: &str| text.parse::<i64>().ok().filter(|number| (0..1_000_000).contains(number));
    let mut date = date.split('-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (clock, ms) = time.split_once('.')?;
    let mut clock = clock.split(':').map(number);
    let (h, m, s) = (clock.next()??, clock.next()??, clock.next()??);
    let within = (1..=12).contains(&month) && (1..=31).contains(&day) && h < 24 && m < 60 && s < 60;
    let rest = date.next().is_none() && clock.next().is_none() && ms.len() == 3;
    let of_day = ((h * 60 + m) * 60 + s) * 1_000 + number(ms)?;
    (within && rest).then(|| Millis(days(year, month, day) * 86_400_000 + of_day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_round_trip_through_text() {
        assert_eq!(iso(Millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(Millis(1_709_210_096_789)), "2024-02-29T12:34:56.789Z");
        assert_eq!(iso(Millis::NEVER), "never");
        for at in [0, 1, 951_782_399_999, 951_782_400_000, 1_709_210_096_789, 4_102_444_800_123] {
            assert_eq!(parse(&iso(Millis(at))), Some(Millis(at)));
        }
        assert_eq!(parse("never"), Some(Millis::NEVER));
        for text in ["", "2024-02-29", "2024-13-01T00:00:00.000Z", "2024-01-01T00:00:00Z", "x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn serializes_as_a_number_and_accepts_text_of_earlier_releases() {
        let at = Timestamp(Millis(1_709_210_096_789));
        assert_eq!(serde_json::to_value(at).unwrap(), serde_json::json!(1_709_210_096_789_i64));
        for sent in [serde_json::json!(1_709_210_096_789_i64), serde_json::json!("2024-02-29T12:34:56.789Z")]
        {
            assert_eq!(serde_json::from_value::<Timestamp>(sent).unwrap(), at);
        }
        assert!(serde_json::from_value::<Timestamp>(serde_json::json!("soon")).is_err());
    }
}
