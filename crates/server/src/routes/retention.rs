//! Pruning: into the archive that the server's configuration names, and nowhere else.

use std::sync::Arc;

use goldseam_api::doc::retention::{NewPrune, PRUNE_MAX, PrunePlan, PruneQuery, Pruned};
use goldseam_api::{Api, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::extract::{Body, By, In, Query};
use crate::reply::{Answer, Json};

pub(super) fn routes() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::new().routes(routes!(plan, prune))
}

/// Which runs a prune would archive and remove. Changes nothing.
#[utoipa::path(get, path = "/v1/prune", tag = "retention", security(("key" = ["read"])), params(PruneQuery),
    responses((status = 200, body = PrunePlan), (status = 400, body = Problem)))]
async fn plan(place: In, Query(query): Query<PruneQuery>) -> Answer<PrunePlan> {
    Ok(Json(place.space.api.plan_prune(query).await?))
}

/// Archives runs that ended long ago where the server archives, then leaves a tombstone in place of each log.
///
/// At most 500 at a time; `more` tells whether there are more. What was pruned is not pruned again, so a repeat is
/// harmless under any idempotency key: the key only makes the id that stands in the tombstones.
#[utoipa::path(post, path = "/v1/prune", tag = "retention", security(("key" = ["admin"])), request_body = NewPrune,
    responses((status = 200, body = Pruned), (status = 400, body = Problem), (status = 409, body = Problem),
        (status = 413, body = Problem), (status = 503, body = Problem)))]
async fn prune(place: In, By(caller): By, Body(new): Body<NewPrune>) -> Answer<Pruned> {
    let limit = match new.limit.unwrap_or(PRUNE_MAX) {
        limit @ 0..=PRUNE_MAX => limit,
        limit => {
            let told = format!("at most {PRUNE_MAX} runs are pruned at a time, not {limit}");
            return Err(Problem::bad_request(told).limit(PRUNE_MAX).into());
        }
    };
    let Some(archive) = &place.space.archive else {
        return Err(Problem::new(409, "this server has no archive, and nothing is removed without one")
            .code("GS0614")
            .hint("set archive in the server's configuration")
            .into());
    };
    let new = NewPrune { limit: Some(limit), ..new };
    Ok(Json(place.space.api.prune(&caller, new, &**archive, &mut |_| ()).await?))
}
