//! Responses as HTTP and XML.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, DATE, ETAG, HeaderValue, LAST_MODIFIED};
use hyper::{Response, StatusCode};

use crate::clock::{http_date, iso_date};
use crate::fault::ErrorReply;
use crate::objects::{FakeObject, KeyPage};
use crate::request::{ByteRange, RequestKind, S3Request};

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum RequestOutcome {
    /// An object was written; this is its ETag.
    Written(String),
    /// An object, or its metadata.
    Read(FakeObject),
    /// An object was removed.
    Deleted,
    /// These objects were removed.
    DeletedMany(Vec<String>),
    /// None of these objects was removed, and each has this error.
    KeptMany(Vec<String>, ErrorReply),
    Listed(KeyPage),
    /// The object has the ETag that the client has.
    Unchanged,
    Refused(ErrorReply),
}

impl RequestOutcome {
    /// The response to the client.
    pub(crate) fn into_response(self, request: Option<&S3Request>, now: u64) -> Response<Full<Bytes>> {
        let mut response = match self {
            Self::Written(etag) => with_etag(empty(StatusCode::OK), &etag),
            Self::Read(object) => read(&object, request),
            Self::Deleted => empty(StatusCode::NO_CONTENT),
            Self::DeletedMany(keys) => xml(StatusCode::OK, &deleted(&keys, None)),
            Self::KeptMany(keys, refusal) => xml(StatusCode::OK, &deleted(&keys, Some(&refusal))),
            Self::Listed(listed) => xml(StatusCode::OK, &list(&listed, request)),
            Self::Unchanged => empty(StatusCode::NOT_MODIFIED),
            Self::Refused(refusal) => {
                let status =
                    StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let code = escaped(&refusal.code);
                xml(status, &format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"))
            }
        };
        put(&mut response, DATE, &http_date(now));
        response
    }
}

fn read(object: &FakeObject, request: Option<&S3Request>) -> Response<Full<Bytes>> {
    let length = object.bytes.len();
    let range = request.and_then(|request| request.range);
    let (status, bytes) = match range.map(|range: ByteRange| range.within(length)) {
        None => (StatusCode::OK, object.bytes.clone()),
        Some(Some(range)) => (StatusCode::PARTIAL_CONTENT, object.bytes.slice(range)),
        Some(None) => return refused_range(),
    };
    let mut response = with_etag(Response::new(Full::new(bytes.clone())), &object.etag);
    *response.status_mut() = status;
    if let Some(range) = range.and_then(|range| range.within(length)) {
        put(&mut response, CONTENT_RANGE, &format!("bytes {}-{}/{length}", range.start, range.end - 1));
    }
    put(&mut response, LAST_MODIFIED, &http_date(object.modified));
    put(&mut response, CONTENT_LENGTH, &bytes.len().to_string());
    if request.is_some_and(|request| request.op == RequestKind::Head) {
        *response.body_mut() = Full::default();
    }
    response
}

fn refused_range() -> Response<Full<Bytes>> {
    xml(
        StatusCode::RANGE_NOT_SATISFIABLE,
        "<Error><Code>InvalidRange</Code><Message>InvalidRange</Message></Error>",
    )
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn xml(status: StatusCode, body: &str) -> Response<Full<Bytes>> {
    let text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}");
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    put(&mut response, CONTENT_TYPE, "application/xml");
    response
}

fn with_etag(mut response: Response<Full<Bytes>>, etag: &str) -> Response<Full<Bytes>> {
    put(&mut response, ETAG, &format!("\"{etag}\""));
    response
}

fn put(response: &mut Response<Full<Bytes>>, name: hyper::header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn deleted(keys: &[String], refusal: Option<&ErrorReply>) -> String {
    let each = |key: &String| match refusal.map(|refusal| escaped(&refusal.code)) {
        None => format!("<Deleted><Key>{}</Key></Deleted>", escaped(key)),
        Some(code) => {
            format!("<Error><Key>{}</Key><Code>{code}</Code><Message>{code}</Message></Error>", escaped(key))
        }
    };
    format!("<DeleteResult>{}</DeleteResult>", keys.iter().map(each).collect::<String>())
}

fn list(listed: &KeyPage, request: Option<&S3Request>) -> String {
    let (bucket, prefix) = request.map(|request| (&*request.bucket, &*request.key)).unwrap_or_default();
    let count = listed.objects.len() + listed.prefixes.len();
    let mut text = format!(
        "<ListBucketResult><Name>{}</Name><Prefix>{}</Prefix><KeyCount>{count}</KeyCount><IsTruncated>{}</IsTruncated>",
        escaped(bucket),
        escaped(prefix),
        listed.next.is_some(),
    );
    if let Some(next) = &listed.next {
        text.push_str(&format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(next)));
    }
    for (key, object) in &listed.objects {
        text.push_str(&format!(
            "<Contents><Key>{}</Key><LastModified>{}</LastModified><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>",
            escaped(key),
            iso_date(object.modified),
            object.etag,
            object.bytes.len(),
        ));
    }
    for prefix in &listed.prefixes {
        text.push_str(&format!("<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>", escaped(prefix)));
    }
    text + "</ListBucketResult>"
}

fn escaped(text: &str) -> String {
    let pairs = [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\"", "&quot;"), ("'", "&apos;")];
    pairs.iter().fold(text.to_owned(), |text, (plain, escaped)| text.replace(plain, escaped))
}
