//! The files of the dashboard, which are part of the binary. They are public and contain no data: the page reads
//! everything through the routes, with the key of its user.

mod files;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

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

/// What a listener serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// All routes and the dashboard.
    Main,
    /// Probes and metrics.
    Health,
}

/// Answers requests for files of the dashboard. They need no key.
pub(crate) async fn files(State(listener): State<Listener>, request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match find(request.uri().path()).filter(|_| is_read && listener == Listener::Main) {
        Some(file) => respond(file, request.headers()),
        None => next.run(request).await,
    }
}

fn find(path: &str) -> Option<&'static DashboardFile> {
    files::FILES.iter().find(|file| file.path == path)
}

fn respond(file: &'static DashboardFile, headers: &HeaderMap) -> Response {
    let gzip = file.gzip.filter(|_| accepts_gzip(headers));
    let body = Body::from(Bytes::from_static(gzip.unwrap_or(file.plain)));
    let mut response = ([(header::CONTENT_TYPE, file.content_type)], body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if gzip.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if file.is_hashed {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(ONE_YEAR));
    }
    response
}

/// Returns whether a client names gzip, or everything, without the weight zero.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip") || name == "*");
        let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse::<f32>().ok());
        is_gzip && weight.is_none_or(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_gzip_only_to_clients_that_accept_it() {
        let accepts = |text: &'static str| {
            accepts_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(text))]))
        };
        assert!(accepts("gzip, deflate, br") && accepts("br;q=1.0, GZIP;q=0.8") && accepts("*"));
        assert!(
            !accepts("identity") && !accepts("gzip;q=0") && !accepts("br, gzip; q=0.000") && !accepts("")
        );
        assert!(!accepts_gzip(&HeaderMap::new()));
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
