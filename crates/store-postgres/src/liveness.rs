//! The liveness session: it holds the locks of this process's nodes and receives notifications of other processes.
//!
//! The server drops its locks when the process or its machine dies. A separate thread serves the session, so user code
//! that never yields cannot end it. A lost session is opened again at once, and takes the locks first.
//!
//! Invariant: a node's lock is a hint for other processes; no write depends on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::NodeId;
use goldseam_store::ChangeMark;
use goldseam_store::backoff::{Backoff, jittered};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot, watch};
use tokio_postgres::Notification;
use tokio_postgres::types::Type;

use crate::advisory_lock::key_of;
use crate::connection::{ConnectionTarget, LivenessSession, SessionRole};
use crate::fault::{PgFailure, PgFailureKind, PgFault};

const LOCK: &str = "SELECT pg_try_advisory_lock(k) FROM unnest($1::bigint[]) AS k";
const UNLOCK: &str = "SELECT pg_advisory_unlock($1)";

/// The pause before a lost session is opened again.
const PAUSE: Duration = Duration::from_millis(50);
/// The pause after the first failure to open the session.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(800);
/// How long other processes have to take their locks again after the server or this session came back.
pub(crate) const SETTLING: Duration = Duration::from_secs(3);
/// How long a beat waits for the session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// The nodes of this process, with the keys of their locks.
type Pulses = BTreeMap<NodeId, i64>;

/// The handle of the thread that keeps the session open.
#[derive(Debug)]
pub(crate) struct LivenessHandle {
    handle: Handle,
    session: watch::Receiver<Option<Arc<LivenessSession>>>,
    pulses: Arc<Mutex<Pulses>>,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl LivenessHandle {
    /// Starts the thread.
    pub(crate) fn start(target: Arc<ConnectionTarget>, mark: Arc<ChangeMark>) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (current, session) = watch::channel(None);
        let pulses: Arc<Mutex<Pulses>> = Arc::default();
        let keeper = SessionKeeper { target, mark, current, pulses: Arc::clone(&pulses) };
        std::thread::Builder::new().name("goldseam-postgres-live".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keeper.run() => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { handle, session, pulses, _stop: stop })
    }

    fn pulses(&self) -> MutexGuard<'_, Pulses> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds the node's lock from now on, also in later sessions.
    pub(crate) fn hold(&self, node: &NodeId, key: i64) {
        self.pulses().insert(node.clone(), key);
    }

    /// No longer holds the node's lock. Returns its key.
    pub(crate) fn release(&self, node: &NodeId) -> Option<i64> {
        self.pulses().remove(node)
    }

    /// Unlocks a key in the session.
    pub(crate) async fn unlock(&self, key: i64) -> Result<(), PgFault> {
        self.on_session(
            move |session| async move { session.query(UNLOCK, &[(&key, Type::INT8)]).await.map(drop) },
        )
        .await
    }

    /// Whether this process may trust the locks that it sees of other processes. Not while its own session is lost, or
    /// right after it was opened again: then others may have lost theirs too.
    pub(crate) fn is_settled(&self) -> bool {
        let session = self.session.borrow();
        let open = session.as_ref().filter(|session| !session.is_closed());
        open.is_some_and(|session| session.is_first() || session.age() >= SETTLING)
    }

    /// Runs `act` in the session, on the thread of the session.
    pub(crate) async fn on_session<T, F, Fut>(&self, act: F) -> Result<T, PgFault>
    where
        T: Send + 'static,
        F: FnOnce(Arc<LivenessSession>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, PgFault>> + Send + 'static,
    {
        let mut session = self.session.clone();
        let acting = self.handle.spawn(async move {
            let is_open =
                |session: &Option<Arc<LivenessSession>>| session.as_ref().is_some_and(|s| !s.is_closed());
            let found = match tokio::time::timeout(SESSION_TIMEOUT, session.wait_for(is_open)).await {
                Ok(Ok(session)) => session.clone(),
                _ => None,
            };
            match found {
                Some(session) => act(session).await,
                None => Err(unreachable_session("no liveness session is open")),
            }
        });
        acting.await.unwrap_or_else(|_| Err(unreachable_session("the store is closed")))
    }
}

fn unreachable_session(message: &str) -> PgFault {
    PgFault::Unreachable(PgFailure { kind: PgFailureKind::Passing, message: message.to_owned() })
}

/// The key of a node's lock.
pub(crate) fn pulse_key(schema: &str, node: &NodeId) -> i64 {
    key_of(&["pulse", schema, node.as_str()])
}

/// The work of the thread.
struct SessionKeeper {
    target: Arc<ConnectionTarget>,
    mark: Arc<ChangeMark>,
    current: watch::Sender<Option<Arc<LivenessSession>>>,
    pulses: Arc<Mutex<Pulses>>,
}

impl SessionKeeper {
    /// Opens the session again and again.
    async fn run(&self) {
        let mut backoff = Backoff::new(RETRY_PAUSE, RETRY_PAUSE_MAX);
        let mut is_first = true;
        loop {
            let pause = match self.hold_session(is_first).await {
                Ok(()) => {
                    backoff.reset();
                    jittered(PAUSE)
                }
                Err(fault) => {
                    tracing::warn!(?fault, "failed to open the liveness session");
                    backoff.next_pause()
                }
            };
            is_first = false;
            // Notifications were lost meanwhile.
            self.mark.bump();
            tokio::time::sleep(pause).await;
        }
    }

    /// Opens a session and keeps it until it is lost.
    async fn hold_session(&self, is_first: bool) -> Result<(), PgFault> {
        let mark = Arc::clone(&self.mark);
        let pulses = Arc::clone(&self.pulses);
        let ended = Arc::new(Notify::new());
        let end = Arc::clone(&ended);
        let on_message = move |note: Option<Notification>| match note {
            // Own notifications bring no news.
            Some(note) => {
                let pulses = pulses.lock().unwrap_or_else(PoisonError::into_inner);
                if !pulses.keys().any(|node| node.as_str() == note.payload()) {
                    mark.bump();
                }
            }
            None => end.notify_one(),
        };
        let (client, guard) = self.target.connect(SessionRole::Liveness, on_message).await?;
        let session = Arc::new(LivenessSession::new(client, guard, is_first, &self.target.options));
        let keys: Vec<i64> =
            self.pulses.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
        if !keys.is_empty() {
            session.query(LOCK, &[(&keys, Type::INT8_ARRAY)]).await?;
        }
        session.execute(&["LISTEN ", &self.target.options.schema].concat()).await?;
        self.current.send_replace(Some(Arc::clone(&session)));
        self.mark.bump();
        tokio::select! {
            () = ended.notified() => {}
            () = session.lost() => {}
        }
        self.current.send_replace(None);
        Ok(())
    }
}
