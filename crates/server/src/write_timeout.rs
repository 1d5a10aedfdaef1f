//! A stream that fails when the peer does not read for too long, and that drains unread input before it closes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::connection::Activity;

/// How long a closing connection reads from a peer that is still sending.
const DRAIN: Duration = Duration::from_secs(1);
/// How many bytes a closing connection reads.
const DRAIN_BYTES: usize = 4 * 1024 * 1024;

/// A stream whose writes fail after a time limit without progress.
#[derive(Debug)]
pub(crate) struct WriteTimeout<T> {
    inner: T,
    limit: Duration,
    activity: Arc<Activity>,
    waiting: Option<Pin<Box<Sleep>>>,
    drain_timer: Option<Pin<Box<Sleep>>>,
    drained: usize,
}

impl<T> WriteTimeout<T> {
    pub(crate) fn new(inner: T, limit: Duration, activity: Arc<Activity>) -> Self {
        Self { inner, limit, activity, waiting: None, drain_timer: None, drained: 0 }
    }

    /// Resets the timer if the write made progress, and fails if a pending write exceeded the limit.
    fn check_timeout<R>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "timed out writing to the peer")))
    }
}

impl<T: AsyncRead + Unpin> WriteTimeout<T> {
    /// Reads and drops input until the peer closes or the drain limits are reached. Closing a socket with unread bytes
    /// resets the connection and discards the response: a client whose body is refused would see a broken connection
    /// instead of the reason.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.drain_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(DRAIN)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut unread = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut unread);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer));
            self.drained += buffer.filled().len();
            if read.is_err() || buffer.filled().is_empty() || self.drained >= DRAIN_BYTES {
                return Poll::Ready(());
            }
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WriteTimeout<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_timeout(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.check_timeout(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.drain_timer.is_none() {
            let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.check_timeout(cx, poll))?;
        }
        match self.activity.has_unread() {
            true => self.drain(cx).map(Ok),
            false => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Returns a stream whose peer has sent a part of a request.
    fn with_unread(near: DuplexStream) -> WriteTimeout<DuplexStream> {
        let activity = Arc::new(Activity::default());
        activity.headers_started();
        WriteTimeout::new(near, LIMIT, activity)
    }

    #[tokio::test(start_paused = true)]
    async fn closes_at_once_without_unread_input() {
        let (near, _far) = tokio::io::duplex(16);
        let mut near = WriteTimeout::new(near, LIMIT, Arc::default());
        let ended = near.shutdown();
        tokio::time::timeout(DRAIN / 2, ended).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn write_fails_if_the_peer_does_not_read() {
        let (near, _far) = tokio::io::duplex(16);
        let mut near = with_unread(near);
        let error = near.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn drains_input_before_closing() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = with_unread(near);
        near.write_all(b"too large").await.unwrap();
        let sender = async {
            far.write_all(&[0; 64 * 1024]).await.unwrap();
            let mut answer = String::new();
            far.read_to_string(&mut answer).await.unwrap();
            drop(far);
            answer
        };
        let (ended, answer) = tokio::join!(near.shutdown(), sender);
        ended.unwrap();
        assert_eq!(answer, "too large");
    }

    #[tokio::test(start_paused = true)]
    async fn drain_stops_at_the_byte_limit() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let sender = async {
            let mut sent = 0;
            while far.write_all(&[0; 16 * 1024]).await.is_ok() {
                sent += 16 * 1024;
            }
            sent
        };
        let ended = async {
            let mut near = with_unread(near);
            near.shutdown().await.unwrap();
        };
        let (sent, ()) = tokio::join!(sender, ended);
        assert!((DRAIN_BYTES..DRAIN_BYTES + 256 * 1024).contains(&sent), "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn drain_stops_at_the_time_limit() {
        let (near, _far) = tokio::io::duplex(16);
        tokio::time::timeout(DRAIN * 2, with_unread(near).shutdown()).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn slow_reader_is_not_cut_off() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = with_unread(near);
        let slow = async {
            let mut piece = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(LIMIT * 3 / 4).await;
                far.read_exact(&mut piece).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 64]), slow);
        written.unwrap();
    }
}
