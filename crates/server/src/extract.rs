//! What a handler takes from a request; whatever is wrong with it becomes a problem that says so.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, OptionalFromRequest, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use goldseam_api::{Caller, Problem};
use serde::de::DeserializeOwned;

use crate::auth::Principal;
use crate::namespace::Namespace;
use crate::reply::ProblemResponse;

/// Longest idempotency key.
pub(crate) const KEY_BYTES_MAX: usize = 200;

/// A body of JSON, and of nothing else.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ProblemResponse;

    async fn from_request(request: Request, state: &S) -> Result<Self, ProblemResponse> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let is_json = kind.as_ref().and_then(|kind| kind.to_str().ok()).is_some_and(is_json);
        let bytes = bytes_of(request, state).await?;
        if !is_json {
            return Err(Problem::new(415, "the body must be JSON")
                .code("GS0609")
                .hint("send content-type: application/json")
                .into());
        }
        read(&bytes).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> OptionalFromRequest<S> for Body<T> {
    type Rejection = ProblemResponse;

    /// None where there is no body at all.
    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, ProblemResponse> {
        let has_kind = request.headers().contains_key(header::CONTENT_TYPE);
        if has_kind {
            return <Self as FromRequest<S>>::from_request(request, state).await.map(Some);
        }
        match bytes_of(request, state).await?.is_empty() {
            true => Ok(None),
            false => Err(Problem::new(415, "the body must be JSON")
                .code("GS0609")
                .hint("send content-type: application/json")
                .into()),
        }
    }
}

/// JSON by its own name only: what a form can send is refused.
fn is_json(kind: &str) -> bool {
    let (name, parameter) = kind.split_once(';').unwrap_or((kind, ""));
    name.trim().eq_ignore_ascii_case("application/json")
        && (parameter.trim().is_empty() || parameter.trim().eq_ignore_ascii_case("charset=utf-8"))
}

async fn bytes_of<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ProblemResponse> {
    Bytes::from_request(request, state)
        .await
        .map_err(|error| Problem::bad_request(format!("the body could not be read: {error}")).into())
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ProblemResponse> {
    if bytes.trim_ascii_start().first().is_some_and(|first| *first == b'[') {
        return Err(bad("the body must be a JSON object, not an array"));
    }
    crate::strict_json::read(bytes)
        .map_err(|error| bad(&format!("the body is not what is expected here: {error}")))
}

fn bad(detail: &str) -> ProblemResponse {
    Problem::bad_request(detail).code("GS0608").hint("GET /v1/openapi.json says what is expected").into()
}

/// The part of the address after the question mark.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let query = axum::extract::Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|error| bad(&format!("the query is not what is expected here: {}", error.body_text())))
    }
}

/// The names in the address.
#[derive(Debug)]
pub(crate) struct PathParam<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParam<T> {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let named = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        named.map(|axum::extract::Path(named)| Self(named)).map_err(|error| bad(&error.body_text()))
    }
}

/// Where a request may look, and who makes it.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// The namespace.
    pub(crate) namespace: Arc<Namespace>,
    /// Who.
    pub(crate) principal: Arc<Principal>,
}

impl<S: Send + Sync> FromRequestParts<S> for Access {
    type Rejection = ProblemResponse;

    /// Fails closed: a request that nobody vouched for sees nothing.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| crate::auth::unauthenticated().into())
    }
}

/// Who changes something, with the idempotency key.
#[derive(Debug)]
pub(crate) struct CallerInfo(pub(crate) Caller);

impl<S: Send + Sync> FromRequestParts<S> for CallerInfo {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ProblemResponse> {
        let Access { principal, .. } = Access::from_request_parts(parts, state).await?;
        let key = text(&parts.headers, "idempotency-key", KEY_BYTES_MAX)?;
        // Names of keys are for people, and two keys may have the same one.
        let own = |key: String| match &principal.key {
            Some(id) => format!("{id} {key}"),
            None => key,
        };
        let (who, credential) = (Some(principal.name.clone()), principal.key.clone());
        Ok(Self(Caller { who, key: key.map(own), credential }))
    }
}

/// A header as text, if it is there.
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
            "the header {name} must be 1 to {bytes_max} printable ASCII characters"
        ))
        .code("GS0608")
        .limit(bytes_max as u64)
        .into()),
    }
}
