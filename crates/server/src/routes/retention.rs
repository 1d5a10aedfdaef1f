//! Prunes into the archive of the server's configuration.

use std::sync::Arc;

use goldseam_api::doc::retention::{NewPrune, PRUNE_MAX, PrunePlanDoc, PruneQuery, PrunedDoc};
use goldseam_api::{Problem, RetentionApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::ServerState;
use crate::extract::{Access, CallerInfo, JsonBody, QueryParams};
use crate::reply::{Json, JsonResult};

/// Maximum number of runs in a plan.
pub(super) const PLAN_MAX: u64 = 10_000;

pub(super) fn routes() -> OpenApiRouter<Arc<ServerState>> {
    OpenApiRouter::new().routes(routes!(plan, prune))
}

/// Returns `limit`, or `max` if it is not set. Refuses more than `max`.
fn checked_limit(limit: Option<u64>, max: u64) -> Result<Option<u64>, Problem> {
    match limit.unwrap_or(max) {
        limit if limit <= max => Ok(Some(limit)),
        limit => {
            let detail = format!("`limit` must be at most {max} runs, not {limit}");
            Err(Problem::bad_request(detail).limit(max))
        }
    }
}

/// Lists the runs that a prune would archive and remove, oldest first and at most 10,000. Changes nothing.
#[utoipa::path(get, path = "/v1/prune", tag = "retention", params(PruneQuery),
    responses((status = 200, body = PrunePlanDoc)))]
async fn plan(access: Access, QueryParams(query): QueryParams<PruneQuery>) -> JsonResult<PrunePlanDoc> {
    let limit = checked_limit(query.limit, PLAN_MAX)?;
    Ok(Json(access.namespace.api.plan_prune(PruneQuery { limit, ..query }).await?))
}

/// Archives runs that ended long ago and replaces each log by a tombstone.
///
/// Prunes at most 500 runs; `more` says whether there are more. A pruned run is not pruned again, so a repeat is
/// harmless under any idempotency key: the key only determines the id in the tombstones.
#[utoipa::path(post, path = "/v1/prune", tag = "retention", request_body = NewPrune,
    responses((status = 200, body = PrunedDoc)))]
async fn prune(
    access: Access,
    CallerInfo(caller): CallerInfo,
    JsonBody(new): JsonBody<NewPrune>,
) -> JsonResult<PrunedDoc> {
    let limit = checked_limit(new.limit, PRUNE_MAX)?;
    let new = NewPrune { limit, ..new };
    Ok(Json(access.namespace.api.prune(&caller, new, &mut |_| ()).await?))
}
