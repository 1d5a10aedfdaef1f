//! The server does a write and its response is lost: whatever arrives instead, the outcome is unknown, and nothing is
//! done twice.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use goldseam_conformance::make::{append, run};
use goldseam_core::Seq;
use goldseam_store::{Store, StoreError};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::Cluster;

use crate::support::{cluster, code, open};

/// The response to a request with this text is lost.
const MARK: &str = "lose the answer";

/// The data that replaces a response, before the connection is closed.
type Instead = Arc<Mutex<Vec<u8>>>;

/// A proxy between a store and a server that loses marked responses.
struct LossyProxy {
    address: SocketAddr,
    instead: Instead,
}

impl LossyProxy {
    fn start(cluster: &Cluster) -> Self {
        let server = cluster.url().rsplit(['@', '/']).nth(1).unwrap().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let instead = Instead::default();
        let sent = Arc::clone(&instead);
        in_thread(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                let marked = Arc::new(AtomicBool::new(false));
                let from = client.try_clone().unwrap();
                let to = server.try_clone().unwrap();
                let mark = Arc::clone(&marked);
                in_thread(move || {
                    pass(from, to, |request| {
                        let has_mark = request.windows(MARK.len()).any(|part| part == MARK.as_bytes());
                        mark.fetch_or(has_mark, Ordering::SeqCst);
                        None
                    });
                });
                let sent = Arc::clone(&sent);
                in_thread(move || {
                    pass(server, client, |_| {
                        marked.load(Ordering::SeqCst).then(|| sent.lock().unwrap().clone())
                    });
                });
            }
        });
        Self { address, instead }
    }
}

fn in_thread(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().spawn(work).unwrap();
}

/// Forwards data until a replacement is sent; then closes both connections.
fn pass(mut from: TcpStream, mut to: TcpStream, instead: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let other = instead(&buffer[..count]);
        let written = to.write_all(other.as_deref().unwrap_or(&buffer[..count]));
        if other.is_some() || written.is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// An error message of the protocol.
fn error(fields: &[&str]) -> Vec<u8> {
    let body: Vec<u8> =
        fields.iter().flat_map(|field| [field.as_bytes(), b"\0"].concat()).chain([0]).collect();
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [b"E".as_slice(), &length, &body].concat()
}

/// An error message after which the server is ready for the next query.
fn error_then_ready(fields: &[&str]) -> Vec<u8> {
    [error(fields), b"Z\0\0\0\x05I".to_vec()].concat()
}

/// get-convex/convex-backend#559: a COMMIT whose response was lost counted as failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pg_lost_commit_ack() {
    let cluster = cluster();
    let proxy = LossyProxy::start(&cluster);
    let place = format!("postgres://goldseam@{}/goldseam", proxy.address);
    // Poolers do not send the field `V`, the severity that is never translated.
    let cases = [
        ("silence", vec![]),
        ("the server ends the session", error(&["SFATAL", "VFATAL", "C57P01", "Mterminating connection"])),
        ("the pooler shuts down", error(&["SFATAL", "C57P01", "Mthe pooler is shut down"])),
        ("the pooler lost its server", error(&["SERROR", "C08P01", "Mserver conn crashed?"])),
        (
            "the pooler lost its server and continues",
            error_then_ready(&["SERROR", "C08P01", "Mserver conn crashed?"]),
        ),
    ];
    for (number, (name, instead)) in (0..).zip(cases) {
        for url in [place.clone(), format!("{place}?pooler=transaction")] {
            let store = open(&url).await;
            let log = format!("{number}-{}", url.len());
            store.append(append(&log, 0, &["{}"])).await.unwrap();
            *proxy.instead.lock().unwrap() = instead.clone();
            let outcome = store.append(append(&log, 1, &[MARK])).await;
            assert!(matches!(outcome, Err(StoreError::Unknown { .. })), "{name} at {url}: {outcome:?}");
            let records = store.read(&run(&log), Seq(0), 9).await.unwrap();
            assert_eq!(records.len(), 2, "{name} at {url}: {records:?}");
        }
    }
}

#[tokio::test]
async fn recognises_a_pooler_by_its_startup_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("postgres://goldseam@{}/goldseam", listener.local_addr().unwrap());
    in_thread(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.read(&mut [0; 1024]);
            let _ =
                client.write_all(&error(&["SFATAL", "C08P01", "Munsupported startup parameter: options"]));
        }
    });
    let refusal = PostgresStore::open_url(&place).await.unwrap_err();
    assert_eq!(code(&refusal), "GS0215", "{refusal}");
    // A declared pooler may send this error for other reasons.
    let refusal = PostgresStore::open_url(&format!("{place}?pooler=transaction")).await.unwrap_err();
    assert_eq!(code(&refusal), "GS0205", "{refusal}");
}
