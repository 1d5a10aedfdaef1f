//! Groups of runs: how many share a value, with an example.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::field::RunField;
use crate::id::{RunId, TagKey};
use crate::summary::Summary;
use crate::time::Millis;

/// Most workflows that a group names.
pub const WORKFLOWS_MAX: usize = 8;

/// What runs are grouped by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupBy {
    /// The cause of their failure or parking.
    Cause,
    /// Their workflow.
    Workflow,
    /// Their status.
    Status,
    /// Their workflow and version, as `order@2`.
    Version,
    /// The value of a tag.
    Tag(TagKey),
    /// The value of an attribute. A run with a list is in the group of each of its texts.
    Attribute(TagKey),
}

/// The error for a text that does not name what to group by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot group by {0:?}")]
pub struct GroupByError(String);

impl GroupByError {
    /// Code of the error.
    pub const CODE: &'static str = "GS0143";
    /// What to do.
    pub const HINT: &'static str =
        "group by cause, workflow, status, version, tag.NAME, or the name of an attribute";
}

impl FromStr for GroupBy {
    type Err = GroupByError;

    fn from_str(text: &str) -> Result<Self, GroupByError> {
        let key = |name: &str| TagKey::new(name).map_err(|_| GroupByError(text.to_owned()));
        Ok(match text {
            "cause" => Self::Cause,
            "workflow" => Self::Workflow,
            "status" => Self::Status,
            "version" => Self::Version,
            _ => match (text.strip_prefix("tag."), text.strip_prefix("attr.")) {
                (Some(name), _) => Self::Tag(key(name)?),
                (_, Some(name)) => Self::Attribute(key(name)?),
                _ if RunField::named(text).is_some() => return Err(GroupByError(text.to_owned())),
                _ => Self::Attribute(key(text)?),
            },
        })
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cause => f.write_str("cause"),
            Self::Workflow => f.write_str("workflow"),
            Self::Status => f.write_str("status"),
            Self::Version => f.write_str("version"),
            Self::Tag(key) => write!(f, "tag.{key}"),
            Self::Attribute(name) => super::ConditionSubject::Attribute(name.clone()).fmt(f),
        }
    }
}

/// Runs that share a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Group {
    /// The value; none for runs without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Number of runs.
    pub count: u64,
    /// Earliest last event of a run of the group: for failed runs, when the first one failed.
    pub first: Millis,
    /// Latest last event of a run of the group.
    pub last: Millis,
    /// The run with that latest event.
    pub example: RunId,
    /// Workflows and versions of the runs, as `order@2`; at most eight.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub workflows: BTreeSet<String>,
}

/// Groups under construction.
#[derive(Debug)]
pub struct Grouping {
    by: GroupBy,
    groups: BTreeMap<Option<String>, Group>,
    most: usize,
    total: u64,
    left_out: u64,
}

impl Grouping {
    /// Begins to group. Runs of further groups than `most` are only counted.
    pub fn new(by: GroupBy, most: usize) -> Self {
        Self { by, groups: BTreeMap::new(), most, total: 0, left_out: 0 }
    }

    /// Adds a run.
    pub fn add(&mut self, run: &Summary) {
        self.total += 1;
        for key in self.keys(run) {
            self.add_to(key, run);
        }
    }

    fn add_to(&mut self, key: Option<String>, run: &Summary) {
        let at = run.last_event_at;
        if !self.groups.contains_key(&key) && self.groups.len() >= self.most {
            self.left_out += 1;
            return;
        }
        let group = self.groups.entry(key.clone()).or_insert_with(|| Group {
            key,
            count: 0,
            first: at,
            last: at,
            example: run.run.clone(),
            workflows: BTreeSet::new(),
        });
        group.count += 1;
        group.first = group.first.min(at);
        if (at, &run.run) > (group.last, &group.example) {
            group.last = at;
            group.example = run.run.clone();
        }
        if group.workflows.len() < WORKFLOWS_MAX {
            group.workflows.insert(run.needs());
        }
    }

    fn keys(&self, run: &Summary) -> Vec<Option<String>> {
        let one = |key: Option<String>| vec![key];
        match &self.by {
            GroupBy::Cause => one(run.trouble.as_ref().map(|trouble| trouble.cause.clone())),
            GroupBy::Workflow => one(Some(run.workflow.to_string())),
            GroupBy::Status => one(Some(run.status.to_string())),
            GroupBy::Version => one(Some(run.needs())),
            GroupBy::Tag(key) => one(run.tags.get(key).cloned()),
            GroupBy::Attribute(name) => match run.attributes.get(name) {
                None => one(None),
                Some(crate::attribute::AttributeValue::Text(text)) => one(Some(text.clone())),
                Some(crate::attribute::AttributeValue::List(texts)) if !texts.is_empty() => {
                    let distinct: BTreeSet<&String> = texts.iter().collect();
                    distinct.into_iter().map(|text| Some(text.clone())).collect()
                }
                Some(value) => one(Some(value.to_string())),
            },
        }
    }

    /// Returns the number of runs so far.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the groups, the largest first, and how many runs were in none of them.
    pub fn finish(self) -> (Vec<Group>, u64) {
        let mut groups: Vec<Group> = self.groups.into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.key.cmp(&b.key)));
        (groups, self.left_out)
    }
}
