//! What a server answered, as what the caller must do next. Decided by status and code, never by words.
//!
//! Invariant: a request counts as not done only if it was never sent or the server says so.

use std::error::Error as StdError;
use std::fmt;

use goldseam_store::StoreError;
use goldseam_store::error::BoxError;
use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};

/// Longest words of a server that are repeated.
const WORDS_MAX: usize = 300;

/// What an error means for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The condition of a put did not hold, or the server says so.
    Condition,
    /// There is no such object.
    Absent,
    /// It may be sent again. `done` says whether it was done, where that is known.
    Failed {
        /// None: nobody knows.
        done: Option<bool>,
    },
    /// Sending it again would be answered the same.
    Refused,
}

/// What sort of failure it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Nature {
    /// The condition of a put did not hold, or another request for the key is under way.
    Condition,
    /// There is no such object.
    Absent,
    /// The server has too much to do, and did nothing.
    Throttled,
    /// It was not sent, or not whole.
    Unsent,
    /// It was sent, and no answer says what became of it.
    Lost,
    /// No room.
    Full,
    /// Nothing proves who we are: the place that should give keys does not.
    NoKeys,
    /// The keys are wrong, or not valid any more.
    Keys,
    /// There is no such bucket.
    NoBucket,
    /// These keys may not do that.
    Rights,
    /// The server cannot do it at all.
    Unable,
    /// This machine's clock is too wrong for signatures.
    Skewed,
    /// The bucket lives elsewhere.
    Elsewhere(Option<String>),
    /// A key that none of our objects has.
    Foreign,
    /// Anything else.
    Odd,
}

/// Why a request failed, in its sort and in words.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    nature: Nature,
    words: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl StdError for Failure {}

/// An answer of the server that is no success.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// What S3 calls it, if the answer is S3's.
    pub(crate) code: String,
    pub(crate) message: String,
    /// Where the bucket lives, if the answer says so.
    pub(crate) region: Option<String>,
}

impl Answer {
    /// An answer with its body, which is XML if it is S3's. Other parts of it may hold keys and are dropped.
    pub(crate) fn new(status: u16, region: Option<String>, body: &str) -> Self {
        let s3 = body.contains("<Error>") || body.contains("<Error ");
        let part = |tag: &str| element(body, tag).filter(|_| s3).unwrap_or_default();
        let region = region.or_else(|| Some(part("Region")).filter(|region| !region.is_empty()));
        let message = if s3 { part("Message") } else { shortened(body) };
        Self { status, code: part("Code"), message, region }
    }

    fn nature(&self) -> Nature {
        if let Some(nature) = self.nature_of_code() {
            return nature;
        }
        match self.status {
            304 | 409 | 412 => Nature::Condition,
            307 | 408 => Nature::Unsent,
            300..=399 => Nature::Elsewhere(self.region.clone()),
            401 => Nature::Keys,
            403 => Nature::Rights,
            404 => Nature::Absent,
            405 | 501 => Nature::Unable,
            429 => Nature::Throttled,
            507 => Nature::Full,
            500..=599 => Nature::Lost,
            _ => Nature::Odd,
        }
    }

    fn nature_of_code(&self) -> Option<Nature> {
        Some(match self.code.as_str() {
            "SlowDown"
            | "SlowDownRead"
            | "SlowDownWrite"
            | "Throttling"
            | "ThrottlingException"
            | "TooManyRequests"
            | "RequestLimitExceeded" => Nature::Throttled,
            "RequestTimeout"
            | "IncompleteBody"
            | "BadDigest"
            | "XAmzContentSHA256Mismatch"
            | "XAmzContentChecksumMismatch" => Nature::Unsent,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "InvalidToken"
            | "TokenRefreshRequired"
            | "InvalidSecurity"
            | "NotSignedUp"
            | "AccountProblem" => Nature::Keys,
            "RequestTimeTooSkewed" | "RequestExpired" => Nature::Skewed,
            "NoSuchBucket" | "InvalidBucketName" => Nature::NoBucket,
            "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" => {
                Nature::Elsewhere(self.region.clone())
            }
            "NotImplemented" | "MethodNotAllowed" => Nature::Unable,
            "QuotaExceeded" | "XMinioStorageFull" | "InsufficientStorage" | "InsufficientCapacity" => {
                Nature::Full
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for part in [&self.code, &self.message].into_iter().filter(|part| !part.is_empty()) {
            write!(f, " {part}")?;
        }
        Ok(())
    }
}

impl StdError for Answer {}

/// Whoever should give keys did not.
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

/// On one line, and not for ever.
fn shortened(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect()
}

/// An error and its causes, the outermost first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| (*error).source())
}

/// The words of the innermost cause: what is outside only says where it came through.
pub(crate) fn words(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map(|cause| shortened(&cause.to_string())).unwrap_or_default()
}

impl Failure {
    pub(crate) fn of(error: &Error) -> Self {
        for cause in causes(error) {
            if let Some(answer) = cause.downcast_ref::<Answer>() {
                return Self { nature: answer.nature(), words: shortened(&answer.to_string()) };
            }
            if let Some(no_keys) = cause.downcast_ref::<NoKeys>() {
                return Self { nature: Nature::NoKeys, words: shortened(&no_keys.0) };
            }
        }
        let transport = causes(error).find_map(|cause| cause.downcast_ref::<HttpError>());
        let nature = match (error, transport.map(HttpError::kind)) {
            (Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. }, _) => {
                Nature::Condition
            }
            (Error::NotFound { .. }, _) => Nature::Absent,
            (Error::PermissionDenied { .. }, _) => Nature::Rights,
            (Error::Unauthenticated { .. }, _) => Nature::Keys,
            (Error::NotSupported { .. } | Error::NotImplemented { .. }, _) => Nature::Unable,
            (Error::InvalidPath { .. }, _) => Nature::Foreign,
            (_, Some(HttpErrorKind::Connect)) => Nature::Unsent,
            (Error::Generic { .. } | Error::JoinError { .. }, _) => Nature::Lost,
            _ => Nature::Odd,
        };
        Self { nature, words: words(error) }
    }

    pub(crate) fn verdict(&self) -> Verdict {
        match self.nature {
            Nature::Condition => Verdict::Condition,
            Nature::Absent => Verdict::Absent,
            Nature::Throttled | Nature::Unsent | Nature::NoKeys => Verdict::Failed { done: Some(false) },
            Nature::Lost => Verdict::Failed { done: None },
            _ => Verdict::Refused,
        }
    }

    /// What the caller is told about a request that is of no use to repeat.
    pub(crate) fn refused(self, doing: &'static str) -> StoreError {
        let Self { nature, words } = self;
        let (code, what, hint) = match &nature {
            Nature::Full => return StoreError::Full { doing, source: words.into() },
            Nature::Keys => (
                "GS0217",
                "the server rejects these access keys",
                "check access_key_id and secret_access_key in the URL, or AWS_ACCESS_KEY_ID, \
                 AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; session keys expire",
            ),
            Nature::NoKeys => (
                "GS0217",
                "there are no access keys for the bucket",
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, run on a machine with a role, or put access_key_id \
                 and secret_access_key into the URL",
            ),
            Nature::NoBucket | Nature::Absent => (
                "GS0218",
                "the bucket does not exist",
                "create it, or check bucket, endpoint and region in the URL",
            ),
            Nature::Rights => (
                "GS0219",
                "these access keys lack a permission in the bucket",
                "allow s3:GetObject, s3:PutObject and s3:DeleteObject on the prefix and s3:ListBucket on the bucket",
            ),
            Nature::Unable => ("GS0220", "the server lacks a feature that the store needs", CONDITIONS_HINT),
            Nature::Skewed => (
                "GS0221",
                "this machine's clock is too far from the server's",
                "correct this machine's clock, for example with NTP",
            ),
            Nature::Foreign => (
                "GS0222",
                "the prefix holds objects of another program",
                "use another prefix, as in s3://BUCKET/ANOTHER",
            ),
            Nature::Elsewhere(region) => {
                let hint = match region {
                    Some(region) => format!("write region={region} in the URL"),
                    None => "check region and endpoint in the URL: the bucket is elsewhere".to_owned(),
                };
                let what = format!("the bucket is not at this server or in this region: {words}");
                return StoreError::Refused { code: "GS0223", what, hint };
            }
            _ => (
                "GS0223",
                "the server's response is not valid S3",
                "check endpoint in the URL: it must be the address of an S3 service",
            ),
        };
        let what = format!("{what}, while {doing}: {words}");
        StoreError::Refused { code, what, hint: hint.to_owned() }
    }
}

/// What to do about a server that cannot write under a condition.
pub(crate) const CONDITIONS_HINT: &str = "use a server that enforces If-None-Match and If-Match on writes: \
    Amazon S3, Cloudflare R2, MinIO, Ceph, SeaweedFS";

pub(crate) fn busy(doing: &'static str, source: BoxError) -> StoreError {
    StoreError::Busy { doing, source }
}

pub(crate) fn unknown(doing: &'static str, source: BoxError) -> StoreError {
    StoreError::Unknown { doing, source }
}

/// An object that makes no sense.
pub(crate) fn damaged(key: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { detail: format!("object {key}: {detail}") }
}

/// The same error while a store is being opened, when nobody is there yet to wait and try again.
pub(crate) fn at_opening(error: StoreError, place: &str) -> StoreError {
    let (StoreError::Busy { source, doing } | StoreError::Unknown { source, doing }) = error else {
        return error;
    };
    match source.downcast::<Failure>() {
        Ok(failure) if failure.nature == Nature::NoKeys => failure.refused(doing),
        Ok(failure) if failure.nature == Nature::Throttled => StoreError::Refused {
            code: "GS0205",
            what: format!("the server of {place} is overloaded: {failure}"),
            hint: "try again later; nothing was changed".to_owned(),
        },
        Ok(failure) => unreachable_at(place, &failure),
        Err(source) => unreachable_at(place, &source),
    }
}

/// A server that does not answer.
pub(crate) fn unreachable_at(place: &str, words: &dyn fmt::Display) -> StoreError {
    StoreError::Refused {
        code: "GS0205",
        what: format!("cannot reach {place}: {words}"),
        hint:
            "check that the server runs, and check endpoint and region in the URL: host, port, http or https"
                .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error that the crate makes of an answer.
    fn error(status: u16, code: &str) -> Error {
        let body = match code {
            "" => String::new(),
            code => format!(
                "<?xml version=\"1.0\"?>\n<Error><Code>{code}</Code><Message>no &quot;way&quot;</Message>\
                 <Token-0>s3cret</Token-0><Region>eu-west-1</Region></Error>"
            ),
        };
        let source = HttpError::new(HttpErrorKind::Unknown, Answer::new(status, None, &body));
        Error::Generic { store: "S3", source: source.into() }
    }

    fn verdict(status: u16, code: &str) -> Verdict {
        Failure::of(&error(status, code)).verdict()
    }

    fn code(status: u16, name: &str) -> &'static str {
        match Failure::of(&error(status, name)).refused("writing an object") {
            StoreError::Refused { code, what, hint } => {
                assert!(!format!("{what} {hint}").contains("s3cret"), "{what}");
                code
            }
            error => panic!("{error:?}"),
        }
    }

    #[test]
    fn only_a_server_that_says_so_has_done_nothing() {
        for (status, code) in [(503, "SlowDown"), (429, ""), (400, "RequestTimeout"), (400, "IncompleteBody")]
        {
            assert_eq!(verdict(status, code), Verdict::Failed { done: Some(false) }, "{status} {code}");
        }
        for (status, code) in [(500, "InternalError"), (502, ""), (503, ""), (504, "")] {
            assert_eq!(verdict(status, code), Verdict::Failed { done: None }, "{status} {code}");
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
            assert_eq!(Failure::of(&error).verdict(), Verdict::Failed { done }, "{kind:?}");
        }
    }

    #[test]
    fn a_condition_that_did_not_hold_is_told_from_a_refusal() {
        for (status, code) in [(412, "PreconditionFailed"), (409, "ConditionalRequestConflict"), (409, "")] {
            assert_eq!(verdict(status, code), Verdict::Condition, "{status} {code}");
        }
        assert_eq!(verdict(404, "NoSuchKey"), Verdict::Absent);
        assert_eq!(verdict(404, ""), Verdict::Absent);
        assert_eq!(verdict(404, "NoSuchBucket"), Verdict::Refused);
    }

    #[test]
    fn every_refusal_has_its_own_code() {
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
            assert_eq!(verdict(status, name), Verdict::Refused, "{status} {name}");
            assert_eq!(code(status, name), expected, "{status} {name}");
        }
        let full = Failure::of(&error(507, "")).refused("writing an object");
        assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
        let elsewhere = Failure::of(&error(301, "PermanentRedirect")).refused("reading an object");
        assert!(matches!(elsewhere, StoreError::Refused { hint, .. } if hint.contains("region=eu-west-1")));
    }

    #[test]
    fn missing_keys_are_waited_for_but_not_while_opening() {
        let source = HttpError::new(HttpErrorKind::Connect, NoKeys("no keys".to_owned()));
        let failure = Failure::of(&Error::Generic { store: "S3", source: source.into() });
        assert_eq!(failure.verdict(), Verdict::Failed { done: Some(false) });
        let error = at_opening(busy("reading an object", failure.into()), "there");
        assert!(matches!(error, StoreError::Refused { code: "GS0217", .. }), "{error:?}");
        let error = at_opening(unknown("writing an object", "no answer".into()), "bucket \"b\"");
        assert_eq!(error.to_string(), "cannot reach bucket \"b\": no answer");
    }

    #[test]
    fn words_of_a_stranger_are_cut_short() {
        let body = format!("<html>\n{}\u{1b}[31m</html>", "x".repeat(5_000));
        let answer = Answer::new(400, None, &body);
        assert!(answer.message.len() <= WORDS_MAX && !answer.message.contains(['\u{1b}', '\n']));
        assert_eq!(answer.code, "");
    }
}
