//! A measured value and its baseline.

use std::fmt;

/// A measured value.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) measure: &'static str,
    pub(crate) store: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) baseline: Option<f64>,
    pub(crate) ratio: Option<f64>,
    /// Further values by name.
    pub(crate) more: Vec<(&'static str, f64)>,
}

impl Measurement {
    pub(crate) fn json(&self) -> serde_json::Value {
        let mut object = serde_json::json!({
            "measure": self.measure,
            "store": self.store,
            "value": round(self.value),
            "unit": self.unit,
            "baseline": self.baseline.map(round),
            "ratio": self.ratio.map(round),
        });
        for (name, value) in &self.more {
            object[*name] = serde_json::json!(round(*value));
        }
        object
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11} {:>12.2} {:<12}", self.measure, self.value, self.unit)?;
        if let Some(baseline) = self.baseline {
            write!(f, " baseline {baseline:>12.2}")?;
        }
        if let Some(ratio) = self.ratio {
            write!(f, "  ratio {ratio:.3}")?;
        }
        for (name, value) in &self.more {
            write!(f, "  {name} {}", short(*value))?;
        }
        Ok(())
    }
}

/// Formats a value with three decimals if it is small, else with one.
fn short(value: f64) -> String {
    if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.1}") }
}

/// Returns the value that this part of all values does not exceed.
pub(crate) fn rank(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let above = (values.len() as f64 * (1.0 - part)).floor();
    values.iter().rev().nth(above as usize).copied().unwrap_or(f64::NAN)
}

/// Returns the median.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
