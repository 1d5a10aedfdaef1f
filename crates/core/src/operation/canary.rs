//! The stages of a canary: `1,10%,all`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::spec::SpecError;

/// Most stages of a canary.
const STAGES_MAX: usize = 16;

/// How far a stage goes, counted from the first run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CanaryStage {
    /// This many runs.
    Count(u64),
    /// This share of the planned runs, from 1 to 99 percent.
    Percent(u8),
    /// All runs.
    All,
}

/// The stages of an operation. The next one begins only after every run of the one before has passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Canary(Vec<CanaryStage>);

impl Canary {
    /// Returns for each stage how many runs have been acted on when it ends, of `planned` runs. The last is `planned`.
    pub fn quotas(&self, planned: u64) -> Vec<u64> {
        let mut quotas: Vec<u64> = Vec::with_capacity(self.0.len());
        for stage in &self.0 {
            let quota = match stage {
                CanaryStage::Count(count) => *count,
                CanaryStage::Percent(percent) => (planned.saturating_mul(u64::from(*percent))).div_ceil(100),
                CanaryStage::All => planned,
            };
            // Small plans make stages equal, and a count may exceed a share.
            if quotas.last().is_none_or(|last| quota.min(planned) > *last) {
                quotas.push(quota.min(planned));
            }
        }
        quotas
    }
}

impl FromStr for Canary {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let refused = |why: String| {
            SpecError::new(
                "GS0148",
                format!("invalid canary {:?}: {why}", text.chars().take(80).collect::<String>()),
                "write growing numbers or percentages that end in all, as in 1,10%,all",
            )
        };
        let stages: Result<Vec<CanaryStage>, String> =
            text.split(',').map(|part| stage(part.trim())).collect();
        let stages = stages.map_err(refused)?;
        if stages.len() > STAGES_MAX {
            return Err(refused(format!("it has more than {STAGES_MAX} stages")));
        }
        if stages.last() != Some(&CanaryStage::All) {
            return Err(refused("it does not end in `all`".to_owned()));
        }
        let mut count = 0;
        let mut percent = 0;
        for stage in &stages[..stages.len() - 1] {
            let grows = match stage {
                CanaryStage::Count(next) => std::mem::replace(&mut count, *next) < *next,
                CanaryStage::Percent(next) => std::mem::replace(&mut percent, *next) < *next,
                CanaryStage::All => false,
            };
            if !grows {
                return Err(refused("each stage must be larger than the one before".to_owned()));
            }
        }
        Ok(Self(stages))
    }
}

fn stage(text: &str) -> Result<CanaryStage, String> {
    let zero = || Err("a stage of zero runs tests nothing".to_owned());
    let number = |digits: &str| -> Result<u64, String> {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let shown: String = text.chars().take(20).collect();
        digits.parse().ok().filter(|_| is_number).ok_or_else(|| format!("{shown:?} is not a stage"))
    };
    match text.strip_suffix('%') {
        None if text == "all" => Ok(CanaryStage::All),
        None => match number(text)? {
            0 => zero(),
            count => Ok(CanaryStage::Count(count)),
        },
        Some(digits) => match number(digits)? {
            0 => zero(),
            percent @ 1..=99 => Ok(CanaryStage::Percent(u8::try_from(percent).unwrap_or(99))),
            _ => Err("a percentage is from 1% to 99%; write all for all runs".to_owned()),
        },
    }
}

impl TryFrom<String> for Canary {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl From<Canary> for String {
    fn from(canary: Canary) -> Self {
        canary.to_string()
    }
}

impl fmt::Display for Canary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, stage) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match stage {
                CanaryStage::Count(count) => write!(f, "{count}")?,
                CanaryStage::Percent(percent) => write!(f, "{percent}%")?,
                CanaryStage::All => f.write_str("all")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_counted_from_the_first_run() {
        for (text, planned, quotas) in [
            ("1,10%,all", 100, &[1, 10, 100][..]),
            ("1,10%,all", 5, &[1, 5]),
            ("1,10%,all", 1, &[1]),
            ("1,10%,50%,all", 11, &[1, 2, 6, 11]),
            ("5,10%,all", 20, &[5, 20]),
            ("all", 7, &[7]),
            ("3,all", 2, &[2]),
            ("1,all", u64::MAX, &[1, u64::MAX]),
        ] {
            let canary: Canary = text.parse().unwrap();
            assert_eq!(canary.quotas(planned), quotas, "{text} of {planned}");
            assert_eq!(canary.to_string(), text);
        }
    }

    #[test]
    fn zero_and_stages_that_do_not_grow_are_refused() {
        for bad in [
            "",
            "0",
            "0,all",
            "0%,all",
            "1",
            "1,10%",
            "all,1",
            "all,all",
            "10,1,all",
            "10,10,all",
            "10%,5%,all",
            "100%,all",
            "-1,all",
            "+1,all",
            "1.5,all",
            "1,,all",
            "ALL",
            "x,all",
            "99999999999999999999,all",
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,all",
        ] {
            let refused = bad.parse::<Canary>().unwrap_err();
            assert_eq!(refused.code, "GS0148", "{bad}");
        }
    }
}
