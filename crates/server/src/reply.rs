//! Responses: JSON documents, and problems as `application/problem+json`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use goldseam_api::Problem;
use serde::Serialize;

/// A problem as a response.
#[derive(Debug)]
pub(crate) struct ProblemResponse(pub(crate) Problem);

impl<E: Into<Problem>> From<E> for ProblemResponse {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_server_error() {
            tracing::warn!(code = problem.code, detail = problem.detail, "request failed");
        }
        let mut response = document(status, "application/problem+json", &problem);
        if let Some(seconds) = retry_after(status) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Returns the `retry-after` header of a status, in seconds.
fn retry_after(status: StatusCode) -> Option<&'static str> {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE).then_some("1")
}

/// A JSON document as a response.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        document(StatusCode::OK, "application/json", &self.0)
    }
}

/// The result of a handler.
pub(crate) type JsonResult<T> = Result<Json<T>, ProblemResponse>;

fn document<T: Serialize>(status: StatusCode, kind: &'static str, document: &T) -> Response {
    match serde_json::to_vec(document) {
        Ok(body) => (status, [(header::CONTENT_TYPE, kind)], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
