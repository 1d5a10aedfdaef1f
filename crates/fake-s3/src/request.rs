//! Parsed requests.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderMap, IF_MATCH, IF_NONE_MATCH, RANGE};
use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;

use crate::fault::ErrorReply;

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestKind {
    /// Reads an object.
    Get,
    /// Reads the metadata of an object.
    Head,
    /// Writes an object.
    Put,
    /// Removes an object.
    Delete,
    /// Removes many objects.
    DeleteMany,
    /// Lists keys by a prefix.
    List,
}

impl RequestKind {
    /// Whether it changes an object.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Put | Self::Delete | Self::DeleteMany)
    }
}

/// The condition of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precondition {
    /// The object does not exist (`If-None-Match: *`).
    Absent,
    /// The object has this ETag (`If-Match`).
    Is(String),
    /// The object has another ETag (`If-None-Match`).
    IsNot(String),
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct S3Request {
    /// Its number, from 1.
    pub number: u64,
    /// Its kind.
    pub op: RequestKind,
    /// The key without its bucket; the prefix of a list; empty for a deletion of many objects.
    pub key: String,
    /// The access key id of the signature; empty without one.
    pub by: String,
    /// Its condition.
    pub condition: Option<Precondition>,
    /// The content to write.
    pub body: Bytes,
    pub(crate) bucket: String,
    pub(crate) range: Option<ByteRange>,
    pub(crate) page: PageQuery,
}

/// The requested bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteRange {
    /// From the first number to before the second.
    Between(usize, usize),
    From(usize),
    Last(usize),
}

/// The requested page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PageQuery {
    pub(crate) delimiter: Option<String>,
    pub(crate) start_after: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) keys_max: Option<usize>,
}

impl S3Request {
    /// Reads a request, or refuses one that this server does not support.
    pub(crate) async fn read(request: hyper::Request<Incoming>) -> Result<Self, ErrorReply> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| ErrorReply::new(400, "IncompleteBody"))?.to_bytes();
        Self::parse(&parts.method, &parts.uri, &parts.headers, body)
    }

    fn parse(method: &Method, uri: &Uri, headers: &HeaderMap, body: Bytes) -> Result<Self, ErrorReply> {
        let (bucket, key) = match uri.path().trim_start_matches('/').split_once('/') {
            Some((bucket, key)) => (decoded(bucket), decoded(key)),
            None => (decoded(uri.path().trim_start_matches('/')), String::new()),
        };
        let query = UriQuery::of(uri);
        let op = match *method {
            Method::GET if key.is_empty() && query.get("list-type").as_deref() == Some("2") => {
                RequestKind::List
            }
            Method::POST if key.is_empty() && query.get("delete").is_some() => RequestKind::DeleteMany,
            // Multipart uploads, tags and versions have query parameters; copies have a header.
            _ if key.is_empty() || !query.is_plain() || headers.contains_key("x-amz-copy-source") => {
                return Err(ErrorReply::new(501, "NotImplemented"));
            }
            Method::GET => RequestKind::Get,
            Method::HEAD => RequestKind::Head,
            Method::PUT => RequestKind::Put,
            Method::DELETE => RequestKind::Delete,
            _ => return Err(ErrorReply::new(405, "MethodNotAllowed")),
        };
        let condition = condition(op, headers)?;
        let page = PageQuery {
            delimiter: query.get("delimiter"),
            start_after: query.get("start-after"),
            token: query.get("continuation-token"),
            keys_max: query.get("max-keys").and_then(|max| max.parse().ok()),
        };
        let key = if op == RequestKind::List { query.get("prefix").unwrap_or_default() } else { key };
        let range = headers.get(RANGE).and_then(|range| ByteRange::parse(range.to_str().ok()?));
        let by = signer(headers);
        Ok(Self { number: 0, op, key, by, condition, body, bucket, range, page })
    }

    /// The keys of a deletion of many objects.
    pub(crate) fn keys(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.body);
        let ends = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        ends.map(|(key, _)| unescaped(key)).collect()
    }
}

/// The access key id of the signature.
fn signer(headers: &HeaderMap) -> String {
    let signature = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let id = signature.split_once("Credential=").and_then(|(_, rest)| rest.split_once('/'));
    id.map(|(id, _)| id.to_owned()).unwrap_or_default()
}

fn condition(op: RequestKind, headers: &HeaderMap) -> Result<Option<Precondition>, ErrorReply> {
    let header = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let etag = |value: &str| value.trim_matches('"').to_owned();
    match (header(IF_MATCH), header(IF_NONE_MATCH)) {
        (None, None) => Ok(None),
        (None, Some(any)) if any == "*" => Ok(Some(Precondition::Absent)),
        // The only such condition of a write is "does not exist".
        (None, Some(other)) if !op.is_write() => Ok(Some(Precondition::IsNot(etag(&other)))),
        (Some(one), None) => Ok(Some(Precondition::Is(etag(&one)))),
        _ => Err(ErrorReply::new(501, "NotImplemented")),
    }
}

impl ByteRange {
    fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
        match (from.parse::<usize>().ok(), to.parse::<usize>().ok()) {
            (Some(from), Some(to)) => Some(Self::Between(from, to + 1)),
            (Some(from), None) => Some(Self::From(from)),
            (None, Some(count)) => Some(Self::Last(count)),
            (None, None) => None,
        }
    }

    /// The bytes of an object of this length; none if the range is empty.
    pub(crate) fn within(self, length: usize) -> Option<std::ops::Range<usize>> {
        let range = match self {
            Self::Between(from, to) => from..to.min(length),
            Self::From(from) => from..length,
            Self::Last(count) => length.saturating_sub(count)..length,
        };
        (range.start < range.end).then_some(range)
    }
}

/// The query of a URI.
struct UriQuery(Vec<(String, String)>);

impl UriQuery {
    fn of(uri: &Uri) -> Self {
        let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(&value.replace('+', " ")))
        };
        Self(pairs.map(pair).collect())
    }

    fn get(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone())
    }

    fn is_plain(&self) -> bool {
        self.0.is_empty()
    }
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

fn unescaped(text: &str) -> String {
    let pairs = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}
