//! A connection that is given up when its other end takes nothing in for too long, and that hears its other end out
//! before it is closed.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::connection::Activity;

/// How long an end that still sends is heard out after the last word to it.
const FAREWELL: Duration = Duration::from_secs(1);
/// How much of what it sends is heard out.
const FAREWELL_BYTES: usize = 4 * 1024 * 1024;

/// Ends with an error when a write has been waiting for longer than patience.
#[derive(Debug)]
pub(crate) struct WriteTimeout<T> {
    inner: T,
    patience: Duration,
    activity: Arc<Activity>,
    waiting: Option<Pin<Box<Sleep>>>,
    farewell: Option<Pin<Box<Sleep>>>,
    heard: usize,
}

impl<T> WriteTimeout<T> {
    pub(crate) fn new(inner: T, patience: Duration, activity: Arc<Activity>) -> Self {
        Self { inner, patience, activity, waiting: None, farewell: None, heard: 0 }
    }

    /// What a write came to: progress ends the wait, a write that is still pending may have waited for too long.
    fn judge<R>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            self.waiting = None;
            return poll;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the other end takes nothing in")))
    }
}

impl<T: AsyncRead + Unpin> WriteTimeout<T> {
    /// Takes in what still comes until the other end closes or the farewell is over. A connection that is closed over
    /// unread bytes is reset, and the answer that went before is lost with it: whoever sends a body that is refused
    /// would see a broken connection instead of the reason.
    fn hear_out(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let farewell = self.farewell.get_or_insert_with(|| Box::pin(tokio::time::sleep(FAREWELL)));
        if farewell.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let mut unread = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut unread);
            let read = ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buffer));
            self.heard += buffer.filled().len();
            if read.is_err() || buffer.filled().is_empty() || self.heard >= FAREWELL_BYTES {
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
        self.judge(cx, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.judge(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.farewell.is_none() {
            let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
            ready!(self.judge(cx, poll))?;
        }
        match self.activity.has_unread() {
            true => self.hear_out(cx).map(Ok),
            false => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A connection whose other end has sent part of a request.
    fn patient(near: DuplexStream) -> WriteTimeout<DuplexStream> {
        let activity = Arc::new(Activity::default());
        activity.heading();
        WriteTimeout::new(near, PATIENCE, activity)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_nothing_unread_is_closed_at_once() {
        let (near, _far) = tokio::io::duplex(16);
        let mut near = WriteTimeout::new(near, PATIENCE, Arc::default());
        let ended = near.shutdown();
        tokio::time::timeout(FAREWELL / 2, ended).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_in_is_given_up() {
        let (near, _far) = tokio::io::duplex(16);
        let mut near = patient(near);
        let error = near.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_still_sends_is_heard_out_before_the_end() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = patient(near);
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
    async fn not_much_is_heard_out_however_fast_it_comes() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let sender = async {
            let mut sent = 0;
            while far.write_all(&[0; 16 * 1024]).await.is_ok() {
                sent += 16 * 1024;
            }
            sent
        };
        let ended = async {
            let mut near = patient(near);
            near.shutdown().await.unwrap();
        };
        let (sent, ()) = tokio::join!(sender, ended);
        assert!((FAREWELL_BYTES..FAREWELL_BYTES + 256 * 1024).contains(&sent), "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_never_ends_is_not_heard_out_for_long() {
        let (near, _far) = tokio::io::duplex(16);
        tokio::time::timeout(FAREWELL * 2, patient(near).shutdown()).await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_is_slow_but_reads_is_waited_for() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = patient(near);
        let slow = async {
            let mut piece = [0; 16];
            for _ in 0..4 {
                tokio::time::sleep(PATIENCE * 3 / 4).await;
                far.read_exact(&mut piece).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(near.write_all(&[0; 64]), slow);
        written.unwrap();
    }
}
