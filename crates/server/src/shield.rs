//! What is checked before anybody is asked who they are: the host, the origin, the size and the pace of a request.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use goldseam_api::Problem;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::app::App;
use crate::reply::Refused;

/// On every answer: nothing is guessed, framed, kept or run.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// On streams: a proxy that keeps events back until there are many of them makes a stream of none.
const UNBUFFERED: (header::HeaderName, &str) = (header::HeaderName::from_static("x-accel-buffering"), "no");

fn is_stream(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// Outermost: whatever happens inside, an answer goes out, with its headers.
pub(crate) async fn outermost(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let checked = host(&app, &request).and_then(|()| origin(&app, &request));
    let mut response = match checked {
        Err(problem) => Refused(problem).into_response(),
        Ok(()) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(_) => {
                tracing::error!(%method, path, "a handler panicked");
                Refused(Problem::new(500, "this request met a mistake of the server's own")).into_response()
            }
        },
    };
    if is_stream(&response) {
        response.headers_mut().insert(UNBUFFERED.0, HeaderValue::from_static(UNBUFFERED.1));
    }
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// A page that somebody's browser shows must not reach a server on the same machine under a name of its own.
fn host(app: &App, request: &Request) -> Result<(), Problem> {
    let hosts = &app.config.hosts;
    let named = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let named = named.or_else(|| request.uri().host()).map(without_port).unwrap_or_default();
    let is_own = || named == "localhost" || named.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let is_known = match (hosts.is_empty(), app.is_loopback) {
        (true, true) => is_own(),
        (true, false) => true,
        (false, _) => {
            hosts.iter().any(|host| host.eq_ignore_ascii_case(named)) || (app.is_loopback && is_own())
        }
    };
    match is_known {
        true => Ok(()),
        false => Err(Problem::new(421, "this server does not answer under that name")
            .code("GS0606")
            .hint("list the name under `hosts` in the server's configuration")),
    }
}

fn without_port(host: &str) -> &str {
    let end = host.rfind(']').map_or(0, |bracket| bracket + 1);
    let name = host[end..].find(':').map_or(host, |colon| &host[..end + colon]);
    name.trim_start_matches('[').trim_end_matches(']')
}

/// A change must not come from a page of somebody else. A program sends no origin.
fn origin(app: &App, request: &Request) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let own = |headers: &HeaderMap| {
        let host = headers.get(header::HOST)?.to_str().ok()?.to_owned();
        let scheme = if app.config.tls.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{host}"))
    };
    let is_own = origin.to_str().ok().is_some_and(|origin| {
        own(request.headers()).is_some_and(|own| own.eq_ignore_ascii_case(origin))
            || app.config.origins.iter().any(|known| known == origin)
    });
    match is_own {
        true => Ok(()),
        false => Err(Problem::new(403, "a page of another origin may change nothing here")
            .code("GS0606")
            .hint("list the origin under `origins` in the server's configuration, if it is yours")),
    }
}

/// Takes the whole body in: no larger than the limit, no slower than patience.
pub(crate) async fn body(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    match taken_in(&app, request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => Refused(problem).into_response(),
    }
}

async fn taken_in(app: &App, request: Request) -> Result<Request, Problem> {
    let max = app.config.body_bytes_max;
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(415, "bodies must not be compressed").code("GS0609"));
    }
    let length =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: u64| length > max) {
        return Err(too_large(max));
    }
    let limited = Limited::new(body, usize::try_from(max).unwrap_or(usize::MAX)).collect();
    let collected = match tokio::time::timeout(app.config.body_patience, limited).await {
        Ok(collected) => collected,
        Err(_) => return Err(Problem::new(408, "the body came too slowly").code("GS0605")),
    };
    match collected {
        Ok(body) => Ok(Request::from_parts(parts, Body::from(body.to_bytes()))),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(max)),
        Err(error) => Err(Problem::bad_request(format!("the body could not be read: {error}"))),
    }
}

fn too_large(max: u64) -> Problem {
    Problem::new(413, format!("the body is larger than the limit of {max} bytes"))
        .code("GS0605")
        .hint("keep what is large elsewhere, and pass a reference")
        .limit(max)
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn a_port_is_no_part_of_a_name() {
        for (host, name) in [
            ("a.b:80", "a.b"),
            ("a.b", "a.b"),
            ("[::1]:80", "::1"),
            ("[::1]", "::1"),
            ("127.0.0.1:1", "127.0.0.1"),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }
}
