//! Redaction of JSON responses.
//!
//! Invariant: problems are always redacted, and so is every JSON document unless its route sends data for programs
//! (`Route::data`).

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, header};
use axum::middleware::Next;
use axum::response::Response;
use goldseam::Redactor;

use crate::route_table;

/// Removes secrets from JSON responses. Streams are redacted event by event where they are built.
pub(crate) async fn responses(
    State(redactor): State<Arc<Redactor>>,
    request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let response = next.run(request).await;
    match is_redacted(&method, &response) {
        true => redact(&redactor, response).await,
        false => response,
    }
}

fn is_redacted(method: &Method, response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let path = response.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    match kind {
        Some("application/problem+json") => true,
        Some("application/json") => route_table::find(method, path).is_none_or(|route| route.redacts),
        _ => false,
    }
}

async fn redact(redactor: &Redactor, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    // The body was built in memory, so its size is bounded already.
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let redacted = match std::str::from_utf8(&bytes).map(|text| redactor.json(text)) {
        Ok(Cow::Owned(redacted)) => redacted,
        _ => return Response::from_parts(parts, Body::from(bytes)),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(redacted))
}
