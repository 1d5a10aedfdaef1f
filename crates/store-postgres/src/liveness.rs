//! The liveness session: it holds the locks of this process's nodes and hears what others tell.
//!
//! The server drops its locks when the process or its machine is gone. It is served by a thread of its own, so
//! that user code which never yields cannot end it, and made again as soon as it is lost: the locks first.
//!
//! Invariant: a node's lock is a hint for others; nothing that is written depends on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use goldseam_core::{Hash, NodeId};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot, watch};
use tokio_postgres::Notification;
use tokio_postgres::types::Type;

use crate::connection::{LiveSession, Role, Target, jittered};
use crate::fault::{Failure, Fault, Nature};
use crate::watch::Watch;

const LOCK: &str = "SELECT pg_try_advisory_lock(k) FROM unnest($1::bigint[]) AS k";
const UNLOCK: &str = "SELECT pg_advisory_unlock($1)";

/// The pause before a lost session is made again; the longest.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(800);
/// How long after the server or the own session came back others have for taking their locks again.
pub(crate) const SETTLING: Duration = Duration::from_secs(3);
/// How long a beat waits for the session.
const PATIENCE: Duration = Duration::from_secs(3);

/// Nodes of this process, with the keys of their locks.
type Pulses = BTreeMap<NodeId, i64>;

/// The session, while it stands.
#[derive(Debug)]
pub(crate) struct Live {
    handle: Handle,
    session: watch::Receiver<Option<Arc<LiveSession>>>,
    pulses: Arc<Mutex<Pulses>>,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

impl Live {
    /// Starts the thread that keeps the session.
    pub(crate) fn start(target: Arc<Target>, watch: Arc<Watch>) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let (told, session) = watch::channel(None);
        let pulses: Arc<Mutex<Pulses>> = Arc::default();
        let keeper = Keeper { target, watch, told, pulses: Arc::clone(&pulses) };
        std::thread::Builder::new().name("goldseam-postgres-live".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = keeper.keep() => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self { handle, session, pulses, _stop: stop })
    }

    fn pulses(&self) -> MutexGuard<'_, Pulses> {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node's lock is to be held from now on, over lost sessions too.
    pub(crate) fn hold(&self, node: &NodeId, key: i64) {
        self.pulses().insert(node.clone(), key);
    }

    /// The node's lock is not to be held any more.
    pub(crate) fn let_go(&self, node: &NodeId) -> Option<i64> {
        self.pulses().remove(node)
    }

    /// Frees the lock in the session, if that stands.
    pub(crate) async fn unlock(&self, key: i64) -> Result<(), Fault> {
        self.on_session(
            move |session| async move { session.query(UNLOCK, &[(&key, Type::INT8)]).await.map(drop) },
        )
        .await
    }

    /// Whether what this process sees of others' locks can be trusted: not while its own session is lost or has
    /// only just been made again, because then others may have lost theirs too.
    pub(crate) fn is_settled(&self) -> bool {
        let session = self.session.borrow();
        let standing = session.as_ref().filter(|session| !session.is_closed());
        standing.is_some_and(|session| session.is_first() || session.age() >= SETTLING)
    }

    /// Does something in the session, on the session's own thread.
    pub(crate) async fn on_session<T, F, Fut>(&self, act: F) -> Result<T, Fault>
    where
        T: Send + 'static,
        F: FnOnce(Arc<LiveSession>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let mut session = self.session.clone();
        let acting = self.handle.spawn(async move {
            let standing =
                |session: &Option<Arc<LiveSession>>| session.as_ref().is_some_and(|s| !s.is_closed());
            let found = match tokio::time::timeout(PATIENCE, session.wait_for(standing)).await {
                Ok(Ok(session)) => session.clone(),
                _ => None,
            };
            match found {
                Some(session) => act(session).await,
                None => Err(away("no liveness session is open")),
            }
        });
        acting.await.unwrap_or_else(|_| Err(away("the store is closed")))
    }
}

fn away(words: &str) -> Fault {
    Fault::Unreachable(Failure { nature: Nature::Passing, words: words.to_owned() })
}

/// The key of a node's lock.
pub(crate) fn pulse_key(schema: &str, node: &NodeId) -> i64 {
    key_of(&["pulse", schema, node.as_str()])
}

/// The key of an advisory lock; those of other programs are not likely to be the same.
pub(crate) fn key_of(parts: &[&str]) -> i64 {
    let hash = Hash::of_parts(&[&["goldseam"], parts].concat()).to_string();
    let digits = hash.get(..16).unwrap_or(&hash);
    u64::from_str_radix(digits, 16).unwrap_or_default().cast_signed()
}

/// What the thread does.
struct Keeper {
    target: Arc<Target>,
    watch: Arc<Watch>,
    told: watch::Sender<Option<Arc<LiveSession>>>,
    pulses: Arc<Mutex<Pulses>>,
}

impl Keeper {
    /// Has a session, again and again.
    async fn keep(&self) {
        let (mut pause, mut first) = (PAUSE, true);
        loop {
            match self.stand(first).await {
                Ok(()) => pause = PAUSE,
                Err(fault) => {
                    tracing::warn!(?fault, "failed to open the liveness session");
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
            first = false;
            // What was told meanwhile was not heard.
            self.watch.bump();
            tokio::time::sleep(jittered(pause)).await;
        }
    }

    /// Makes a session and keeps it until it is lost.
    async fn stand(&self, first: bool) -> Result<(), Fault> {
        let (watch, pulses) = (Arc::clone(&self.watch), Arc::clone(&self.pulses));
        let over = Arc::new(Notify::new());
        let ended = Arc::clone(&over);
        let heard = move |note: Option<Notification>| match note {
            // What this process told itself, it knows.
            Some(note) => {
                let pulses = pulses.lock().unwrap_or_else(PoisonError::into_inner);
                if !pulses.keys().any(|node| node.as_str() == note.payload()) {
                    watch.bump();
                }
            }
            None => ended.notify_one(),
        };
        let made = self.target.connect(Role::Live, heard).await?;
        let session = Arc::new(LiveSession::new(made, first, &self.target.options));
        let keys: Vec<i64> =
            self.pulses.lock().unwrap_or_else(PoisonError::into_inner).values().copied().collect();
        if !keys.is_empty() {
            session.query(LOCK, &[(&keys, Type::INT8_ARRAY)]).await?;
        }
        session.execute(&["LISTEN ", &self.target.options.schema].concat()).await?;
        self.told.send_replace(Some(Arc::clone(&session)));
        self.watch.bump();
        tokio::select! {
            () = over.notified() => {}
            () = session.lost() => {}
        }
        self.told.send_replace(None);
        Ok(())
    }
}
