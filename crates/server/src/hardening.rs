//! What is checked before anybody is asked who they are: the host, the origin, the size and the pace of a request.

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

use crate::address_slots::Connection;
use crate::app::App;
use crate::auth::{Need, Peer, PresentedPass};
use crate::body_memory::BodyShare;
use crate::connection::ResponseBody;
use crate::extract::Access;
use crate::reply::ProblemResponse;

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
    let checked =
        host(&app, &request).and_then(|()| origin(&app, &request)).and_then(|()| place(&app, &request));
    let mut response = match checked {
        Err(problem) => ProblemResponse(problem).into_response(),
        Ok(place) => match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response.map(|body| match place {
                Some(place) => Body::new(ResponseBody::new(body, place)),
                None => body,
            }),
            Err(_) => {
                tracing::error!(%method, path, "a handler panicked");
                ProblemResponse(Problem::new(500, "this request met a mistake of the server's own"))
                    .into_response()
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

/// A place of the client behind a trusted proxy, for as long as it is answered: it may have as many requests as it could
/// have connections.
fn place(app: &App, request: &Request) -> Result<Option<Connection>, Problem> {
    match request.extensions().get::<Peer>().filter(|peer| peer.is_behind_proxy) {
        Some(peer) => app.clients.take(peer.client).map(Some),
        None => Ok(None),
    }
}

/// A page that somebody's browser shows must not reach a server on the same machine under a name of its own.
fn host(app: &App, request: &Request) -> Result<(), Problem> {
    let hosts = &app.config.hosts;
    let is_loopback = request.extensions().get::<Peer>().map_or(app.is_loopback, |peer| peer.is_loopback);
    let named = host_name(request)?;
    let is_own = || {
        named.eq_ignore_ascii_case("localhost") || named.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    let is_known = match (hosts.is_empty(), is_loopback) {
        (true, true) => is_own(),
        (true, false) => true,
        (false, _) => hosts.iter().any(|host| host.eq_ignore_ascii_case(named)) || (is_loopback && is_own()),
    };
    match is_known {
        true => Ok(()),
        false => Err(Problem::new(421, "this server does not answer under that name")
            .code("GS0606")
            .hint("list the name under `hosts` in the server's configuration")),
    }
}

/// The one name that a request is for, without its port. A proxy may take one of several names, and this server
/// another: that is refused (RFC 9112).
fn host_name(request: &Request) -> Result<&str, Problem> {
    let bad = |detail: &str| {
        Problem::bad_request(detail).code("GS0606").hint("send one header `host: NAME` or `host: NAME:PORT`")
    };
    let mut lines = request.headers().get_all(header::HOST).iter();
    let (line, target) = (lines.next(), request.uri().authority().map(Authority::as_str));
    if lines.next().is_some() {
        return Err(bad("this request has more than one `host` header"));
    }
    let line =
        line.map(|line| line.to_str()).transpose().map_err(|_| bad("the `host` header is not a name"))?;
    if let (Some(line), Some(target)) = (line, target)
        && !line.eq_ignore_ascii_case(target)
    {
        return Err(bad("the `host` header and the target of this request name different hosts"));
    }
    let Some(host) = line.or(target) else { return Ok("") };
    without_port(host).ok_or_else(|| bad("the `host` header is not a name"))
}

/// The name without its port, brackets and final dot; none if it is followed by anything but a port.
fn without_port(host: &str) -> Option<&str> {
    let (name, rest) = match host.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()));
    (rest.is_empty() || is_port(rest)).then_some(name.strip_suffix('.').unwrap_or(name))
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

/// Takes the whole body in, once its sender is known to be allowed to send it: no larger than the limit, no slower than
/// patience, and together with all other bodies in no more memory than there is for them.
pub(crate) async fn body(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let by = request.extensions().get::<Access>().map(|by| by.principal.key.clone().unwrap_or_default());
    let takes_none = matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE);
    let Some(by) = by.filter(|_| !takes_none) else {
        return match has_body(&request) {
            true => ProblemResponse(unwanted()).into_response(),
            false => next.run(request).await,
        };
    };
    let mut share = app.bodies.share(by);
    match taken_in(&app, request, &mut share).await {
        Ok(request) => next.run(request).await,
        Err(problem) => ProblemResponse(problem).into_response(),
    }
}

fn has_body(request: &Request) -> bool {
    !request.body().is_end_stream()
}

/// What comes with a request that takes no body is not read.
fn unwanted() -> Problem {
    Problem::bad_request("this request takes no body").code("GS0608").hint("send it without a body")
}

async fn taken_in(app: &App, request: Request, share: &mut BodyShare) -> Result<Request, Problem> {
    let max = body_bytes_max(app, &request);
    let (parts, body) = request.into_parts();
    if parts.headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(415, "bodies must not be compressed").code("GS0609"));
    }
    if body.size_hint().lower() > max {
        return Err(too_large(max));
    }
    match tokio::time::timeout(app.config.body_patience, read(body, max, share)).await {
        Ok(read) => Ok(Request::from_parts(parts, Body::from(read?.freeze()))),
        Err(_) => Err(Problem::new(408, "the body came too slowly").code("GS0605")),
    }
}

/// How large a body may be. The body of a callback is a payload, and its sender has shown nothing but an address so far.
fn body_bytes_max(app: &App, request: &Request) -> u64 {
    let max = app.config.body_bytes_max;
    match request.extensions().get::<PresentedPass>().map(PresentedPass::need) {
        Some(Need::Signature) => max.min(app.config.payload_bytes_max as u64),
        _ => max,
    }
}

/// Counts what comes, not what was announced: a sender that only announces takes nothing from others.
async fn read(body: Body, max: u64, share: &mut BodyShare) -> Result<BytesMut, Problem> {
    // Allocated once: growing would leave holes of every size behind. Pages that are not written take no memory.
    let announced = usize::try_from(body.size_hint().exact().unwrap_or(0).min(max)).unwrap_or(0);
    let (mut pieces, mut taken) = (body.into_data_stream(), BytesMut::with_capacity(announced));
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|error| Problem::bad_request(format!("the body could not be read: {error}")))?;
        if (taken.len() + piece.len()) as u64 > max {
            return Err(too_large(max));
        }
        share.grow(piece.len() as u64)?;
        taken.extend_from_slice(&piece);
    }
    Ok(taken)
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
