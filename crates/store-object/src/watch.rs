//! Tells waiters that something may have changed: own writes at once, those of others when a look at the board
//! shows them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::Moment;
use crate::store::Inner;
use crate::url::Requests;

/// Pause between two looks at what others have put on the board.
const LOOK_EVERY: Duration = Duration::from_millis(1_000);
/// The same while something is going on.
const LOOK_BUSY_EVERY: Duration = Duration::from_millis(250);
/// The same where requests cost nothing.
const LOOK_FREE_EVERY: Duration = Duration::from_millis(50);
/// How long something is going on after its last sign.
const BUSY: Duration = Duration::from_secs(3);

/// The mark of the latest change that this process knows of.
#[derive(Debug)]
pub(crate) struct Watch {
    mark: watch::Sender<u64>,
    moved: Mutex<Moment>,
    /// One look at a time.
    looking: tokio::sync::Mutex<()>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            mark: watch::Sender::new(1),
            moved: Mutex::new(Moment::now()),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Something changed.
    pub(crate) fn bump(&self) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = Moment::now();
        self.mark.send_modify(|mark| *mark += 1);
    }

    fn still(&self) -> Duration {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

impl Inner {
    fn look_every(&self) -> Duration {
        match self.requests {
            Requests::Free => LOOK_FREE_EVERY,
            Requests::Paid if self.watch.still() < BUSY => LOOK_BUSY_EVERY,
            Requests::Paid => LOOK_EVERY,
        }
    }

    /// How old the board may be that is looked at again.
    pub(crate) fn fresh(&self) -> Duration {
        self.look_every().mul_f64(0.9)
    }

    /// Waits until the mark is not `seen`, looking at the board now and then.
    pub(crate) async fn changed(&self, seen: u64) -> u64 {
        let mut marks = self.watch.mark.subscribe();
        let told = async {
            match marks.wait_for(|mark| *mark != seen).await {
                Ok(mark) => *mark,
                Err(_) => unreachable!("the sender lives as long as the watch"),
            }
        };
        tokio::select! {
            mark = told => mark,
            () = self.look_out() => *self.watch.mark.borrow(),
        }
    }

    /// Returns once others have put something on the board.
    async fn look_out(&self) {
        let _one = self.watch.looking.lock().await;
        loop {
            let every = self.look_every();
            tokio::time::sleep(every).await;
            match self.board.refresh(self, every.mul_f64(0.9)).await {
                Ok(true) => return self.watch.bump(),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "failed to list the markers of ready tasks"),
            }
        }
    }
}
