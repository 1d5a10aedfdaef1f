//! The state of a connection (idle, reading headers, answering) and the time limit of each state.
//!
//! hyper's header timer starts at the end of the previous response, so the limit for slow headers would also limit idle
//! connections. hyper's timer is therefore off, and [`Timed`] enforces both limits.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep};

/// The state of one connection, shared by its stream and its service.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    answered: AtomicU64,
    /// Whether a part of the headers has arrived.
    is_heading: AtomicBool,
    /// Whether the body of the last request was not read to its end.
    is_unread: AtomicBool,
    /// Waker of the connection's task.
    task: Mutex<Option<Waker>>,
}

impl Activity {
    /// Marks the start of a request, which ends when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InProgress {
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.is_heading.store(false, Ordering::Release);
        self.is_unread.store(false, Ordering::Release);
        InProgress(Arc::clone(self))
    }

    /// Returns whether the client may still be sending data that the server will not read.
    pub(crate) fn has_unread(&self) -> bool {
        self.is_heading.load(Ordering::Acquire) || self.is_unread.load(Ordering::Acquire)
    }

    /// Marks that a part of the next request has arrived.
    pub(crate) fn headers_started(&self) {
        self.is_heading.store(true, Ordering::Release);
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether no request is in progress.
    pub(crate) fn is_resting(&self) -> bool {
        self.answered_if_resting().is_some()
    }

    /// Returns the number of answered requests, or `None` while a request is in progress.
    fn answered_if_resting(&self) -> Option<u64> {
        let answered = self.answered.load(Ordering::Acquire);
        (answered == self.begun.load(Ordering::Acquire)).then_some(answered)
    }
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Activity>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::AcqRel);
        // hyper does not read again after a response without a wake-up, and the idle limit starts with a read.
        let task = self.0.task().take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// A request body that records whether it was read to its end.
#[derive(Debug)]
pub(crate) struct RequestBody<B: hyper::body::Body + Unpin> {
    body: B,
    is_read: bool,
    activity: Arc<Activity>,
}

impl<B: hyper::body::Body + Unpin> RequestBody<B> {
    pub(crate) fn new(body: B, activity: Arc<Activity>) -> Self {
        Self { body, is_read: false, activity }
    }
}

impl<B: hyper::body::Body + Unpin> Drop for RequestBody<B> {
    fn drop(&mut self) {
        if !self.is_read && !self.body.is_end_stream() {
            self.activity.is_unread.store(true, Ordering::Release);
        }
    }
}

impl<B: hyper::body::Body + Unpin> hyper::body::Body for RequestBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.is_read |= frame.is_none();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response body that holds a value until all of it is sent.
#[derive(Debug)]
pub(crate) struct ResponseBody<T> {
    body: Body,
    _held: T,
}

impl<T> ResponseBody<T> {
    pub(crate) fn new(body: Body, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> hyper::body::Body for ResponseBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The time limits of a connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionTimeouts {
    /// For the headers of a request, and for the first byte of the first request.
    pub(crate) headers: Duration,
    /// For the next request after a response.
    pub(crate) idle: Duration,
    /// Free connection slots. While fewer than a quarter are free, the header limit also applies to idle connections.
    pub(crate) free_slots: Arc<Semaphore>,
    /// Number of connection slots.
    pub(crate) connections_max: usize,
}

impl ConnectionTimeouts {
    fn is_crowded(&self) -> bool {
        self.free_slots.available_permits() * 4 < self.connections_max
    }
}

/// A stream that fails when the next request or its headers take too long.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    inner: T,
    activity: Arc<Activity>,
    limits: ConnectionTimeouts,
    /// The current wait.
    wait: Option<HeaderWait>,
}

#[derive(Debug)]
struct HeaderWait {
    /// How many requests were answered before.
    after: u64,
    begun: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<T> Timed<T> {
    pub(crate) fn new(inner: T, activity: Arc<Activity>, limits: ConnectionTimeouts) -> Self {
        Self { inner, activity, limits, wait: None }
    }

    /// Whether the connection waits for the first byte of another request.
    fn is_idle(&self, after: u64) -> bool {
        after > 0 && !self.activity.is_heading.load(Ordering::Acquire)
    }

    fn wait(&self, after: u64) -> HeaderWait {
        let ConnectionTimeouts { headers, idle, .. } = self.limits;
        let first = if self.is_idle(after) { headers.min(idle) } else { headers };
        let timer = tokio::time::sleep(first);
        HeaderWait { after, begun: timer.deadline() - first, timer: Box::pin(timer) }
    }

    /// Becomes ready when the wait exceeds its limit. Checks an idle connection at intervals of the header limit.
    fn is_over(&mut self, cx: &mut Context<'_>, after: u64) -> Poll<()> {
        let mut wait = match self.wait.take().filter(|wait| wait.after == after) {
            Some(wait) => wait,
            None => self.wait(after),
        };
        let is_idle = self.is_idle(after);
        let end = wait.begun + self.limits.idle;
        while wait.timer.as_mut().poll(cx).is_ready() {
            let now = wait.timer.deadline();
            if !is_idle || now >= end || self.limits.is_crowded() {
                return Poll::Ready(());
            }
            wait.timer.as_mut().reset(end.min(now + self.limits.headers));
        }
        self.wait = Some(wait);
        Poll::Pending
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Timed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.inner).poll_read(cx, buffer);
        *self.activity.task() = Some(cx.waker().clone());
        let Some(after) = self.activity.answered_if_resting() else { return poll };
        if poll.is_ready() {
            if buffer.filled().len() > before && !self.activity.is_heading.load(Ordering::Acquire) {
                self.activity.headers_started();
                if after > 0 {
                    self.wait = Some(self.wait(after));
                }
            }
            return poll;
        }
        ready!(self.is_over(cx, after));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "timed out waiting for the next request")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Timed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
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

    const HEADERS: Duration = Duration::from_secs(10);
    const IDLE: Duration = Duration::from_secs(75);

    fn timed(free: usize) -> (Timed<tokio::io::DuplexStream>, tokio::io::DuplexStream, Arc<Activity>) {
        let (near, far) = tokio::io::duplex(64);
        let activity = Arc::new(Activity::default());
        let limits = ConnectionTimeouts {
            headers: HEADERS,
            idle: IDLE,
            free_slots: Arc::new(Semaphore::new(free)),
            connections_max: 8,
        };
        (Timed::new(near, Arc::clone(&activity), limits), far, activity)
    }

    fn now() -> Instant {
        tokio::time::sleep(Duration::ZERO).deadline()
    }

    async fn ends_after(near: &mut Timed<tokio::io::DuplexStream>) -> Duration {
        let begun = now();
        let error = near.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        now() - begun
    }

    /// Compares with a tolerance, because tokio timers have a resolution of a millisecond.
    fn is(took: Duration, limit: Duration) -> bool {
        (limit..limit + Duration::from_millis(20)).contains(&took)
    }

    #[tokio::test(start_paused = true)]
    async fn header_limit_applies_before_the_first_request() {
        let (mut near, _far, _activity) = timed(8);
        assert!(is(ends_after(&mut near).await, HEADERS));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_limit_and_header_limit_are_separate() {
        let (mut near, mut far, activity) = timed(8);
        far.write_u8(b'G').await.unwrap();
        near.read_u8().await.unwrap();
        drop(activity.begin());
        assert!(is(ends_after(&mut near).await, IDLE));

        let (mut near, mut far, activity) = timed(8);
        drop(activity.begin());
        let slow = async {
            tokio::time::sleep(IDLE - Duration::from_secs(1)).await;
            far.write_u8(b'G').await.unwrap();
            tokio::time::sleep(HEADERS / 2).await;
            far.write_u8(b'E').await.unwrap();
            std::future::pending::<()>().await;
        };
        let read = async {
            near.read_u8().await.unwrap();
            let begun = now();
            near.read_u8().await.unwrap();
            ends_after(&mut near).await;
            now() - begun
        };
        let took = tokio::select! { took = read => took, () = slow => unreachable!() };
        assert!(is(took, HEADERS), "headers sent byte by byte get no extra time: {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connection_ends_sooner_when_slots_are_scarce() {
        let (mut near, _far, activity) = timed(1);
        drop(activity.begin());
        assert!(is(ends_after(&mut near).await, HEADERS));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_starts_at_the_end_of_the_response() {
        let (mut near, _far, activity) = timed(8);
        let request = activity.begin();
        let answer = async {
            tokio::time::sleep(IDLE * 2).await;
            drop(request);
        };
        let (took, ()) = tokio::join!(ends_after(&mut near), answer);
        assert!(is(took, IDLE * 3), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn request_in_progress_has_no_time_limit() {
        let (mut near, mut far, activity) = timed(8);
        let request = activity.begin();
        let later = async {
            tokio::time::sleep(IDLE * 4).await;
            far.write_u8(b'x').await.unwrap();
        };
        let (read, ()) = tokio::join!(near.read_u8(), later);
        assert_eq!(read.unwrap(), b'x');
        drop(request);
    }
}
