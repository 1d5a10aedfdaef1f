//! What a connection does now: waits for a request, reads its headers, or answers it. Each has a time limit of its own.
//!
//! hyper counts the time since the last answer as time of the next headers: with its timer alone, the limit for slow
//! headers would be the limit for idle connections, too. So hyper's timer is off, and [`Timed`] keeps both limits.

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

/// What one connection does, as its stream and its service see it.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    begun: AtomicU64,
    answered: AtomicU64,
    /// Whether headers have come in part.
    is_heading: AtomicBool,
    /// Whether the last request has a body that was not read to its end.
    is_unread: AtomicBool,
    /// The task of the connection.
    task: Mutex<Option<Waker>>,
}

impl Activity {
    /// A request begins; it is answered when the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.begun.fetch_add(1, Ordering::AcqRel);
        self.is_heading.store(false, Ordering::Release);
        self.is_unread.store(false, Ordering::Release);
        UnderWay(Arc::clone(self))
    }

    /// Whether the other end may still be sending what is not going to be read.
    pub(crate) fn has_unread(&self) -> bool {
        self.is_heading.load(Ordering::Acquire) || self.is_unread.load(Ordering::Acquire)
    }

    /// Part of a request has come.
    pub(crate) fn heading(&self) {
        self.is_heading.store(true, Ordering::Release);
    }

    fn task(&self) -> MutexGuard<'_, Option<Waker>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many requests were answered; none while one is under way.
    fn rests_after(&self) -> Option<u64> {
        let answered = self.answered.load(Ordering::Acquire);
        (answered == self.begun.load(Ordering::Acquire)).then_some(answered)
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.answered.fetch_add(1, Ordering::AcqRel);
        // hyper does not read again on its own after an answer, and the time of an idle connection begins with a read.
        let task = self.0.task().take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The body of a request: notes whether it was read to its end.
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

/// The body of an answer: holds what the request takes until all of it was sent.
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

/// How long a connection may wait.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// For the headers of a request, and for the first byte of the first.
    pub(crate) headers: Duration,
    /// For the next request after an answer.
    pub(crate) idle: Duration,
    /// Places for connections that are free, and how many there are. While less than a quarter is free, an idle
    /// connection has no more time than headers have.
    pub(crate) room: (Arc<Semaphore>, usize),
}

impl Bounds {
    fn is_crowded(&self) -> bool {
        self.room.0.available_permits() * 4 < self.room.1
    }
}

/// A stream of requests that ends when the next one, or its headers, take too long.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    inner: T,
    activity: Arc<Activity>,
    bounds: Bounds,
    /// The wait that is going on.
    wait: Option<Wait>,
}

#[derive(Debug)]
struct Wait {
    /// How many requests were answered before.
    after: u64,
    begun: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<T> Timed<T> {
    pub(crate) fn new(inner: T, activity: Arc<Activity>, bounds: Bounds) -> Self {
        Self { inner, activity, bounds, wait: None }
    }

    /// Whether the connection waits for the first byte of another request.
    fn is_idle(&self, after: u64) -> bool {
        after > 0 && !self.activity.is_heading.load(Ordering::Acquire)
    }

    fn wait(&self, after: u64) -> Wait {
        let Bounds { headers, idle, .. } = self.bounds;
        let first = if self.is_idle(after) { headers.min(idle) } else { headers };
        let timer = tokio::time::sleep(first);
        Wait { after, begun: timer.deadline() - first, timer: Box::pin(timer) }
    }

    /// Ready when the connection has waited for too long. An idle one is looked at as often as headers would end.
    fn is_over(&mut self, cx: &mut Context<'_>, after: u64) -> Poll<()> {
        let mut wait = match self.wait.take().filter(|wait| wait.after == after) {
            Some(wait) => wait,
            None => self.wait(after),
        };
        let is_idle = self.is_idle(after);
        let end = wait.begun + self.bounds.idle;
        while wait.timer.as_mut().poll(cx).is_ready() {
            let now = wait.timer.deadline();
            if !is_idle || now >= end || self.bounds.is_crowded() {
                return Poll::Ready(());
            }
            wait.timer.as_mut().reset(end.min(now + self.bounds.headers));
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
        let Some(after) = self.activity.rests_after() else { return poll };
        if poll.is_ready() {
            if buffer.filled().len() > before && !self.activity.is_heading.load(Ordering::Acquire) {
                self.activity.heading();
                if after > 0 {
                    self.wait = Some(self.wait(after));
                }
            }
            return poll;
        }
        ready!(self.is_over(cx, after));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the next request takes too long")))
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
        let bounds = Bounds { headers: HEADERS, idle: IDLE, room: (Arc::new(Semaphore::new(free)), 8) };
        (Timed::new(near, Arc::clone(&activity), bounds), far, activity)
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

    /// Close to the limit: timers of tokio are as fine as a millisecond.
    fn is(took: Duration, limit: Duration) -> bool {
        (limit..limit + Duration::from_millis(20)).contains(&took)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_has_the_time_of_headers() {
        let (mut near, _far, _activity) = timed(8);
        assert!(is(ends_after(&mut near).await, HEADERS));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_has_longer_than_the_headers_of_its_next_request() {
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
        assert!(is(took, HEADERS), "headers that come byte by byte have no more time: {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_sooner_while_places_are_scarce() {
        let (mut near, _far, activity) = timed(1);
        drop(activity.begin());
        assert!(is(ends_after(&mut near).await, HEADERS));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_idle_connection_begins_with_the_end_of_the_answer() {
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
    async fn a_request_under_way_has_all_the_time() {
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
