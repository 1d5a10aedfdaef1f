//! Checks before authentication (host, origin, client limits, panics), and the size and speed of request bodies.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::BytesMut;
use futures_util::{FutureExt, StreamExt as _};
use goldseam_api::Problem;
use hyper::body::Body as _;

use crate::address_slots::AddressSlot;
use crate::app::ServerState;
use crate::body_memory::BodyShare;
use crate::connection::ResponseBody;
use crate::extract::Access;
use crate::principal::{Peer, PresentedPass};
use crate::reply::ProblemResponse;
use crate::route_table::Need;

/// Headers of every response: no content sniffing, caching, framing or scripts.
pub(crate) const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
];

/// Header of streams: tells proxies not to buffer the events.
const UNBUFFERED: (header::HeaderName, &str) = (header::HeaderName::from_static("x-accel-buffering"), "no");

fn is_stream(response: &Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// The outermost check. Turns a panic into a response and adds the headers of every response.
pub(crate) async fn outermost(State(app): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let checked = check_host(&app, &request)
        .and_then(|()| check_origin(&app, &request))
        .and_then(|()| client_slot(&app, &request));
    let mut response = match checked {
        Err(problem) => ProblemResponse(problem).into_response(),
        Ok(slot) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response.map(|body| match slot {
                Some(slot) => Body::new(ResponseBody::new(body, slot)),
                None => body,
            }),
            Err(_) => {
                tracing::error!(%method, path, "request handler panicked");
                ProblemResponse(Problem::new(500, "internal server error")).into_response()
            }
        },
    };
    if is_stream(&response) {
        response.headers_mut().insert(UNBUFFERED.0, HeaderValue::from_static(UNBUFFERED.1));
        response.headers_mut().remove(header::CACHE_CONTROL);
    }
    for (name, value) in HEADERS {
        response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Takes a slot of the client behind a trusted proxy until the response is sent. Such a client may have as many
/// requests as another may have connections.
fn client_slot(app: &ServerState, request: &Request) -> Result<Option<AddressSlot>, Problem> {
    match request.extensions().get::<Peer>().filter(|peer| peer.is_behind_proxy) {
        Some(peer) => app.clients.take(peer.client).map(Some),
        None => Ok(None),
    }
}

/// Refuses unknown host names. Otherwise a web page could reach a local server through a host name that it controls
/// (DNS rebinding).
fn check_host(app: &ServerState, request: &Request) -> Result<(), Problem> {
    let hosts = &app.config.hosts;
    let is_loopback = request.extensions().get::<Peer>().map_or(app.is_loopback, |peer| peer.is_loopback);
    let host = host_name(request)?;
    let is_own =
        || host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let is_known = match (hosts.is_empty(), is_loopback) {
        (true, true) => is_own(),
        (true, false) => true,
        (false, _) => hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) || (is_loopback && is_own()),
    };
    match is_known {
        true => Ok(()),
        false => Err(Problem::new(421, "this server does not accept that host name")
            .code("GS0606")
            .hint("list the name under `hosts` in the server's configuration")),
    }
}

/// Returns the one host name of a request, without its port. Refuses several names, because a proxy may use another one
/// of them than this server (RFC 9112).
fn host_name(request: &Request) -> Result<&str, Problem> {
    let bad = |detail: &str| {
        Problem::bad_request(detail).code("GS0606").hint("send one header `host: NAME` or `host: NAME:PORT`")
    };
    let mut lines = request.headers().get_all(header::HOST).iter();
    let line = lines.next();
    let target = request.uri().authority().map(Authority::as_str);
    if lines.next().is_some() {
        return Err(bad("this request has more than one `host` header"));
    }
    let line = line.map(|line| line.to_str()).transpose().map_err(|_| bad("invalid `host` header"))?;
    if let (Some(line), Some(target)) = (line, target)
        && !line.eq_ignore_ascii_case(target)
    {
        return Err(bad("the `host` header and the target of this request name different hosts"));
    }
    let Some(host) = line.or(target) else { return Ok("") };
    without_port(host).ok_or_else(|| bad("invalid `host` header"))
}

/// Removes port, brackets and final dot. Returns `None` if anything but a port follows the name.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    (rest.is_empty() || is_port(rest)).then_some(name.strip_suffix('.').unwrap_or(name))
}

/// Refuses a change sent by a web page of another origin. Programs send no origin.
fn check_origin(app: &ServerState, request: &Request) -> Result<(), Problem> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let Some(origin) = request.headers().get(header::ORIGIN) else { return Ok(()) };
    let own = |headers: &HeaderMap| {
        let host = headers.get(header::HOST)?.to_str().ok()?.to_owned();
        let scheme = if app.config.tls.is_some() { "https" } else { "http" };
        Some(format!("{scheme}://{host}"))
    };
    let is_allowed = origin.to_str().ok().is_some_and(|origin| {
        own(request.headers()).is_some_and(|own| own.eq_ignore_ascii_case(origin))
            || app.config.origins.iter().any(|known| known == origin)
    });
    match is_allowed {
        true => Ok(()),
        false => Err(Problem::new(403, "a web page of another origin may not change anything")
            .code("GS0606")
            .hint("list the origin under `origins` in the server's configuration if it is yours")),
    }
}

/// Reads the whole body of an authorised request within the limits of size, time and memory.
pub(crate) async fn body(State(app): State<Arc<ServerState>>, request: Request, next: Next) -> Response {
    let access = request.extensions().get::<Access>();
    let key = access.map(|access| access.principal.key.clone().unwrap_or_default());
    let takes_none = matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE);
    let Some(key) = key.filter(|_| !takes_none) else {
        return match has_body(&request) {
            true => ProblemResponse(unexpected_body()).into_response(),
            false => next.run(request).await,
        };
    };
    let mut share = app.bodies.share(key);
    match with_body(&app, request, &mut share).await {
        Ok(request) => next.run(request).await,
        Err(problem) => {
            // The rest of the body is not read, so the client must not reuse the connection.
            let mut response = ProblemResponse(problem).into_response();
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            response
        }
    }
}

fn has_body(request: &Request) -> bool {
    !request.body().is_end_stream()
}

fn unexpected_body() -> Problem {
    Problem::bad_request("this request takes no body").code("GS0608").hint("send it without a body")
}

async fn with_body(app: &ServerState, request: Request, share: &mut BodyShare) -> Result<Request, Problem> {
    let max = body_bytes_max(app, &request);
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(415, "compressed bodies are not supported").code("GS0609"));
    }
    if body.size_hint().lower() > max {
        return Err(too_large(max));
    }
    match tokio::time::timeout(app.config.body_timeout, read(body, max, share)).await {
        Ok(read) => Ok(Request::from_parts(parts, Body::from(read?.freeze()))),
        Err(_) => Err(Problem::new(408, "timed out reading the body").code("GS0605")),
    }
}

/// Returns the size limit of a body. The body of a callback is a payload from a sender that is not authenticated yet.
fn body_bytes_max(app: &ServerState, request: &Request) -> u64 {
    let max = app.config.body_bytes_max;
    match request.extensions().get::<PresentedPass>().map(|pass| pass.proves) {
        Some(Need::Signature) => max.min(app.config.engine.limits.payload_bytes_max as u64),
        _ => max,
    }
}

/// Reads a body. Memory is counted as data arrives: a request that only announces a large body takes none from others.
async fn read(body: Body, max: u64, share: &mut BodyShare) -> Result<BytesMut, Problem> {
    // Allocated once, because growing fragments the heap. Unwritten pages take no memory.
    let announced = usize::try_from(body.size_hint().exact().unwrap_or(0).min(max)).unwrap_or(0);
    let mut pieces = body.into_data_stream();
    let mut bytes = BytesMut::with_capacity(announced);
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| Problem::bad_request(format!("cannot read the body: {error}")))?;
        if (bytes.len() + piece.len()) as u64 > max {
            return Err(too_large(max));
        }
        share.grow(piece.len() as u64)?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn too_large(max: u64) -> Problem {
    Problem::new(413, format!("the body is larger than the limit of {max} bytes"))
        .code("GS0605")
        .hint("store large data elsewhere and pass a reference")
        .limit(max)
}

#[cfg(test)]
mod tests {
    use super::without_port;

    #[test]
    fn removes_the_port_from_a_host() {
        for (host, name) in [
            ("a.b:80", Some("a.b")),
            ("a.b.", Some("a.b")),
            ("a.b.:80", Some("a.b")),
            ("[::1]:80", Some("::1")),
            ("[::1]", Some("::1")),
            ("127.0.0.1:1", Some("127.0.0.1")),
            ("127.0.0.1:80@evil.example", None),
            ("[::1]evil.example", None),
            ("[::1", None),
            ("::1", None),
        ] {
            assert_eq!(without_port(host), name, "{host}");
        }
    }
}
