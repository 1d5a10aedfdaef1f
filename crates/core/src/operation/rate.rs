//! The rate of an operation: `50/s`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::spec::SpecError;

/// Highest number of runs in a rate.
const COUNT_MAX: u32 = 1_000_000;
/// The units of a rate.
const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3_600)];

/// How many runs an operation acts on in a second, a minute or an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ActionRate {
    count: u32,
    /// Index into the units.
    unit: usize,
}

impl ActionRate {
    /// Returns the time from one action to the next.
    pub fn interval(self) -> Duration {
        Duration::from_secs(UNITS[self.unit].1) / self.count
    }
}

impl FromStr for ActionRate {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let refused = |why: &str| {
            let what = format!("invalid rate {:?}: {why}", text.chars().take(40).collect::<String>());
            SpecError::new(
                "GS0147",
                what,
                "write how many runs in a second, a minute or an hour: 50/s, 10/m, 100/h",
            )
        };
        let Some((count, unit)) = text.split_once('/') else { return Err(refused("it has no unit")) };
        let unit = UNITS.iter().position(|(name, _)| *name == unit).ok_or_else(|| refused("unknown unit"))?;
        let is_number = !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
        let count: u32 = match count.parse() {
            Ok(0) => return Err(refused("a rate of zero never ends")),
            Ok(count) if is_number && count <= COUNT_MAX => count,
            _ => return Err(refused("the number must be from 1 to 1000000")),
        };
        Ok(Self { count, unit })
    }
}

impl TryFrom<String> for ActionRate {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl From<ActionRate> for String {
    fn from(rate: ActionRate) -> Self {
        rate.to_string()
    }
}

impl fmt::Display for ActionRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.count, UNITS[self.unit].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_and_a_unit() {
        for (text, millis) in [("50/s", 20), ("1/s", 1_000), ("10/m", 6_000), ("1/h", 3_600_000)] {
            let rate: ActionRate = text.parse().unwrap();
            assert_eq!(rate.interval(), Duration::from_millis(millis), "{text}");
            assert_eq!(rate.to_string(), text);
            assert_eq!(serde_json::to_value(rate).unwrap(), text);
        }
        for bad in [
            "",
            "50",
            "0/s",
            "/s",
            "-1/s",
            "+1/s",
            "1.5/s",
            "5/d",
            "5/ s",
            "1000001/s",
            "99999999999/s",
            "5/s/s",
        ] {
            let refused = bad.parse::<ActionRate>().unwrap_err();
            assert_eq!(refused.code, "GS0147", "{bad}");
        }
    }
}
