//! Every route. What it needs, takes and answers stands in its own description, and the guard goes by that.

mod healing;
mod health;
mod keys;
mod locks;
mod questions;
mod runs;
mod tasks;
mod workers;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use goldseam_api::Problem;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, OpenApi};
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::reply::Refused;
use crate::{guard, meter, shield, stream};
use goldseam_api::doc::key::Scope;

/// Name of the security scheme in the description.
const SCHEME: &str = "key";

/// The scope that each route needs, as its description says.
#[derive(Debug, Default)]
pub(crate) struct Scopes(HashMap<(Method, String), Scope>);

impl Scopes {
    /// Reads them from the description of all routes.
    fn of(openapi: &OpenApi) -> Self {
        let mut scopes = HashMap::new();
        for (path, item) in &openapi.paths.paths {
            for (method, operation) in operations(item) {
                if let Some(scope) = scope_of(operation) {
                    scopes.insert((method, path.clone()), scope);
                }
            }
        }
        Self(scopes)
    }

    /// The scope that a route needs; none: nobody may use it.
    pub(crate) fn needed(&self, method: &Method, path: &str) -> Option<Scope> {
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        self.0.get(&(method, path.to_owned())).copied()
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

/// The one scope that an operation names.
fn scope_of(operation: &Operation) -> Option<Scope> {
    let needs = serde_json::to_value(operation.security.as_ref()?).ok()?;
    let scopes = needs.get(0)?.get(SCHEME)?.as_array()?.clone();
    match scopes.as_slice() {
        [scope] => scope.as_str()?.parse().ok(),
        _ => None,
    }
}

/// The description of everything, as `/v1/openapi.json` has it.
pub fn openapi() -> OpenApi {
    described().split_for_parts().1
}

fn described() -> OpenApiRouter<Arc<App>> {
    let mut openapi = OpenApi::default();
    openapi.info.title = "Goldseam".to_owned();
    openapi.info.description = Some("Durable workflows that heal themselves".to_owned());
    openapi.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let mut components = Components::default();
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("goldseam key create"));
    components.add_security_scheme(SCHEME, SecurityScheme::Http(scheme.build()));
    openapi.components = Some(components);
    OpenApiRouter::with_openapi(openapi)
        .merge(health::routes())
        .merge(runs::routes())
        .merge(stream::routes())
        .merge(questions::routes())
        .merge(tasks::routes())
        .merge(locks::routes())
        .merge(healing::routes())
        .merge(keys::routes())
        .merge(workers::routes())
}

/// All routes, and the scope that each needs.
pub(crate) fn build() -> (Router<Arc<App>>, Scopes) {
    let (router, openapi) = described().split_for_parts();
    let scopes = Scopes::of(&openapi);
    (router, scopes)
}

/// The routes behind everything that a request passes first. The last layer is the outermost.
pub(crate) fn layered(router: Router<Arc<App>>, app: Arc<App>) -> Router {
    let state = || Arc::clone(&app);
    router
        .method_not_allowed_fallback(|| async {
            Refused(Problem::new(405, "this route does not take that method"))
        })
        .fallback(no_route)
        .route_layer(from_fn_with_state(state(), guard::authorise))
        .layer(from_fn_with_state(state(), shield::body))
        .layer(from_fn_with_state(state(), guard::authenticate))
        .layer(from_fn_with_state(state(), shield::outermost))
        .layer(from_fn_with_state(state(), meter::count))
        .with_state(app)
}

async fn no_route(_: Request) -> Refused {
    Refused(Problem::not_found("there is no such route").hint("GET /v1/openapi.json lists all of them"))
}
