//! Requests and responses as plain data.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use goldseam_api::Problem;
use goldseam_server::InProcess;

/// A request.
#[derive(Debug, Clone, Default)]
pub struct ApiCall {
    /// `GET`, `POST` or `DELETE`.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names and values. A JSON body needs no `content-type`.
    pub headers: Vec<(String, String)>,
    /// The body, if any.
    pub body: Option<Bytes>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiReply {
    /// The HTTP status.
    pub status: u16,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl ApiCall {
    /// Creates a request without a body.
    pub fn get(path: &str) -> Self {
        Self { method: "GET".to_owned(), path: path.to_owned(), ..Self::default() }
    }

    /// Creates a request with a JSON body.
    pub fn post(path: &str, body: impl Into<Bytes>) -> Self {
        Self {
            method: "POST".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Some(body.into()),
        }
    }

    /// Adds a header, unless its value is empty.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    fn build(self) -> Result<Request<Body>, Problem> {
        let malformed =
            |what: &str| Problem::bad_request(format!("malformed {what} of a request")).code("GS0608");
        let mut request = Request::new(self.body.clone().map_or_else(Body::empty, Body::from));
        *request.method_mut() =
            Method::from_bytes(self.method.as_bytes()).map_err(|_| malformed("method"))?;
        *request.uri_mut() = self.path.parse().map_err(|_| malformed("path"))?;
        let headers = request.headers_mut();
        if self.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        for (name, value) in self.headers {
            let name = HeaderName::try_from(name).map_err(|_| malformed("header"))?;
            headers.insert(name, HeaderValue::try_from(value).map_err(|_| malformed("header"))?);
        }
        Ok(request)
    }

    /// Sends the request and returns the response before its body is read.
    pub(crate) async fn open(self, server: &InProcess) -> Result<Response, Problem> {
        Ok(server.call(self.build()?).await)
    }

    /// Sends the request and reads the response.
    pub(crate) async fn answer(self, server: &InProcess) -> ApiReply {
        match self.open(server).await {
            Ok(response) => ApiReply::read(response).await,
            Err(problem) => ApiReply::of(&problem),
        }
    }
}

impl ApiReply {
    pub(crate) async fn read(response: Response) -> Self {
        let (parts, body) = response.into_parts();
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            value.to_str().ok().map(|value| (name.as_str().to_owned(), value.to_owned()))
        };
        let headers = parts.headers.iter().filter_map(text).collect();
        // Handlers build bodies in memory, so their size is bounded already.
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
        Self { status: parts.status.as_u16(), headers, body }
    }

    /// A problem as a response.
    pub(crate) fn of(problem: &Problem) -> Self {
        let body = serde_json::to_vec(problem).unwrap_or_default();
        let kind = ("content-type".to_owned(), "application/problem+json".to_owned());
        Self { status: problem.status, headers: vec![kind], body: body.into() }
    }
}

/// Returns the problem of a response that is not a success.
pub(crate) async fn problem_of(response: Response) -> Problem {
    let reply = ApiReply::read(response).await;
    let unreadable = || Problem::new(reply.status, String::from_utf8_lossy(&reply.body).into_owned());
    serde_json::from_slice(&reply.body).unwrap_or_else(|_| unreadable())
}

/// An empty response, for a stream that has nothing to send.
pub(crate) fn is_empty(response: &Response) -> bool {
    response.status() == StatusCode::NO_CONTENT
}
