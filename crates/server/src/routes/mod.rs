//! Every route. What it needs, takes and answers stands in its own description, and the guard goes by that.

mod bounds;
mod common;
mod healing;
mod health;
mod keys;
mod locks;
mod openapi;
mod passes;
mod questions;
mod retention;
mod run_endings;
mod runs;
mod tasks;
mod workers;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use goldseam_api::Problem;
use serde_json::Value;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi};
use utoipa_axum::router::OpenApiRouter;

pub(crate) use health::Readiness;

use crate::app::App;
use crate::auth::Need;
use crate::reply::ProblemResponse;
use crate::{auth, concurrency, hardening, meter, redact, stream};

/// Names of the security schemes in the description.
const KEY: &str = "key";
const PASS: &str = "pass";
const SIGNATURE: &str = "signature";

/// What each route needs, as its description says.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    needs: HashMap<(Method, String), Need>,
    /// The methods that a path takes.
    methods: HashMap<String, Vec<String>>,
}

impl Scopes {
    /// Reads them from the description of all routes.
    fn of(openapi: &OpenApi) -> Self {
        let mut scopes = Self::default();
        for (path, item) in &openapi.paths.paths {
            for (method, operation) in operations(item) {
                scopes.methods.entry(path.clone()).or_default().push(method.to_string());
                if let Some(need) = need_of(operation) {
                    scopes.needs.insert((method, path.clone()), need);
                }
            }
        }
        scopes
    }

    /// The methods that a path takes; none: there is no such path.
    pub(crate) fn methods(&self, path: &str) -> &[String] {
        self.methods.get(path).map_or(&[], Vec::as_slice)
    }

    /// What a route needs; none: nobody may use it.
    pub(crate) fn needed(&self, method: &Method, path: &str) -> Option<Need> {
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        self.needs.get(&(method, path.to_owned())).copied()
    }
}

/// Every operation of a path.
pub(crate) fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// The one thing that an operation asks for.
fn need_of(operation: &Operation) -> Option<Need> {
    let needs = serde_json::to_value(operation.security.as_ref()?).ok()?;
    let schemes = needs.get(0)?.as_object()?;
    let mut schemes = schemes.iter().map(|(scheme, scopes)| (scheme.as_str(), scopes.as_array()));
    match (schemes.next()?, schemes.next()) {
        ((PASS, _), None) => Some(Need::Pass),
        ((SIGNATURE, _), None) => Some(Need::Signature),
        ((KEY, Some(scopes)), None) => match scopes.as_slice() {
            [scope] => scope.as_str()?.parse().ok().map(Need::Scope),
            _ => None,
        },
        _ => None,
    }
}

/// The description of everything, as `/v1/openapi.json` has it.
pub fn openapi() -> &'static Value {
    static PUBLISHED: LazyLock<Value> = LazyLock::new(|| openapi::publish(&described().split_for_parts().1));
    &PUBLISHED
}

fn described() -> OpenApiRouter<Arc<App>> {
    let mut openapi = OpenApi::default();
    openapi.info.title = "Goldseam".to_owned();
    openapi.info.description = Some("Durable workflows that heal themselves".to_owned());
    openapi.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let mut components = Components::default();
    for (name, made_by) in [(KEY, "goldseam key create"), (PASS, "goldseam pass create")] {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(made_by));
        components.add_security_scheme(name, SecurityScheme::Http(scheme.build()));
    }
    let header = ApiKeyValue::with_description("goldseam-signature", "t=SECONDS,v1=HMAC");
    components.add_security_scheme(SIGNATURE, SecurityScheme::ApiKey(ApiKey::Header(header)));
    openapi.components = Some(components);
    let mut router = OpenApiRouter::with_openapi(openapi)
        .merge(health::routes())
        .merge(runs::routes())
        .merge(run_endings::routes())
        .merge(stream::routes())
        .merge(questions::routes())
        .merge(passes::routes())
        .merge(tasks::routes())
        .merge(locks::routes())
        .merge(healing::routes())
        .merge(retention::routes())
        .merge(keys::routes())
        .merge(workers::routes());
    common::add_to(router.get_openapi_mut());
    router
}

/// All routes, and the scope that each needs.
pub(crate) fn build() -> (Router<Arc<App>>, Scopes) {
    let (router, openapi) = described().split_for_parts();
    let scopes = Scopes::of(&openapi);
    (router, scopes)
}

/// The routes of the listener for health and numbers.
pub(crate) fn build_health() -> Router<Arc<App>> {
    health::probes().split_for_parts().0
}

/// The routes behind everything that a request passes first. The last layer is the outermost: nothing of a body is read
/// before its sender is known and allowed to send it.
pub(crate) fn layered(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    let state = || Arc::clone(&app);
    router
        .method_not_allowed_fallback(|| async {
            ProblemResponse(Problem::new(405, "this route does not take that method"))
        })
        .fallback(no_route)
        .route_layer(from_fn_with_state(state(), concurrency::admit))
        .route_layer(from_fn_with_state(state(), hardening::body))
        .route_layer(from_fn_with_state(state(), auth::authorise))
        .layer(from_fn_with_state(state(), auth::authenticate))
        .layer(from_fn_with_state(state(), hardening::outermost))
        .layer(from_fn_with_state(state(), redact::answers))
        .layer(from_fn_with_state(state(), meter::count))
        .with_state(app)
}

async fn no_route(_: Request) -> ProblemResponse {
    ProblemResponse(
        Problem::not_found("there is no such route").hint("GET /v1/openapi.json lists all of them"),
    )
}
