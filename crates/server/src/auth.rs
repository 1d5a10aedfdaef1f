//! Authentication and authorisation. Only the public routes, which reveal nothing, are reachable without a credential.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goldseam_api::Problem;
use goldseam_api::credentials::passes::{self, OpenedPass};

use crate::app::ServerState;
use crate::extract::Access;
use crate::principal::{Peer, PresentedPass, Principal, unauthenticated};
use crate::rate::RateKind;
use crate::reply::ProblemResponse;
use crate::route_table::{self, Need};

/// Path prefix of callbacks; the rest of the path is a ticket.
const CALLBACKS: &str = "/v1/callbacks/";

/// The problem of an invalid pass. It does not reveal which of the reasons applies.
fn invalid_pass() -> Problem {
    Problem::new(
        401,
        "this pass is invalid: it was altered or has expired, its key has ended, or the pass secret has changed",
    )
    .code("GS0601")
    .hint("create another pass: goldseam pass create RUN --answer QUESTION, or --signal NAME")
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(403, detail).code("GS0602")
}

/// The credential of a request, not checked yet.
enum Credential {
    /// The ticket of a callback.
    Ticket(String),
    /// A bearer credential, if any.
    Bearer(Option<String>),
    /// An `authorization` header of another form.
    Malformed,
}

/// An authenticated request.
struct Authenticated {
    access: Access,
    pass: Option<PresentedPass>,
}

/// Authenticates every request that is not public.
pub(crate) async fn authenticate(
    State(app): State<Arc<ServerState>>,
    mut request: Request,
    next: Next,
) -> Response {
    if route_table::is_public(request.method(), request.uri().path()) {
        return next.run(request).await;
    }
    let peer = request.extensions().get::<Peer>().copied();
    let authenticated = match check_credential(&app, credential_of(&request), peer).await {
        Ok(authenticated) => authenticated,
        Err(problem) => return ProblemResponse(problem).into_response(),
    };
    let Authenticated { access, pass } = authenticated;
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let kind = route_table::find(request.method(), path).map_or(RateKind::Other, |route| route.rate);
    let key = access.principal.key.as_ref().unwrap_or(&access.principal.name);
    if let Err(problem) = app.rates.request(key, &access.namespace.name, kind) {
        return ProblemResponse(problem).into_response();
    }
    request.extensions_mut().insert(access);
    if let Some(pass) = pass {
        request.extensions_mut().insert(pass);
    }
    next.run(request).await
}

/// Gives requests of this process itself full access: the process has the store.
pub(crate) async fn trust(State(app): State<Arc<ServerState>>, mut request: Request, next: Next) -> Response {
    match app.access(crate::NAMESPACE_DEFAULT, Principal::local()) {
        Ok(access) => {
            request.extensions_mut().insert(access);
            next.run(request).await
        }
        Err(problem) => ProblemResponse(problem).into_response(),
    }
}

fn credential_of(request: &Request) -> Credential {
    if let Some(ticket) = request.uri().path().strip_prefix(CALLBACKS) {
        return Credential::Ticket(ticket.to_owned());
    }
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Credential::Bearer(None),
        (Some(value), None) => match value.to_str().ok().and_then(|text| text.split_once(' ')) {
            Some((scheme, credential)) if scheme.eq_ignore_ascii_case("bearer") => {
                Credential::Bearer(Some(credential.trim().to_owned()))
            }
            _ => Credential::Malformed,
        },
        _ => Credential::Malformed,
    }
}

async fn check_credential(
    app: &ServerState,
    credential: Credential,
    peer: Option<Peer>,
) -> Result<Authenticated, Problem> {
    let client = peer.map(|peer| peer.client);
    match credential {
        Credential::Ticket(ticket) => {
            let opened = app.passes.open(&ticket).await?;
            authenticate_pass(app, opened, client, Need::Signature).await
        }
        Credential::Bearer(Some(credential)) if passes::is_pass(&credential) => {
            let opened = app.passes.check(&credential).await?;
            authenticate_pass(app, opened, client, Need::Pass).await
        }
        Credential::Bearer(credential) => {
            let access = authenticate_key(app, credential.as_deref(), peer).await?;
            Ok(Authenticated { access, pass: None })
        }
        Credential::Malformed => Err(reject(app, client, unauthenticated())),
    }
}

async fn authenticate_pass(
    app: &ServerState,
    opened: Option<OpenedPass>,
    client: Option<IpAddr>,
    proves: Need,
) -> Result<Authenticated, Problem> {
    let Some(opened) = opened else { return Err(reject(app, client, invalid_pass())) };
    let pass = &opened.pass;
    if let Some(key) = &pass.key
        && !app.keyring.is_valid(key).await?
    {
        return Err(reject(app, client, invalid_pass()));
    }
    let name = match &pass.by {
        Some(by) => format!("pass of {by}"),
        None => "pass".to_owned(),
    };
    // Each pass has its own rate limit.
    let key = Some(format!("pass {}", pass.id));
    let principal = Principal { name, key, scopes: BTreeSet::new(), queues: None };
    let access = app.access(&pass.namespace, principal)?;
    Ok(Authenticated { access, pass: Some(PresentedPass { opened: Arc::new(opened), proves }) })
}

async fn authenticate_key(
    app: &ServerState,
    credential: Option<&str>,
    peer: Option<Peer>,
) -> Result<Access, Problem> {
    let client = peer.map(|peer| peer.client);
    let Some(credential) = credential else {
        let is_loopback = peer.is_some_and(|peer| peer.is_loopback);
        return match app.is_open_to(is_loopback).await? {
            true => app.access(crate::NAMESPACE_DEFAULT, Principal::local()),
            false => Err(reject(app, client, unauthenticated())),
        };
    };
    let Some(stored) = app.keyring.check(credential).await? else {
        return Err(reject(app, client, unauthenticated()));
    };
    let key = &stored.key;
    let principal = Principal {
        name: key.name.clone(),
        key: Some(key.id.clone()),
        scopes: key.scopes.clone(),
        queues: key.queues.clone(),
    };
    app.access(&key.namespace, principal)
}

/// Counts and logs a failed authentication, never the credential. An address beyond its rate is not logged, so it
/// cannot fill a disk.
pub(crate) fn reject(app: &ServerState, client: Option<IpAddr>, why: Problem) -> Problem {
    if let Some(Err(problem)) = client.map(|client| app.rates.failure(client)) {
        return problem;
    }
    let peer = client.map(tracing::field::display);
    tracing::warn!(target: "goldseam::audit", peer, "rejected a request without a valid key or pass");
    why
}

/// Authorises the matched route by the route table, and writes the audit log of changes.
pub(crate) async fn authorise(request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path = matched.as_ref().map_or("", MatchedPath::as_str);
    let method = request.method().clone();
    let requested = request.uri().path().to_owned();
    let access = request.extensions().get::<Access>().cloned();
    let mut response = match check(&request, path) {
        Ok(()) => next.run(request).await,
        Err(problem) => ProblemResponse(problem).into_response(),
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(methods) = HeaderValue::try_from(route_table::methods(path).join(", "))
    {
        response.headers_mut().insert(header::ALLOW, methods);
    }
    if let Some(Access { namespace, principal }) = access.filter(|_| !method.is_safe()) {
        let who = &principal.name;
        let key = principal.key.as_deref();
        let status = response.status().as_u16();
        tracing::info!(target: "goldseam::audit", who, key, namespace = namespace.name, %method, path = requested, status);
    }
    if let Some(matched) = matched {
        response.extensions_mut().insert(matched);
    }
    response
}

/// Refuses a request whose credential does not allow the matched route. An unlisted route is refused.
fn check(request: &Request, path: &str) -> Result<(), Problem> {
    if route_table::is_public(request.method(), path) {
        return Ok(());
    }
    let Access { principal, .. } = request.extensions().get::<Access>().ok_or_else(unauthenticated)?;
    let proves = request.extensions().get::<PresentedPass>().map(|pass| pass.proves);
    match route_table::find(request.method(), path).and_then(|route| route.need) {
        None => match route_table::methods(path).as_slice() {
            [] => Err(forbidden("no scope allows this route")
                .hint("GET /v1/openapi.json lists all routes and their scopes")),
            methods => Err(Problem::new(405, format!("this route accepts only {}", methods.join(", ")))
                .hint("GET /v1/openapi.json lists all routes")),
        },
        Some(Need::Scope(scope)) if !principal.scopes.contains(&scope) => Err(forbidden(format!(
            "key {:?} lacks the scope `{scope}`, which this route needs",
            principal.name
        ))
        .hint(format!("use a key with that scope: goldseam key create NAME --scope {scope}"))),
        // The checked credential of a request without a pass is a key.
        Some(Need::Key) if proves.is_none() => Ok(()),
        Some(Need::Key) => Err(forbidden("this route needs a key instead of a pass")
            .hint("create a key: goldseam key create NAME --scope read")),
        Some(Need::Scope(_)) => Ok(()),
        Some(need) if proves == Some(need) => Ok(()),
        Some(_) => Err(forbidden("this route needs a pass instead of a key")
            .hint("POST /v1/runs/{run}/passes creates one")),
    }
}
