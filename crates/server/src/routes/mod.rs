//! All handlers, their router and the OpenAPI description. `route_table` lists the properties of each route.

mod bounds;
mod common;
mod dialogue;
mod healing;
mod health;
mod keys;
mod locks;
mod openapi;
mod operations;
mod passes;
mod questions;
mod retention;
mod run_endings;
mod runs;
mod tasks;
mod workers;

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{from_fn, from_fn_with_state};
use goldseam_api::Problem;
use serde_json::Value;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::app::ServerState;
use crate::dashboard::Listener;
use crate::reply::ProblemResponse;
use crate::{auth, concurrency, dashboard, hardening, meter, redact, stream};

/// Names of the security schemes in the description.
const KEY: &str = "key";
const PASS: &str = "pass";
const SIGNATURE: &str = "signature";

/// Returns the OpenAPI description of the server, as `/v1/openapi.json` serves it.
pub fn openapi() -> &'static Value {
    static PUBLISHED: LazyLock<Value> = LazyLock::new(|| openapi::publish(&described().split_for_parts().1));
    &PUBLISHED
}

fn described() -> OpenApiRouter<Arc<ServerState>> {
    let mut openapi = OpenApi::default();
    openapi.info.title = "Goldseam".to_owned();
    openapi.info.description = Some("Durable workflows that heal themselves".to_owned());
    openapi.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let mut components = Components::default();
    for (name, command) in [(KEY, "goldseam key create"), (PASS, "goldseam pass create")] {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(command));
        components.add_security_scheme(name, SecurityScheme::Http(scheme.build()));
    }
    let header = ApiKeyValue::with_description("goldseam-signature", "t=SECONDS,v1=HMAC");
    components.add_security_scheme(SIGNATURE, SecurityScheme::ApiKey(ApiKey::Header(header)));
    openapi.components = Some(components);
    let mut router = OpenApiRouter::with_openapi(openapi)
        .merge(health::routes())
        .merge(runs::routes())
        .merge(dialogue::routes())
        .merge(run_endings::routes())
        .merge(stream::routes())
        .merge(questions::routes())
        .merge(passes::routes())
        .merge(tasks::routes())
        .merge(locks::routes())
        .merge(healing::routes())
        .merge(retention::routes())
        .merge(operations::routes())
        .merge(keys::routes())
        .merge(workers::routes());
    common::add_to(router.get_openapi_mut());
    router
}

/// Builds the routes of a listener with their middleware. The last layer is the outermost. A body is read only after
/// its sender is authorised.
pub(crate) fn build(listener: Listener, app: Arc<ServerState>) -> Router {
    let router = match listener {
        Listener::Main => described(),
        Listener::Health => health::probes(),
    };
    let state = || Arc::clone(&app);
    router
        .split_for_parts()
        .0
        .method_not_allowed_fallback(|| async {
            ProblemResponse(Problem::new(405, "this route does not accept that method"))
        })
        .fallback(no_route)
        .route_layer(from_fn_with_state(state(), concurrency::admit))
        .route_layer(from_fn_with_state(state(), hardening::body))
        .route_layer(from_fn(auth::authorise))
        .layer(from_fn_with_state(state(), auth::authenticate))
        .layer(from_fn_with_state(listener, dashboard::files))
        .layer(from_fn_with_state(state(), hardening::outermost))
        // `hardening::body` reads the body, up to `body_bytes_max`.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(&app.redactor), redact::responses))
        .layer(from_fn_with_state(Arc::clone(&app.clock), meter::count))
        .with_state(app)
}

/// Builds the routes for requests of this process itself: no host, no credential, no limits of clients.
pub(crate) fn in_process(app: Arc<ServerState>) -> Router {
    let state = || Arc::clone(&app);
    described()
        .split_for_parts()
        .0
        .method_not_allowed_fallback(|| async {
            ProblemResponse(Problem::new(405, "this route does not accept that method"))
        })
        .fallback(no_route)
        .route_layer(from_fn_with_state(state(), concurrency::admit))
        .route_layer(from_fn(auth::authorise))
        .layer(from_fn_with_state(state(), auth::trust))
        // The engine refuses payloads that are too large, and says which.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Arc::clone(&app.redactor), redact::responses))
        .with_state(app)
}

async fn no_route(_: Request) -> ProblemResponse {
    ProblemResponse(Problem::not_found("no such route").hint("GET /v1/openapi.json lists all routes"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::route_table::ROUTES;

    #[test]
    fn mounted_and_listed_routes_are_the_same() {
        let described = super::described().split_for_parts().1;
        let mut mounted = BTreeSet::new();
        for (path, item) in &described.paths.paths {
            let item = serde_json::to_value(item).unwrap();
            mounted.extend(item.as_object().unwrap().keys().map(|method| format!("{method} {path}")));
        }
        let listed: BTreeSet<String> = ROUTES
            .iter()
            .map(|route| format!("{} {}", route.method.as_str().to_lowercase(), route.path))
            .collect();
        assert_eq!(mounted, listed);
    }
}
