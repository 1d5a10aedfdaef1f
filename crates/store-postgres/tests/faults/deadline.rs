//! A server that keeps its connections but stops answering, like a stopped process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use goldseam_conformance::deadline::calls_that_hang;
use goldseam_conformance::nodes::node;
use goldseam_store::Store;
use goldseam_store_postgres::{PostgresStore, url};
use goldseam_testbed::postgres::Cluster;

use crate::support::{TIMEOUT, cluster};

/// A proxy between a store and a server that can drop responses.
struct MutingProxy {
    address: SocketAddr,
    /// Drops all responses.
    all: Arc<AtomicBool>,
    /// Drops the responses of the next connection whose request contains this text.
    at: Arc<Mutex<Option<&'static str>>>,
}

impl MutingProxy {
    fn start(cluster: &Cluster) -> Self {
        let server = cluster.url().rsplit(['@', '/']).nth(1).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mute = Self { address: listener.local_addr().unwrap(), all: Arc::default(), at: Arc::default() };
        let all = Arc::clone(&mute.all);
        let at = Arc::clone(&mute.at);
        in_thread(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                let own = Arc::new(AtomicBool::new(false));
                let from = client.try_clone().unwrap();
                let to = server.try_clone().unwrap();
                let at = Arc::clone(&at);
                let muted = Arc::clone(&own);
                in_thread(move || {
                    pass(from, to, |request| {
                        let mut at = at.lock().unwrap();
                        let is_here =
                            |text: &str| request.windows(text.len()).any(|part| part == text.as_bytes());
                        if at.is_some_and(is_here) {
                            *at = None;
                            muted.store(true, Ordering::SeqCst);
                        }
                        true
                    });
                });
                let all = Arc::clone(&all);
                in_thread(move || {
                    pass(server, client, |_| !own.load(Ordering::SeqCst) && !all.load(Ordering::SeqCst));
                });
            }
        });
        mute
    }

    async fn store(&self) -> Arc<PostgresStore> {
        let url = format!("postgres://goldseam@{}/goldseam?connect_timeout=1", self.address);
        let mut options = url::parse(&url).unwrap();
        options.call_timeout = Duration::from_millis(500);
        Arc::new(PostgresStore::open(options).await.unwrap())
    }
}

fn in_thread(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().spawn(work).unwrap();
}

/// Forwards data that `may` allows.
fn pass(mut from: TcpStream, mut to: TcpStream, may: impl Fn(&[u8]) -> bool) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if may(&buffer[..count]) && to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

/// riverqueue/river#1251: a call to a stalled database never ended, and blocked everything after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_store_call_has_deadline() {
    let cluster = cluster();
    let mute = MutingProxy::start(&cluster);
    let store = mute.store().await;
    store.beat(&node("n-1")).await.unwrap();
    mute.all.store(true, Ordering::SeqCst);
    // Time to wait for a connection, to open one, and to query: no longer, even with many waiters.
    let hanging = calls_that_hang(store, Duration::from_secs(15)).await;
    assert!(hanging.is_empty(), "{hanging:?}");
    mute.all.store(false, Ordering::SeqCst);
    // No call opens the liveness session: it has its own deadline, or its node is never seen again.
    *mute.at.lock().unwrap() = Some("LISTEN");
    let other = mute.store().await;
    let beaten = tokio::time::timeout(TIMEOUT, async { while other.beat(&node("n-2")).await.is_err() {} });
    assert!(beaten.await.is_ok(), "a silent session has a deadline");
    assert!(mute.at.lock().unwrap().is_none());
}
