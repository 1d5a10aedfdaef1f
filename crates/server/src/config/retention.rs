//! The setting `retention`, and its table in a configuration file.

use goldseam::admin::retention::{PolicyError, RetentionPolicies};
use goldseam_api::Problem;

/// The table of policies of single workflows.
const WORKFLOWS: &str = "workflows";
/// The hint about tables.
const TABLE: &str = "write completed = \"7d\" under [retention] or under [retention.workflows.NAME]";

/// Parses the policies. They need an archive.
pub(super) fn policies(text: Option<&str>, archive: Option<&str>) -> Result<RetentionPolicies, Problem> {
    let policies: RetentionPolicies = text.unwrap_or_default().parse().map_err(|error: PolicyError| {
        Problem::bad_request(error.to_string()).code(error.code()).hint(PolicyError::HINT)
    })?;
    if !policies.is_empty() && archive.is_none() {
        return Err(Problem::bad_request("retention is set, but archive is not")
            .code("GS0152")
            .hint("set archive to a directory or s3://BUCKET/PREFIX, or remove retention"));
    }
    Ok(policies)
}

/// Returns the table `[retention]` as the text of the setting; a text stays as it is.
pub(super) fn table_text(value: &toml::Value) -> Result<String, String> {
    let table = match value {
        toml::Value::String(text) => return Ok(text.clone()),
        toml::Value::Table(table) => table,
        other => return Err(format!("retention cannot have the type {}; {TABLE}", other.type_str())),
    };
    let mut policies = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(workflows) if name == WORKFLOWS => {
                for (workflow, value) in workflows {
                    let place = format!("retention.workflows.{workflow}");
                    let toml::Value::Table(outcomes) = value else {
                        return Err(format!("{place} cannot have the type {}; {TABLE}", value.type_str()));
                    };
                    for (outcome, keep) in outcomes {
                        policies.push(format!("{workflow}:{}", entry(&place, outcome, keep)?));
                    }
                }
            }
            keep => policies.push(entry("retention", name, keep)?),
        }
    }
    Ok(policies.join(","))
}

/// Returns one policy as text. Names with separators would change the meaning of the text.
fn entry(place: &str, outcome: &str, keep: &toml::Value) -> Result<String, String> {
    let is_plain = |text: &str| !text.contains([',', ':', '=']);
    match keep.as_str() {
        Some(keep) if is_plain(outcome) && is_plain(keep) => Ok(format!("{outcome}={keep}")),
        Some(_) => Err(format!("{place} has an invalid entry {outcome:?}; {TABLE}")),
        None => Err(format!("{place}.{outcome} cannot have the type {}; {TABLE}", keep.type_str())),
    }
}
