//! Remote workers. The documents of their protocol are in `goldseam::unstable::engine::remote::wire`.

use goldseam::unstable::core::NodeId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A worker that has left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeftWorker)]
pub struct LeftWorkerDoc {
    /// Its id.
    pub worker: NodeId,
}
