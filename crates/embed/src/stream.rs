//! Streams of server-sent events, read by blocking calls.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt as _;
use goldseam_api::Problem;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::call::{is_empty, problem_of};

/// Pieces that are read ahead.
const AHEAD: usize = 64;

/// A stream of server-sent events: pieces of text, as a connection would deliver them.
#[derive(Debug)]
pub struct EventStream {
    pieces: Mutex<Receiver<Bytes>>,
    reader: JoinHandle<()>,
}

impl EventStream {
    pub(crate) fn of(response: Response, handle: &Handle) -> Result<Self, Problem> {
        if !response.status().is_success() {
            let (sender, receiver) = sync_channel(1);
            handle.spawn(async move {
                let _ = sender.send(problem_of(response).await);
            });
            let closed = |_| Problem::new(409, "the engine was closed").code("GS0631");
            return Err(receiver.recv().map_err(closed)?);
        }
        let (sender, receiver) = sync_channel(AHEAD);
        let ended = is_empty(&response);
        let reader = handle.spawn(async move {
            let mut pieces = response.into_body().into_data_stream();
            while let Some(Ok(piece)) = pieces.next().await {
                // A follower that does not read stops the stream: the pieces behind it stay in the log.
                let mut piece = Some(piece);
                while let Some(next) = piece.take() {
                    match sender.try_send(next) {
                        Ok(()) => {}
                        Err(std::sync::mpsc::TrySendError::Full(back)) => {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                            piece = Some(back);
                        }
                        Err(std::sync::mpsc::TrySendError::Disconnected(_)) => return,
                    }
                }
            }
        });
        if ended {
            reader.abort();
        }
        Ok(Self { pieces: Mutex::new(receiver), reader })
    }

    /// Waits for the next piece: `Ok(Some)` with text, `Ok(None)` after `timeout`, `Err` at the end of the stream.
    pub fn next(&self, timeout: Duration) -> Result<Option<Bytes>, StreamEnded> {
        let pieces = self.pieces.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match pieces.recv_timeout(timeout) {
            Ok(piece) => Ok(Some(piece)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(StreamEnded),
        }
    }

    /// Ends the stream. A waiting `next` returns.
    pub fn close(&self) {
        self.reader.abort();
    }
}

/// The stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamEnded;

impl Drop for EventStream {
    fn drop(&mut self) {
        self.close();
    }
}
