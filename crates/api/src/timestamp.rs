//! Timestamps as text, `2026-11-15T18:05:02.125Z`, and as JSON numbers, in milliseconds since 1970.

use std::borrow::Cow;

use goldseam::Millis;
use goldseam::unstable::core::moment;
pub use goldseam::unstable::core::moment::clock;
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
    moment::iso(at)
}

/// Parses the output of [`iso`]; also any other time of RFC 3339.
fn parse(text: &str) -> Option<Millis> {
    if text == NEVER {
        return Some(Millis::NEVER);
    }
    // A date alone is not a timestamp.
    text.contains('T').then(|| moment::parse_iso(text))?
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
        for text in ["", "2024-02-29", "2024-13-01T00:00:00.000Z", "2024-02-30T00:00:00.000Z", "x"] {
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
