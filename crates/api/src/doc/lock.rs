//! Named locks.

use goldseam::unstable::core::LockName;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Selects locks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LocksQuery {
    /// Cursor: the previous page's `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Maximum number of locks, up to 500; defaults to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A lock to acquire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHold {
    /// The new holder.
    pub holder: String,
    /// How long to hold it, in milliseconds; defaults to 300000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub ttl_ms: Option<u64>,
}

/// A held lock to extend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Extension)]
pub struct NewExtension {
    /// The holder.
    pub holder: String,
    /// The fence from the acquire response.
    #[serde(deserialize_with = "goldseam::unstable::core::whole::number")]
    pub fence: u64,
    /// How long to hold it from now, in milliseconds; defaults to 300000.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "goldseam::unstable::core::whole::optional"
    )]
    pub ttl_ms: Option<u64>,
}

/// A held lock to release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRelease {
    /// The holder.
    pub holder: String,
    /// The fence from the acquire response.
    #[serde(deserialize_with = "goldseam::unstable::core::whole::number")]
    pub fence: u64,
}

/// The result of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Released)]
pub struct ReleasedDoc {
    /// The lock.
    pub name: LockName,
    /// Whether the holder had the lock with this fence.
    pub released: bool,
}
