//! Extractors of handlers. Invalid input becomes a problem that names the reason.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use goldseam::{RunId, TraceContext};
use goldseam_api::doc::key::Scope;
use goldseam_api::{Caller, Problem};
use serde::de::DeserializeOwned;

use crate::namespace::Namespace;
use crate::principal::{Principal, unauthenticated};
use crate::reply::ProblemResponse;
use crate::strict_json;
use crate::waits::WaitingRequest;

/// Maximum length of an idempotency key.
pub(crate) const KEY_BYTES_MAX: usize = 200;

/// A JSON body.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemResponse> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let is_json = kind.as_ref().and_then(|kind| kind.to_str().ok()).is_some_and(is_json);
        let bytes = bytes_of(request, state).await?;
        if !is_json {
            return Err(not_json());
        }
        parse(&bytes).map(Self)
    }
}

/// A JSON body that may be omitted.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalBody<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemResponse> {
        if request.headers().contains_key(header::CONTENT_TYPE) {
            let JsonBody(body) = JsonBody::from_request(request, state).await?;
            return Ok(Self(body));
        }
        match bytes_of(request, state).await?.is_empty() {
            true => Ok(Self(T::default())),
            false => Err(not_json()),
        }
    }
}

fn not_json() -> ProblemResponse {
    Problem::new(415, "the body must be JSON")
        .code("GS0609")
        .hint("send content-type: application/json")
        .into()
}

/// Accepts only `application/json`: content types that an HTML form can send are refused.
fn is_json(kind: &str) -> bool {
    let (name, parameter) = kind.split_once(';').unwrap_or((kind, ""));
    name.trim().eq_ignore_ascii_case("application/json")
        && (parameter.trim().is_empty() || parameter.trim().eq_ignore_ascii_case("charset=utf-8"))
}

async fn bytes_of<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ProblemResponse> {
    Bytes::from_request(request, state)
        .await
        .map_err(|error| Problem::bad_request(format!("cannot read the body: {error}")).into())
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ProblemResponse> {
    if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
        return Err(bad("the body must be a JSON object, not an array"));
    }
    strict_json::read(bytes).map_err(|error| bad(&format!("invalid body: {error}")))
}

fn bad(detail: &str) -> ProblemResponse {
    Problem::bad_request(detail).code("GS0608").hint("GET /v1/openapi.json describes this request").into()
}

/// The query of the URL.
#[derive(Debug)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|error| bad(&format!("invalid query: {}", error.body_text())))
    }
}

/// The parameters in the path of the URL.
#[derive(Debug)]
pub(crate) struct PathParam<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParam<T> {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let params = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        params.map(|axum::extract::Path(params)| Self(params)).map_err(|error| bad(&error.body_text()))
    }
}

/// The namespace that a request may use, and its caller.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) principal: Arc<Principal>,
}

impl<S: Send + Sync> FromRequestParts<S> for Access {
    type Rejection = ProblemResponse;

    /// Fails closed: refuses a request that was not authenticated.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| unauthenticated().into())
    }
}

/// The access of a request that may wait, and its wait slot.
#[derive(Debug)]
pub(crate) struct WaitingAccess {
    pub(crate) access: Access,
    pub(crate) wait: Arc<WaitingRequest>,
}

impl<S: Send + Sync> FromRequestParts<S> for WaitingAccess {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let access = Access::from_request_parts(parts, state).await?;
        let wait = parts.extensions.get::<Arc<WaitingRequest>>().cloned();
        let wait =
            wait.ok_or_else(|| Problem::new(500, "the route table does not list this route as waiting"))?;
        Ok(Self { access, wait })
    }
}

/// The caller of a change, with its idempotency key.
#[derive(Debug)]
pub(crate) struct CallerInfo(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for CallerInfo {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let Access { principal, .. } = Access::from_request_parts(parts, state).await?;
        let key = text(&parts.headers, "idempotency-key", KEY_BYTES_MAX)?;
        // Scoped by the key's id, because two keys may have the same name.
        let scoped = |key: String| match &principal.key {
            Some(id) => format!("{id} {key}"),
            None => key,
        };
        Ok(Self(Caller {
            who: Some(principal.name.clone()),
            key: key.map(scoped),
            credential: principal.key.clone(),
            queues: principal.queues.clone(),
            operates: principal.scopes.contains(&Scope::Operate),
            trace: trace(&parts.headers),
        }))
    }
}

/// Returns the trace context of a request. As the W3C demands, an invalid `traceparent`, or more than one, is ignored
/// together with the `tracestate`, and an invalid `tracestate` is ignored alone.
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all("traceparent").iter();
    let (parent, None) = (parents.next()?.to_str().ok()?, parents.next()) else { return None };
    let states = headers.get_all("tracestate").iter().map(|state| state.to_str().ok());
    let state = states.collect::<Option<Vec<_>>>().map(|states| states.join(","));
    TraceContext::read(parent, state.as_deref())
}

/// A change of one run: its caller, the run and the body.
#[derive(Debug)]
pub(crate) struct RunCommand<B> {
    pub(crate) access: Access,
    pub(crate) caller: Caller,
    pub(crate) run: RunId,
    pub(crate) body: B,
}

impl<S: Send + Sync, B: FromRequest<S, Rejection = ProblemResponse>> FromRequest<S> for RunCommand<B> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemResponse> {
        let (mut parts, body) = request.into_parts();
        let access = Access::from_request_parts(&mut parts, state).await?;
        let CallerInfo(caller) = CallerInfo::from_request_parts(&mut parts, state).await?;
        let PathParam(run) = PathParam::from_request_parts(&mut parts, state).await?;
        let body = B::from_request(Request::from_parts(parts, body), state).await?;
        Ok(Self { access, caller, run, body })
    }
}

/// Returns a header as text, if it is present.
fn text(
    headers: &HeaderMap,
    name: &'static str,
    bytes_max: usize,
) -> Result<Option<String>, ProblemResponse> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let value = value.to_str().ok().map(str::trim).filter(|text| !text.is_empty() && text.len() <= bytes_max);
    match value {
        Some(text) => Ok(Some(text.to_owned())),
        None => Err(Problem::bad_request(format!(
            "the header {name} must have 1 to {bytes_max} printable ASCII characters"
        ))
        .code("GS0608")
        .limit(bytes_max as u64)
        .into()),
    }
}
