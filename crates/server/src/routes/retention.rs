//! Pruning: into the archive that the server's configuration names, and nowhere else.

use std::sync::Arc;

use goldseam_api::doc::retention::{NewPrune, PRUNE_MAX, PrunePlan, PruneQuery, Pruned};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Access, Body, CallerInfo, Query};
use crate::reply::{Json, JsonResult};

/// Most runs in a plan.
pub(super) const PLAN_MAX: u64 = 10_000;

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(plan, prune))
}

/// How many are wanted: no more than this, and so many unless somebody says.
fn up_to(limit: Option<u64>, max: u64) -> Result<Option<u64>, Problem> {
    match limit.unwrap_or(max) {
        limit if limit <= max => Ok(Some(limit)),
        limit => {
            let told = format!("at most {max} runs are pruned or planned at a time, not {limit}");
            Err(Problem::bad_request(told).limit(max))
        }
    }
}

/// Which runs a prune would archive and remove, the oldest 10,000 of them at most. Changes nothing.
#[utoipa::path(get, path = "/v1/prune", tag = "retention", security(("key" = ["read"])), params(PruneQuery),
    responses((status = 200, body = PrunePlan), (status = 400, body = Problem)))]
async fn plan(access: Access, Query(query): Query<PruneQuery>) -> JsonResult<PrunePlan> {
    let limit = up_to(query.limit, PLAN_MAX)?;
    Ok(Json(access.namespace.api.plan_prune(PruneQuery { limit, ..query }).await?))
}

/// Archives runs that ended long ago where the server archives, then leaves a tombstone in place of each log.
///
/// At most 500 at a time; `more` tells whether there are more. What was pruned is not pruned again, so a repeat is
/// harmless under any idempotency key: the key only makes the id that stands in the tombstones.
#[utoipa::path(post, path = "/v1/prune", tag = "retention", security(("key" = ["admin"])), request_body = NewPrune,
    responses((status = 200, body = Pruned), (status = 400, body = Problem), (status = 409, body = Problem),
        (status = 413, body = Problem), (status = 503, body = Problem)))]
async fn prune(
    access: Access,
    CallerInfo(caller): CallerInfo,
    Body(new): Body<NewPrune>,
) -> JsonResult<Pruned> {
    let limit = up_to(new.limit, PRUNE_MAX)?;
    let Some(archive) = &access.namespace.archive else {
        return Err(Problem::new(409, "this server has no archive, and nothing is removed without one")
            .code("GS0614")
            .hint("set archive in the server's configuration")
            .into());
    };
    let new = NewPrune { limit, ..new };
    Ok(Json(access.namespace.api.prune(&caller, new, &**archive, &mut |_| ()).await?))
}
