//! The guard: who asks, and whether they may. Nothing is reached past it but two routes that say nothing.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use goldseam::core::QueueName;
use goldseam_api::Problem;

use crate::app::App;
use crate::extract::Access;
use crate::pass::{self, OpenedPass};
use crate::rate::Kind;
use crate::reply::ProblemResponse;
use goldseam_api::doc::key::Scope;

/// What anybody may ask for: exactly these, and nothing that merely begins or ends like them.
pub(crate) const PUBLIC: [(Method, &str); 2] = [(Method::GET, "/healthz"), (Method::GET, "/readyz")];

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// For people, and for the logs of runs.
    pub name: String,
    /// The key's id; none where no key is asked for.
    pub key: Option<String>,
    /// What may be done.
    pub scopes: BTreeSet<Scope>,
    /// The queues that may be claimed from; none: all of them.
    pub queues: Option<BTreeSet<QueueName>>,
}

impl Principal {
    /// Whether all of these queues may be claimed from.
    pub(crate) fn may_claim_from(&self, queues: &[QueueName]) -> Result<(), Problem> {
        let Some(own) = &self.queues else { return Ok(()) };
        let Some(other) = queues.iter().find(|queue| !own.contains(*queue)) else { return Ok(()) };
        let own: Vec<&str> = own.iter().map(QueueName::as_str).collect();
        Err(Problem::new(403, format!("the key {:?} may not claim from the queue {other}", self.name))
            .code("GS0602")
            .hint(format!(
                "it may claim from {}; make another: goldseam key create NAME --scope worker --queue {other}",
                own.join(", ")
            )))
    }
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    /// The client: the other end, or whom that names if it is a trusted proxy.
    pub(crate) client: IpAddr,
    /// Whether it came through a trusted proxy.
    pub(crate) is_behind_proxy: bool,
    /// Whether only this machine can reach the listener that took it.
    pub(crate) is_loopback: bool,
}

/// There is no valid key.
pub(crate) fn unauthenticated() -> Problem {
    Problem::new(401, "this needs a valid key")
        .code("GS0601")
        .hint("send `authorization: Bearer KEY`; make one: goldseam key create NAME --scope read")
}

/// There is no valid pass; which of the reasons it is, is not told.
fn bad_pass() -> Problem {
    Problem::new(401, "this pass is not valid: it is altered or expired, its key has ended, or the secret that passes are signed with has changed")
        .code("GS0601")
        .hint("make another: goldseam pass create RUN --answer QUESTION, or --signal NAME")
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(403, detail).code("GS0602")
}

/// Where callbacks go: what stands behind it is a ticket.
const CALLBACKS: &str = "/v1/callbacks/";

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A key with this scope.
    Scope(Scope),
    /// A pass.
    Pass,
    /// The ticket of a pass; its handler looks at the signature.
    Signature,
}

/// The pass that a request came with.
#[derive(Debug, Clone)]
pub(crate) struct PresentedPass {
    pub(crate) opened: Arc<OpenedPass>,
    need: Need,
}

impl PresentedPass {
    /// How much of the pass was shown.
    pub(crate) fn need(&self) -> Need {
        self.need
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PresentedPass {
    type Rejection = ProblemResponse;

    /// Fails closed: without a pass there is nothing that it allows.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| unauthenticated().into())
    }
}

/// Whoever comes with a pass, and how much of it they showed.
async fn admit(
    app: &App,
    opened: Result<Option<OpenedPass>, Problem>,
    peer: Option<IpAddr>,
    need: Need,
) -> Result<(Access, Option<PresentedPass>), Problem> {
    let Some(opened) = opened? else { return Err(turned_away(app, peer, bad_pass())) };
    let (pass, scopes) = (&opened.pass, BTreeSet::new());
    if let Some(key) = &pass.key
        && !app.keyring.is_valid(key).await?
    {
        return Err(turned_away(app, peer, bad_pass()));
    }
    let name = match &pass.by {
        Some(by) => format!("pass of {by}"),
        None => "pass".to_owned(),
    };
    // Each pass has a pace of its own.
    let principal = Principal { name, key: Some(format!("pass {}", pass.id)), scopes, queues: None };
    let found = app.namespace(&pass.namespace, principal)?;
    Ok((found, Some(PresentedPass { opened: Arc::new(opened), need })))
}

/// Finds out who asks; whoever cannot tell is turned away, whatever they asked for.
pub(crate) async fn authenticate(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    if PUBLIC.iter().any(|(method, path)| request.method() == method && request.uri().path() == *path) {
        return next.run(request).await;
    }
    let from = request.extensions().get::<Peer>().copied();
    let peer = from.map(|from| from.client);
    let ticket = request.uri().path().strip_prefix(CALLBACKS).map(str::to_owned);
    let found = match (ticket, bearer(&request)) {
        (Some(ticket), _) => admit(&app, app.passes.open(&ticket).await, peer, Need::Signature).await,
        (None, Ok(Some(credential))) if pass::is_one(credential) => {
            admit(&app, app.passes.check(credential).await, peer, Need::Pass).await
        }
        (None, Ok(credential)) => vouch(&app, credential, from).await.map(|found| (found, None)),
        (None, Err(())) => Err(turned_away(&app, peer, unauthenticated())),
    };
    match found {
        Ok((found, held)) => {
            let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
            let kind = Kind::of(app.scopes.needed(request.method(), path));
            if let Err(problem) = app.rates.request(&found, kind) {
                return ProblemResponse(problem).into_response();
            }
            request.extensions_mut().insert(found);
            if let Some(held) = held {
                request.extensions_mut().insert(held);
            }
            next.run(request).await
        }
        Err(problem) => ProblemResponse(problem).into_response(),
    }
}

/// The credential that a request carries, if any; an error if it carries something else.
fn bearer(request: &Request) -> Result<Option<&str>, ()> {
    let mut values = request.headers().get_all(header::AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str().ok().and_then(|text| text.split_once(' ')) {
            Some((scheme, credential)) if scheme.eq_ignore_ascii_case("bearer") => {
                Ok(Some(credential.trim()))
            }
            _ => Err(()),
        },
        _ => Err(()),
    }
}

async fn vouch(app: &App, credential: Option<&str>, from: Option<Peer>) -> Result<Access, Problem> {
    let peer = from.map(|from| from.client);
    let Some(credential) = credential else {
        let is_loopback = from.is_some_and(|from| from.is_loopback);
        return match app.is_open_to(is_loopback).await? {
            true => app.namespace(crate::NAMESPACE_DEFAULT, local()),
            false => Err(turned_away(app, peer, unauthenticated())),
        };
    };
    let Some(stored) = app.keyring.check(credential).await? else {
        return Err(turned_away(app, peer, unauthenticated()));
    };
    let key = &stored.key;
    let principal = Principal {
        name: key.name.clone(),
        key: Some(key.id.clone()),
        scopes: key.scopes.clone(),
        queues: key.queues.clone(),
    };
    app.namespace(&key.namespace, principal)
}

/// Whoever is on this machine, where no key is asked for.
fn local() -> Principal {
    Principal { name: "local".to_owned(), key: None, scopes: Scope::ALL.into_iter().collect(), queues: None }
}

/// Guessing is made slow, and is seen: in the log stands who guessed, and never what. Whoever is slowed down is logged no
/// more, so that nobody can fill a disk with it.
pub(crate) fn turned_away(app: &App, peer: Option<IpAddr>, why: Problem) -> Problem {
    if let Some(Err(problem)) = peer.map(|peer| app.rates.failure(peer)) {
        return problem;
    }
    let peer = peer.map(tracing::field::display);
    tracing::warn!(target: "goldseam::audit", peer, "somebody came without a valid key or pass");
    why
}

/// Whether whoever asks may do what the matched route does. The scope stands in the route's own description; a route
/// without one is refused.
pub(crate) async fn authorise(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let path = matched.as_ref().map_or("", MatchedPath::as_str);
    let (method, asked) = (request.method().clone(), request.uri().path().to_owned());
    let by = request.extensions().get::<Access>().cloned();
    let mut response = match allowed(&app, &request, path) {
        Ok(()) => next.run(request).await,
        Err(problem) => ProblemResponse(problem).into_response(),
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(methods) = HeaderValue::try_from(app.scopes.methods(path).join(", "))
    {
        response.headers_mut().insert(header::ALLOW, methods);
    }
    if let Some(Access { namespace, principal }) = by.filter(|_| !method.is_safe()) {
        let (who, key, status) = (&principal.name, principal.key.as_deref(), response.status().as_u16());
        tracing::info!(target: "goldseam::audit", who, key, namespace = namespace.name, %method, path = asked, status);
    }
    if let Some(matched) = matched {
        response.extensions_mut().insert(matched);
    }
    response
}

fn allowed(app: &App, request: &Request, path: &str) -> Result<(), Problem> {
    if PUBLIC.iter().any(|(method, public)| request.method() == method && path == *public) {
        return Ok(());
    }
    let Access { principal, .. } = request.extensions().get::<Access>().ok_or_else(unauthenticated)?;
    let held = request.extensions().get::<PresentedPass>().map(PresentedPass::need);
    match app.scopes.needed(request.method(), path) {
        None => match app.scopes.methods(path) {
            [] => Err(forbidden("no scope allows this route")
                .hint("GET /v1/openapi.json lists all routes, each with its scope")),
            methods => Err(Problem::new(405, format!("this route takes {} only", methods.join(", ")))
                .hint("GET /v1/openapi.json lists all routes")),
        },
        Some(Need::Scope(scope)) if !principal.scopes.contains(&scope) => Err(forbidden(format!(
            "the key {:?} lacks the scope `{scope}`, which this route needs",
            principal.name
        ))
        .hint(format!("use a key that has it: goldseam key create NAME --scope {scope}"))),
        Some(Need::Scope(_)) => Ok(()),
        Some(need) if held == Some(need) => Ok(()),
        Some(_) => {
            Err(forbidden("this needs a pass, and no key").hint("POST /v1/runs/{run}/passes makes one"))
        }
    }
}
