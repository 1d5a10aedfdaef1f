//! The files of the dashboard, which are part of the binary. They are public and contain no data: the page reads
//! everything through the routes, with the key of its user.

mod files;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use goldseam_api::Problem;

use crate::reply::ProblemResponse;
use crate::route_table::ROUTES;

/// A built file.
#[derive(Debug)]
pub(crate) struct DashboardFile {
    /// The path of its address.
    path: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    /// The same content, compressed; none if that is not smaller.
    gzip: Option<&'static [u8]>,
    /// Whether the name contains a hash of the content, so that caches may keep the file.
    is_hashed: bool,
}

/// The policy of the page: scripts, styles and data of this server only. No inline script, no `eval`, no frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'";
/// Lifetime of files with a hash in their name.
const ONE_YEAR: &str = "public, max-age=31536000, immutable";
/// The folder of the files with a hash in their name.
const ASSETS: &str = "assets";
/// Sections of the dashboard: each address below one of them is a page.
const SECTIONS: [&str; 12] = [
    "api",
    "failures",
    "health",
    "inbox",
    "locks",
    "nodes",
    "operations",
    "pass",
    "queues",
    "recoveries",
    "runs",
    "start",
];

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// All routes and the dashboard.
    Main,
    /// Probes and metrics.
    Health,
}

/// Answers requests for files and pages of the dashboard. They need no key.
pub(crate) async fn files(State(listener): State<Listener>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    if !is_read || listener != Listener::Main {
        return next.run(request).await;
    }
    let path = request.uri().path();
    match find(path).or_else(|| page(path, request.headers())) {
        Some(file) => respond(file, request.headers()),
        None if section(path) == ASSETS => ProblemResponse(
            Problem::not_found("the dashboard has no such file")
                .hint("reload the page: the server may have changed its release"),
        )
        .into_response(),
        None => next.run(request).await,
    }
}

fn find(path: &str) -> Option<&'static DashboardFile> {
    files::FILES.iter().find(|file| file.path == path)
}

/// Returns the page for the address of one of its parts, as in `/runs/order-17`. An unknown address without a route gets
/// the page from browsers only, which ask for HTML: the page then says that there is no such part.
fn page(path: &str, headers: &HeaderMap) -> Option<&'static DashboardFile> {
    let first = section(path);
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
    let is_taken = || first == ASSETS || ROUTES.iter().any(|route| section(route.path) == first);
    let is_page = SECTIONS.contains(&first) || (!is_file && accepts_html(headers) && !is_taken());
    find("/").filter(|_| is_page)
}

/// Returns the first part of a path.
fn section(path: &str) -> &str {
    path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

fn respond(file: &'static DashboardFile, headers: &HeaderMap) -> Response {
    let gzip = file.gzip.filter(|_| accepts_gzip(headers));
    let body = Body::from(Bytes::from_static(gzip.unwrap_or(file.plain)));
    let mut response = ([(header::CONTENT_TYPE, file.content_type)], body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::VARY, HeaderValue::from_static("accept, accept-encoding"));
    if gzip.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if file.is_hashed {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(ONE_YEAR));
    }
    response
}

/// Returns whether a client asks for HTML by name, as browsers do when they open an address.
fn accepts_html(headers: &HeaderMap) -> bool {
    weight(headers, &header::ACCEPT, "text/html").is_some_and(|weight| weight > 0.0)
}

/// Returns whether a client accepts gzip: it names gzip, or else everything, without the weight zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let weight = |name| weight(headers, &header::ACCEPT_ENCODING, name);
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

/// Returns the weight of a name in the lists of a header; none if no list has it.
fn weight(headers: &HeaderMap, header: &header::HeaderName, name: &str) -> Option<f32> {
    let values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).find_map(|item| {
        let mut parts = item.split(';').map(str::trim);
        let is_it = parts.next().is_some_and(|found| found.eq_ignore_ascii_case(name));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok());
        is_it.then(|| weight.unwrap_or(1.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn sends_gzip_only_to_clients_that_accept_it() {
        let accepts = |text: &'static str| accepts_gzip(&headers(header::ACCEPT_ENCODING, text));
        for text in ["gzip, deflate, br", "br;q=1.0, GZIP;q=0.8", "*", "identity;q=0, *;q=0.1"] {
            assert!(accepts(text), "{text}");
        }
        for text in ["identity", "gzip;q=0", "br, gzip; q=0.000", "", "gzip;q=0, *", "x-gzip"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn only_browsers_get_the_page_for_unknown_addresses() {
        let html = headers(header::ACCEPT, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
        let any = headers(header::ACCEPT, "*/*");
        for path in ["/runs", "/runs/order-17", "/runs/a.b%2Fc", "/inbox/", "/api"] {
            assert!(page(path, &html).is_some() && page(path, &any).is_some(), "{path}");
        }
        for path in ["/nowhere", "/nowhere/at/all"] {
            assert!(page(path, &html).is_some() && page(path, &any).is_none(), "{path}");
        }
        for path in ["/v1", "/v1/runs", "/v1/nowhere", "/assets", "/assets/x.js", "/healthz", "/robots.txt"] {
            assert!(page(path, &html).is_none() && page(path, &any).is_none(), "{path}");
        }
    }

    #[test]
    fn no_section_hides_a_route() {
        for route in ROUTES {
            assert!(!SECTIONS.contains(&section(route.path)) && find(route.path).is_none(), "{}", route.path);
        }
    }

    #[test]
    fn page_is_embedded_and_names_only_embedded_files() {
        let page = find("/").unwrap();
        assert!(!page.is_hashed);
        let text = std::str::from_utf8(page.plain).unwrap();
        let named: Vec<&str> = text.split('"').filter(|word| word.starts_with("/assets/")).collect();
        assert!(named.len() >= 2, "{text}");
        for path in named {
            assert!(find(path).is_some_and(|file| file.is_hashed), "{path}");
        }
        assert!(!text.contains("<style") && !text.contains("onload"), "{text}");
    }
}
