//! Integers in requests: 0 up to the largest signed 64-bit number.
//!
//! Many client languages have no larger integer type, and the OpenAPI description declares `int64`.

use serde::{Deserialize, Deserializer};

/// Deserializes a number, for `deserialize_with`.
pub fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    bounded(u64::deserialize(from)?)
}

/// Deserializes an optional number; use together with `default`.
pub fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(from)?.map(bounded).transpose()
}

fn bounded<E: serde::de::Error>(number: u64) -> Result<u64, E> {
    match i64::try_from(number) {
        Ok(_) => Ok(number),
        Err(_) => Err(E::custom(format!("{number} is larger than {}", i64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Asked {
        #[serde(deserialize_with = "number")]
        after: u64,
        #[serde(default, deserialize_with = "optional")]
        wait: Option<u64>,
    }

    #[test]
    fn numbers_beyond_64_signed_bits_are_refused() {
        let read = |text: &str| serde_json::from_str::<Asked>(text).map_err(|error| error.to_string());
        let most = read(r#"{"after":9223372036854775807}"#).unwrap();
        assert_eq!(most, Asked { after: i64::MAX as u64, wait: None });
        assert_eq!(read(r#"{"after":0,"wait":7}"#).unwrap().wait, Some(7));
        for text in [r#"{"after":9223372036854775808}"#, r#"{"after":1,"wait":18446744073709551615}"#] {
            assert!(read(text).unwrap_err().contains("is larger than 9223372036854775807"), "{text}");
        }
        assert!(read(r#"{"after":-1}"#).is_err());
    }
}
