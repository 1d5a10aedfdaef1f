//! Problems for requests that hyper refuses before they exist: too large, or not HTTP/1.1.
//!
//! hyper answers such a request itself, with an empty body. [`Explaining`] replaces that response by a problem.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use goldseam_api::Problem;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Activity;
use crate::hardening::HEADERS;

/// The end of a response head.
const BLANK_LINE: &[u8] = b"\r\n\r\n";
/// Begin of every response.
const BEGIN: &str = "HTTP/1.1 ";

/// The largest requests that are parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadLimits {
    pub(crate) bytes: usize,
    pub(crate) headers: usize,
}

impl HeadLimits {
    /// Returns the problem of a status that hyper answers with.
    fn problem(self, status: u16) -> Option<Problem> {
        let Self { bytes, headers } = self;
        match status {
            400 => Some(
                Problem::bad_request("this is not a valid HTTP/1.1 request")
                    .code("GS0608")
                    .hint("send HTTP/1.1; with TLS only if the server has a certificate"),
            ),
            414 | 431 => {
                let detail = format!(
                    "the request line and the headers have more than {bytes} bytes, or are more than {headers} headers"
                );
                let hint = "shorten the URL: move long values into the body, or split the request";
                Some(Problem::new(status, detail).code("GS0605").hint(hint).limit(bytes as u64))
            }
            _ => None,
        }
    }
}

/// A stream that gives the empty responses of hyper a body.
#[derive(Debug)]
pub(crate) struct Explaining<T> {
    inner: T,
    activity: Arc<Activity>,
    limits: HeadLimits,
    /// The response that is being written instead.
    instead: Option<Replacement>,
}

#[derive(Debug)]
struct Replacement {
    bytes: Vec<u8>,
    written: usize,
    /// Length of the bytes that it replaces.
    replaced: usize,
}

impl<T> Explaining<T> {
    pub(crate) fn new(inner: T, activity: Arc<Activity>, limits: HeadLimits) -> Self {
        Self { inner, activity, limits, instead: None }
    }

    /// Returns what to write instead of `bytes`, if they end with a response of hyper's own. A response of the service
    /// cannot be one: while it is written, its request is in progress, or it has other headers.
    fn replacement(&self, bytes: &[u8]) -> Option<Replacement> {
        if !bytes.ends_with(BLANK_LINE) || !self.activity.is_resting() {
            return None;
        }
        let (before, status) = split_own(bytes)?;
        let problem = self.limits.problem(status)?;
        let mut instead = before.to_vec();
        instead.extend_from_slice(response(&problem).as_bytes());
        Some(Replacement { bytes: instead, written: 0, replaced: bytes.len() })
    }
}

/// Splits off a response of hyper's own at the end of `bytes`, and returns what precedes it and its status.
fn split_own(bytes: &[u8]) -> Option<(&[u8], u16)> {
    let begin = bytes.windows(BEGIN.len()).rposition(|window| window == BEGIN.as_bytes())?;
    let (before, own) = bytes.split_at_checked(begin)?;
    let mut lines = str::from_utf8(own).ok()?.strip_prefix(BEGIN)?.trim_end().lines();
    let status = lines.next()?.split(' ').next()?.parse().ok()?;
    let is_own = |line: &str| {
        let line = line.to_ascii_lowercase();
        line == "content-length: 0" || line == "connection: close" || line.starts_with("date: ")
    };
    lines.all(is_own).then_some((before, status))
}

/// Returns a problem as the last response of a connection.
pub(crate) fn response(problem: &Problem) -> String {
    use std::fmt::Write as _;
    let body = serde_json::to_string(problem).unwrap_or_default();
    let mut text =
        format!("{BEGIN}{} {}\r\ncontent-type: application/problem+json\r\n", problem.status, problem.title);
    for (name, value) in HEADERS {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = write!(text, "connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    text
}

impl<T: AsyncRead + Unpin> AsyncRead for Explaining<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Explaining<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(mut instead) = self.instead.take().or_else(|| self.replacement(bytes)) else {
            return Pin::new(&mut self.inner).poll_write(cx, bytes);
        };
        while let Some(rest) = instead.bytes.get(instead.written..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut self.inner).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(0)),
                Poll::Ready(Ok(written)) => instead.written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.instead = Some(instead);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(instead.replaced))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes: 100, headers: 8 };
    const OWN: &str = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\ndate: Mon, 1 Jan\r\n\r\n";

    /// Writes `bytes` through a stream of 16 bytes, and returns what the peer reads.
    async fn written(bytes: &str, activity: Arc<Activity>) -> String {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = Explaining::new(near, activity, LIMITS);
        let write = async {
            near.write_all(bytes.as_bytes()).await.unwrap();
            near.shutdown().await.unwrap();
        };
        let mut read = String::new();
        let ((), end) = tokio::join!(write, far.read_to_string(&mut read));
        end.unwrap();
        read
    }

    #[tokio::test]
    async fn empty_refusal_of_the_parser_gets_a_problem() {
        let read = written(OWN, Arc::default()).await;
        let (head, body) = read.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{head}");
        let problem: Problem = serde_json::from_str(body).unwrap();
        assert_eq!((problem.code.as_deref(), problem.limit), (Some("GS0605"), Some(100)));
        assert!(problem.hint.is_some());
    }

    #[tokio::test]
    async fn response_before_a_refusal_is_kept() {
        let first = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        let read = written(&format!("{first}{OWN}"), Arc::default()).await;
        assert!(read.starts_with(&format!("{first}HTTP/1.1 431 ")) && read.contains("GS0605"), "{read}");
    }

    #[tokio::test]
    async fn responses_of_the_service_are_left_alone() {
        for own in [
            "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\r\ndate: Mon, 1 Jan\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\r\n\r\n",
        ] {
            assert_eq!(written(own, Arc::default()).await, own);
        }
        let activity = Arc::new(Activity::default());
        let _request = activity.begin();
        assert_eq!(written(OWN, activity).await, OWN, "the data of a request in progress");
    }
}
