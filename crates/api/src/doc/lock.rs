//! Named locks.

use goldseam::core::LockName;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which locks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LocksQuery {
    /// Begin after this cursor: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many, up to 500; 100 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Who takes a lock, and for how long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHold {
    /// Who takes it.
    pub holder: String,
    /// For so many milliseconds; 300000 unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub ttl_ms: Option<u64>,
}

/// A hold to be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// Who has it.
    pub holder: String,
    /// The fence that acquiring it brought.
    #[serde(deserialize_with = "goldseam::core::whole::number")]
    pub fence: u64,
    /// For so many milliseconds from now; 300000 unless given.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::core::whole::optional"
    )]
    pub ttl_ms: Option<u64>,
}

/// A hold to be given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRelease {
    /// Who has it.
    pub holder: String,
    /// The fence that acquiring it brought.
    #[serde(deserialize_with = "goldseam::core::whole::number")]
    pub fence: u64,
}

/// What became of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Released {
    /// The lock.
    pub name: LockName,
    /// Whether it was held like that until now.
    pub released: bool,
}
