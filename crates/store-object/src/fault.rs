//! Maps responses of a server to errors, named by what the caller must do next. Decided by status and code, never by
//! message.
//!
//! Invariant: a request counts as not done only if it was never sent or the server says so.

use std::error::Error as StdError;
use std::fmt;

use goldseam_store::StoreError;
use goldseam_store::error::BoxError;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

/// Most characters of a message of a server that are repeated.
const MESSAGE_MAX: usize = 300;

/// What an error means for its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestVerdict {
    /// The condition of a put did not hold, or the server says so.
    Condition,
    /// The object does not exist.
    Absent,
    /// The request may be sent again.
    Failed {
        /// Whether it was done; none if that is unknown.
        done: Option<bool>,
    },
    /// The same request would be refused again.
    Refused,
}

/// The kind of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FailureKind {
    /// The condition of a put did not hold, or another request for the key is under way.
    Condition,
    /// The object does not exist.
    Absent,
    /// The server is overloaded, and did nothing.
    Throttled,
    /// The request was not sent, or not completely.
    Unsent,
    /// The request was sent, but no response says whether it was done.
    Lost,
    /// The storage is full.
    Full,
    /// There are no access keys: their provider does not give any.
    NoKeys,
    /// The access keys are wrong or expired.
    Keys,
    /// The bucket does not exist.
    NoBucket,
    /// The access keys lack a permission.
    Rights,
    /// The server does not support the request.
    Unable,
    /// This machine's clock is too far off for signatures.
    Skewed,
    /// The bucket is elsewhere, in this region if it is known.
    Elsewhere(Option<String>),
    /// The prefix holds a key that is not ours.
    Foreign,
    /// Any other failure.
    Odd,
}

/// Why a request failed: its kind and a message.
#[derive(Debug, Clone)]
pub(crate) struct RequestFailure {
    kind: FailureKind,
    message: String,
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for RequestFailure {}

/// A response that is not a success.
#[derive(Debug, Clone)]
pub(crate) struct ErrorResponse {
    pub(crate) status: u16,
    /// The error code of S3; empty if the response is not from S3.
    pub(crate) code: String,
    pub(crate) message: String,
    /// The region of the bucket, if the response names it.
    pub(crate) region: Option<String>,
}

impl ErrorResponse {
    /// Parses the body of a response, which is XML if it is from S3. Drops other elements, which may hold keys.
    pub(crate) fn new(status: u16, region: Option<String>, body: &str) -> Self {
        let s3 = body.contains("<Error>") || body.contains("<Error ");
        let part = |tag: &str| element(body, tag).filter(|_| s3).unwrap_or_default();
        let region = region.or_else(|| Some(part("Region")).filter(|region| !region.is_empty()));
        let message = if s3 { part("Message") } else { shortened(body) };
        Self { status, code: part("Code"), message, region }
    }

    fn kind(&self) -> FailureKind {
        if let Some(kind) = self.kind_of_code() {
            return kind;
        }
        match self.status {
            304 | 409 | 412 => FailureKind::Condition,
            307 | 408 => FailureKind::Unsent,
            300..=399 => FailureKind::Elsewhere(self.region.clone()),
            401 => FailureKind::Keys,
            403 => FailureKind::Rights,
            404 => FailureKind::Absent,
            405 | 501 => FailureKind::Unable,
            429 => FailureKind::Throttled,
            507 => FailureKind::Full,
            500..=599 => FailureKind::Lost,
            _ => FailureKind::Odd,
        }
    }

    fn kind_of_code(&self) -> Option<FailureKind> {
        Some(match self.code.as_str() {
            "SlowDown"
            | "SlowDownRead"
            | "SlowDownWrite"
            | "Throttling"
            | "ThrottlingException"
            | "TooManyRequests"
            | "RequestLimitExceeded" => FailureKind::Throttled,
            "RequestTimeout"
            | "IncompleteBody"
            | "BadDigest"
            | "XAmzContentSHA256Mismatch"
            | "XAmzContentChecksumMismatch" => FailureKind::Unsent,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "InvalidSecurity"
            | "NotSignedUp"
            | "AccountProblem" => FailureKind::Keys,
            "RequestTimeTooSkewed" | "RequestExpired" => FailureKind::Skewed,
            "NoSuchBucket" | "InvalidBucketName" => FailureKind::NoBucket,
            "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
                FailureKind::Elsewhere(self.region.clone())
            }
            "NotImplemented" | "MethodNotAllowed" => FailureKind::Unable,
            "QuotaExceeded" | "XMinioStorageFull" | "InsufficientStorage" | "InsufficientCapacity" => {
                FailureKind::Full
            }
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for part in [&self.code, &self.message].into_iter().filter(|part| !part.is_empty()) {
            write!(f, " {part}")?;
        }
        Ok(())
    }
}

impl StdError for ErrorResponse {}

/// The provider of access keys did not give any.
#[derive(Debug)]
pub(crate) struct NoKeys(pub(crate) String);

impl fmt::Display for NoKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for NoKeys {}

/// The text of an XML element.
fn element(body: &str, tag: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{tag}>"))?;
    let (text, _) = rest.split_once(&format!("</{tag}>"))?;
    let text = text.replace("&quot;", "\"").replace("&apos;", "'").replace("&#39;", "'");
    Some(shortened(&text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")))
}

/// Puts a text on one line and limits its length.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect()
}

/// An error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

/// The message of the innermost cause: outer errors only name the layers.
pub(crate) fn message(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map(|cause| shortened(&cause.to_string())).unwrap_or_default()
}

impl RequestFailure {
    pub(crate) fn of(error: &Error) -> Self {
        for cause in causes(error) {
            if let Some(response) = cause.downcast_ref::<ErrorResponse>() {
                return Self { kind: response.kind(), message: shortened(&response.to_string()) };
            }
            if let Some(no_keys) = cause.downcast_ref::<NoKeys>() {
                return Self { kind: FailureKind::NoKeys, message: shortened(&no_keys.0) };
            }
        }
        let transport = causes(error).find_map(|cause| cause.downcast_ref::<HttpError>());
        let kind = match (error, transport.map(HttpError::kind)) {
            (Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. }, _) => {
                FailureKind::Condition
            }
            (Error::NotFound { .. }, _) => FailureKind::Absent,
            (Error::PermissionDenied { .. }, _) => FailureKind::Rights,
            (Error::Unauthenticated { .. }, _) => FailureKind::Keys,
            (Error::NotSupported { .. } | Error::NotImplemented { .. }, _) => FailureKind::Unable,
            (Error::InvalidPath { .. }, _) => FailureKind::Foreign,
            (_, Some(HttpErrorKind::Connect)) => FailureKind::Unsent,
            (Error::Generic { .. } | Error::JoinError { .. }, _) => FailureKind::Lost,
            _ => FailureKind::Odd,
        };
        Self { kind, message: message(error) }
    }

    pub(crate) fn verdict(&self) -> RequestVerdict {
        match self.kind {
            FailureKind::Condition => RequestVerdict::Condition,
            FailureKind::Absent => RequestVerdict::Absent,
            FailureKind::Throttled | FailureKind::Unsent | FailureKind::NoKeys => {
                RequestVerdict::Failed { done: Some(false) }
            }
            FailureKind::Lost => RequestVerdict::Failed { done: None },
            _ => RequestVerdict::Refused,
        }
    }

    /// The error of a request that would be refused again.
    pub(crate) fn refused(self, doing: &'static str) -> StoreError {
        let Self { kind, message } = self;
        let (code, what, hint) = match &kind {
            FailureKind::Full => return StoreError::Full { doing, source: message.into() },
            FailureKind::Keys => (
                "GS0217",
                "the server rejects these access keys",
                "check access_key_id and secret_access_key in the URL, or AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; session keys expire",
            ),
            FailureKind::NoKeys => (
                "GS0217",
                "there are no access keys for the bucket",
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run on a machine with a role, or put access_key_id \
                 and secret_access_key into the URL",
            ),
            FailureKind::NoBucket | FailureKind::Absent => (
                "GS0218",
                "the bucket does not exist",
                "create it, or check bucket, endpoint and region in the URL",
            ),
            FailureKind::Rights => (
                "GS0219",
                "these access keys lack a permission in the bucket",
                "allow s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix and s3:ListBucket on the bucket",
            ),
            FailureKind::Unable => {
                ("GS0220", "the server lacks a feature that the store needs", CONDITIONS_HINT)
            }
            FailureKind::Skewed => (
                "GS0221",
                "this machine's clock is too far from the server's",
                "correct this machine's clock, for example with NTP",
            ),
            FailureKind::Foreign => (
                "GS0222",
                "the prefix holds objects of another program",
                "use another prefix, as in s3://BUCKET/ANOTHER",
            ),
            FailureKind::Elsewhere(region) => {
                let hint = match region {
                    Some(region) => format!("write region={region} in the URL").into(),
                    None => "check region and endpoint in the URL: the bucket is elsewhere".into(),
                };
                let what = format!("the bucket is not at this server or in this region: {message}");
                return StoreError::Refused { code: "GS0223", what, hint };
            }
            _ => (
                "GS0223",
                "the server's response is not valid S3",
                "check endpoint in the URL: it must be the address of an S3 service",
            ),
        };
        let what = format!("{what}, while {doing}: {message}");
        StoreError::Refused { code, what, hint: hint.into() }
    }
}

/// What to do about a server that does not enforce conditional writes.
pub(crate) const CONDITIONS_HINT: &str = "use a server that enforces If-None-Match and If-Match on writes: \
    Amazon S3, Cloudflare R2, MinIO, Ceph, SeaweedFS";

pub(crate) fn busy(doing: &'static str, source: BoxError) -> StoreError {
    StoreError::Busy { doing, source }
}

pub(crate) fn unknown(doing: &'static str, source: BoxError) -> StoreError {
    StoreError::Unknown { doing, source }
}

/// The error of an object that cannot be decoded.
pub(crate) fn damaged(key: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { detail: format!("object {key}: {detail}") }
}

/// The error while a store is opened, when no caller retries.
pub(crate) fn at_opening(error: StoreError, place: &str) -> StoreError {
    let (StoreError::Busy { source, doing } | StoreError::Unknown { source, doing }) = error else {
        return error;
    };
    match source.downcast::<RequestFailure>() {
        Ok(failure) if failure.kind == FailureKind::NoKeys => failure.refused(doing),
        Ok(failure) if failure.kind == FailureKind::Throttled => StoreError::Refused {
            code: "GS0205",
            what: format!("the server of {place} is overloaded: {failure}"),
            hint: "try again later; nothing was changed".into(),
        },
        Ok(failure) => unreachable_at(place, &failure),
        Err(source) => unreachable_at(place, &source),
    }
}

/// The error of a server that does not response.
pub(crate) fn unreachable_at(place: &str, message: &dyn fmt::Display) -> StoreError {
    StoreError::Refused {
        code: "GS0205",
        what: format!("cannot reach {place}: {message}"),
        hint:
            "check that the server runs, and check endpoint and region in the URL: host, port, http or https"
                .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of `object_store` for a response.
    fn error(status: u16, code: &str) -> Error {
        let body = match code {
            "" => String::new(),
            code => format!(
                "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>no &quot;way&quot;</Message>\
                 <Token-0>s3cret</Token-0><Region>eu-west-1</Region></Error>"
            ),
        };
        let source = HttpError::new(HttpErrorKind::Unknown, ErrorResponse::new(status, None, &body));
        Error::Generic { store: "S3", source: source.into() }
    }

    fn verdict(status: u16, code: &str) -> RequestVerdict {
        RequestFailure::of(&error(status, code)).verdict()
    }

    fn code(status: u16, name: &str) -> &'static str {
        match RequestFailure::of(&error(status, name)).refused("writing an object") {
            StoreError::Refused { code, what, hint } => {
                assert!(!format!("{what} {hint}").contains("s3cret"), "{what}");
                code
            }
            error => panic!("{error:?}"),
        }
    }

    #[test]
    fn a_request_counts_as_not_done_only_if_the_server_says_so() {
        for (status, code) in [(503, "SlowDown"), (429, ""), (400, "RequestTimeout"), (400, "IncompleteBody")]
        {
            assert_eq!(
                verdict(status, code),
                RequestVerdict::Failed { done: Some(false) },
                "{status} {code}"
            );
        }
        for (status, code) in [(500, "InternalError"), (502, ""), (503, ""), (504, "")] {
            assert_eq!(verdict(status, code), RequestVerdict::Failed { done: None }, "{status} {code}");
        }
        for (kind, done) in [
            (HttpErrorKind::Connect, Some(false)),
            (HttpErrorKind::Request, None),
            (HttpErrorKind::Timeout, None),
            (HttpErrorKind::Interrupted, None),
            (HttpErrorKind::Decode, None),
            (HttpErrorKind::Unknown, None),
        ] {
            let source = HttpError::new(kind, std::io::Error::other("gone"));
            let error = Error::Generic { store: "S3", source: source.into() };
            assert_eq!(RequestFailure::of(&error).verdict(), RequestVerdict::Failed { done }, "{kind:?}");
        }
    }

    #[test]
    fn tells_a_failed_condition_from_a_refusal() {
        for (status, code) in [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict"), (409, "")] {
            assert_eq!(verdict(status, code), RequestVerdict::Condition, "{status} {code}");
        }
        assert_eq!(verdict(404, "NoSuchKey"), RequestVerdict::Absent);
        assert_eq!(verdict(404, ""), RequestVerdict::Absent);
        assert_eq!(verdict(404, "NoSuchBucket"), RequestVerdict::Refused);
    }

    #[test]
    fn every_refusal_has_a_code() {
        for (status, name, expected) in [
            (401, "", "GS0217"),
            (403, "InvalidAccessKeyId", "GS0217"),
            (403, "SignatureDoesNotMatch", "GS0217"),
            (400, "ExpiredToken", "GS0217"),
            (404, "NoSuchBucket", "GS0218"),
            (400, "InvalidBucketName", "GS0218"),
            (403, "AccessDenied", "GS0219"),
            (403, "", "GS0219"),
            (501, "NotImplemented", "GS0220"),
            (405, "", "GS0220"),
            (403, "RequestTimeTooSkewed", "GS0221"),
            (301, "PermanentRedirect", "GS0223"),
            (400, "AuthorizationHeaderMalformed", "GS0223"),
            (400, "", "GS0223"),
        ] {
            assert_eq!(verdict(status, name), RequestVerdict::Refused, "{status} {name}");
            assert_eq!(code(status, name), expected, "{status} {name}");
        }
        let full = RequestFailure::of(&error(507, "")).refused("writing an object");
        assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
        let elsewhere = RequestFailure::of(&error(301, "PermanentRedirect")).refused("reading an object");
        assert!(matches!(elsewhere, StoreError::Refused { hint, .. } if hint.contains("region=eu-west-1")));
    }

    #[test]
    fn missing_keys_are_busy_but_refused_while_opening() {
        let source = HttpError::new(HttpErrorKind::Connect, NoKeys("no keys".to_owned()));
        let failure = RequestFailure::of(&Error::Generic { store: "S3", source: source.into() });
        assert_eq!(failure.verdict(), RequestVerdict::Failed { done: Some(false) });
        let error = at_opening(busy("reading an object", failure.into()), "there");
        assert!(matches!(error, StoreError::Refused { code: "GS0217", .. }), "{error:?}");
        let error = at_opening(unknown("writing an object", "no response".into()), "bucket \"b\"");
        assert_eq!(error.to_string(), "cannot reach bucket \"b\": no response");
    }

    #[test]
    fn messages_of_a_server_are_shortened() {
        let body = format!("<html>\n{}\u{1b}[31m</html>", "x".repeat(5_000));
        let response = ErrorResponse::new(400, None, &body);
        assert!(response.message.len() <= MESSAGE_MAX && !response.message.contains(['\u{1b}', '\n']));
        assert_eq!(response.code, "");
    }
}
