//! Answers without secrets: what people look at, and every problem.
//!
//! Invariant: what a program needs as data goes out as it is. A view is listed here by its route; results, questions, tasks,
//! claims, histories for workers, and everything of a pass are no views.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;

/// Routes whose documents are for people.
const VIEWS: &[&str] = &[
    "/v1/runs",
    "/v1/runs/{run}",
    "/v1/runs/{run}/history",
    "/v1/runs/{run}/why",
    "/v1/runs/{run}/branches",
    "/v1/runs/{run}/diff",
    "/v1/runs/{run}/recover",
    "/v1/runs/{run}/resume",
    "/v1/recoveries",
    "/v1/sweep",
    "/v1/doctor",
];

/// Takes the secrets out of an answer, if it is for people. Streams are filtered event by event, where they are made.
pub(crate) async fn answers(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    match is_for_people(&response) {
        true => hidden(&app, response).await,
        false => response,
    }
}

fn is_for_people(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let route = response.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    match kind {
        Some("application/problem+json") => true,
        Some("application/json") => route.is_some_and(|route| VIEWS.contains(&route)),
        _ => false,
    }
}

async fn hidden(app: &App, response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    // The body was made in memory: it is there in one piece, and has the size that it has.
    let Ok(bytes) = axum::body::to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let shown = match std::str::from_utf8(&bytes).map(|text| app.redactor.json(text)) {
        Ok(Cow::Owned(shown)) => shown,
        _ => return Response::from_parts(parts, Body::from(bytes)),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(shown))
}
