//! Reads on the thread of the caller, and on the reader threads.

use std::sync::{Arc, mpsc};
use std::thread;

use super::{TIMEOUT, open};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_read_runs_on_the_callers_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("gold.db")));
    let task = tokio::spawn(async move {
        let reader = store.readers.read_on_caller_thread(|_| Ok(thread::current().id())).await.unwrap();
        (thread::current().id(), reader)
    });
    let (caller, reader) = task.await.unwrap();
    assert_eq!(reader, caller);
}

/// The only worker of a runtime must not block.
#[tokio::test]
async fn a_small_read_of_a_single_worker_runs_on_a_reader_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("gold.db"));
    let reader = store.readers.read_on_caller_thread(|_| Ok(thread::current().id())).await.unwrap();
    assert_ne!(reader, thread::current().id());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_read_waits_for_a_connection_if_none_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("gold.db")));
    let (entered, inside) = mpsc::channel();
    let mut gates = Vec::new();
    let mut holders = Vec::new();
    for _ in 0..crate::SqliteOptions::default().readers {
        let (gate, opened) = mpsc::channel::<()>();
        let store = Arc::clone(&store);
        let entered = entered.clone();
        holders.push(tokio::spawn(async move {
            let hold = move |_: &rusqlite::Connection| {
                entered.send(()).unwrap();
                let _ = opened.recv();
                Ok(())
            };
            store.readers.read(hold).await.unwrap();
        }));
        gates.push(gate);
    }
    tokio::task::block_in_place(|| holders.iter().for_each(|_| inside.recv().unwrap()));
    let small = tokio::spawn(async move { store.readers.read_on_caller_thread(|_| Ok(())).await });
    tokio::task::yield_now().await;
    assert!(!small.is_finished());
    drop(gates);
    tokio::time::timeout(TIMEOUT, small).await.unwrap().unwrap().unwrap();
    for holder in holders {
        holder.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn small_reads_do_not_starve_reads_on_reader_threads() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&folder.path().join("gold.db")));
    let small = (0..2).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            loop {
                store.readers.read_on_caller_thread(|_| Ok(())).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    let small: Vec<_> = small.collect();
    let large = async {
        for _ in 0..1_000 {
            store.readers.read(|_| Ok(())).await.unwrap();
        }
    };
    tokio::time::timeout(TIMEOUT, large).await.unwrap();
    small.iter().for_each(tokio::task::JoinHandle::abort);
}
