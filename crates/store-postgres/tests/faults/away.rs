//! Servers that are unavailable for a while: calls are busy, and the same store works again afterwards.

use std::sync::Arc;
use std::time::Duration;

use goldseam_conformance::make::{append, run};
use goldseam_core::Seq;
use goldseam_store::{Store, StoreError};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::Shutdown;
use tokio::task::{JoinSet, block_in_place};

use crate::support::{busy, cluster, code, open};

/// Appends to `count` runs at once. Returns the results.
async fn append_to_many(store: &Arc<PostgresStore>, count: usize) -> Vec<Result<Seq, StoreError>> {
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let store = Arc::clone(store);
        tasks.spawn(async move { store.append(append(&format!("many-{number}"), 0, &["{}"])).await });
    }
    tasks.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_stopped_server_is_busy_until_it_runs_again() {
    let cluster = cluster();
    let store = open(&cluster.url()).await;
    store.append(append("a", 0, &["{}"])).await.unwrap();
    block_in_place(|| cluster.stop(Shutdown::Fast)).unwrap();
    for outcome in append_to_many(&store, 50).await {
        // The first appends may have been under way.
        assert!(matches!(outcome, Err(StoreError::Busy { .. } | StoreError::Unknown { .. })), "{outcome:?}");
    }
    busy(store.append(append("a", 1, &["{}"])).await.unwrap_err());
    busy(store.read(&run("a"), Seq(0), 1).await.unwrap_err());
    let error = PostgresStore::open_url(&cluster.url()).await.unwrap_err();
    assert_eq!(code(&error), "GS0205");
    block_in_place(|| cluster.start_again()).unwrap();
    assert_eq!(store.append(append("a", 1, &["{}"])).await.unwrap(), Seq(2));
    assert_eq!(store.read(&run("a"), Seq(0), 9).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_read_only_server_is_busy_for_writers() {
    let cluster = cluster();
    let store = open(&cluster.url()).await;
    store.append(append("a", 0, &["{}"])).await.unwrap();
    block_in_place(|| cluster.set("default_transaction_read_only", "on")).unwrap();
    let error = store.append(append("a", 1, &["{}"])).await.unwrap_err();
    assert!(busy(error).contains("read-only"));
    // Many waiting appends fail together, not one after another.
    let outcomes = tokio::time::timeout(Duration::from_secs(20), append_to_many(&store, 200)).await.unwrap();
    assert!(outcomes.into_iter().all(|outcome| busy(outcome.unwrap_err()).contains("read-only")));
    assert_eq!(store.read(&run("a"), Seq(0), 9).await.unwrap().len(), 1);
    open(&cluster.url()).await.head(&run("a")).await.unwrap().unwrap();
    let error = PostgresStore::open_url(&format!("{}?schema=other", cluster.url())).await.unwrap_err();
    assert!(busy(error).contains("read-only"));
    block_in_place(|| cluster.set("default_transaction_read_only", "off")).unwrap();
    assert_eq!(store.append(append("a", 1, &["{}"])).await.unwrap(), Seq(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_without_free_connections_is_busy() {
    let cluster = cluster();
    let url = cluster.user("few", "pw").unwrap();
    cluster.sql("GRANT CREATE ON DATABASE goldseam TO few; ALTER ROLE few CONNECTION LIMIT 0;").unwrap();
    let error = PostgresStore::open_url(&url).await.unwrap_err();
    assert_eq!(code(&error), "GS0205");
    assert!(error.to_string().contains("too many connections"), "{error}");
    assert!(matches!(&error, StoreError::Refused { hint, .. } if hint.contains("connections")), "{error:?}");
    cluster.sql("ALTER ROLE few CONNECTION LIMIT 1;").unwrap();
    let store = open(&url).await;
    // The store's first read holds the only connection.
    let error = store.append(append("a", 0, &["{}"])).await.unwrap_err();
    assert!(busy(error).contains("too many connections"));
    block_in_place(|| cluster.sql("ALTER ROLE few CONNECTION LIMIT 6;")).unwrap();
    assert!(append_to_many(&store, 50).await.iter().all(Result::is_ok));
}
