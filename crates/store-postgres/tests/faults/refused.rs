//! Unusable servers and schemas: each refusal has a code and a hint, and nothing changes.

use std::sync::Arc;

use goldseam_conformance::make::{append, run};
use goldseam_core::Seq;
use goldseam_store::{Store, StoreError};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::pgbouncer::Pooler;
use tokio::task::{JoinSet, block_in_place};

use crate::support::{cluster, code, open};

async fn refusal(url: &str) -> StoreError {
    PostgresStore::open_url(url).await.unwrap_err()
}

#[tokio::test]
async fn a_failed_login_is_reported_without_the_password() {
    let cluster = cluster();
    let url = cluster.user("ana", "s3cret").unwrap();
    for (wrong, word) in [
        (url.replace("s3cret", "guess3d"), "password"),
        (url.replace(":s3cret", ""), "password"),
        (url.replace("/goldseam", "/nowhere"), "nowhere"),
        (cluster.url().replace("goldseam@", "unknown_user@"), "unknown_user"),
    ] {
        let error = refusal(&wrong).await;
        assert_eq!(code(&error), "GS0213", "{wrong}: {error}");
        assert!(error.to_string().contains(word), "{wrong}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("guess3d"), "{shown}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let error = refusal("postgres://ana@127.0.0.1:1/orders").await;
    assert_eq!(code(&error), "GS0205");
    assert!(error.to_string().contains("\"orders\" at 127.0.0.1"), "{error}");
    let error = refusal("postgres:///orders?host=/nowhere&user=ana").await;
    assert_eq!(code(&error), "GS0205");
    let error = refusal("postgres://ana@no-such-host.invalid/orders").await;
    assert_eq!(code(&error), "GS0205");
}

#[tokio::test]
async fn reports_missing_privileges_before_and_after_opening() {
    let cluster = cluster();
    let url = cluster.user("ana", "s3cret").unwrap();
    assert_eq!(code(&refusal(&url).await), "GS0214", "the user may not create the schema");
    // The minimum that an administrator has to grant.
    cluster.sql("CREATE SCHEMA goldseam AUTHORIZATION ana;").unwrap();
    let store = open(&url).await;
    store.append(append("a", 0, &["{}"])).await.unwrap();
    cluster.sql("ALTER SCHEMA goldseam OWNER TO goldseam; REVOKE ALL ON SCHEMA goldseam FROM ana;").unwrap();
    assert_eq!(code(&store.append(append("a", 1, &["{}"])).await.unwrap_err()), "GS0214");
    assert_eq!(code(&store.read(&run("a"), Seq(0), 1).await.unwrap_err()), "GS0214");
    assert_eq!(code(&refusal(&url).await), "GS0214");
    cluster.sql("ALTER SCHEMA goldseam OWNER TO ana;").unwrap();
    assert_eq!(store.append(append("a", 1, &["{}"])).await.unwrap(), Seq(2));
}

#[tokio::test]
async fn does_not_change_a_foreign_schema_of_the_same_name() {
    let cluster = cluster();
    cluster.sql("CREATE SCHEMA goldseam; CREATE TABLE goldseam.orders (id int);").unwrap();
    let tables =
        || cluster.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'goldseam'::regnamespace;");
    let before = tables().unwrap();
    let error = refusal(&cluster.url()).await;
    assert_eq!(code(&error), "GS0201");
    assert!(error.to_string().contains("\"goldseam\""), "{error}");
    // A table named migrations does not make the schema ours.
    cluster.sql("CREATE TABLE goldseam.migrations (id int, applied_at timestamptz);").unwrap();
    assert_eq!(code(&refusal(&cluster.url()).await), "GS0201");
    cluster.sql("DROP TABLE goldseam.migrations;").unwrap();
    assert_eq!(tables().unwrap(), before);
    open(&format!("{}?schema=gold", cluster.url())).await;
}

#[tokio::test]
async fn refuses_another_encoding() {
    let cluster = cluster();
    cluster.sql("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0;").unwrap();
    let error = refusal(&format!("{}old", cluster.url().trim_end_matches("goldseam"))).await;
    assert_eq!(code(&error), "GS0216");
    assert!(error.to_string().contains("LATIN1"), "{error}");
}

#[tokio::test]
async fn detects_an_undeclared_pooler_before_it_writes() {
    let cluster = cluster();
    let pooler = Pooler::start(&cluster.url()).unwrap();
    let store = open(&pooler.url()).await;
    for after in 0..2 {
        store.append(append("a", after, &["{}"])).await.unwrap();
    }
    // This client holds the session in which the append was prepared.
    let (client, connection) = tokio_postgres::connect(&pooler.url(), tokio_postgres::NoTls).await.unwrap();
    let serving = tokio::spawn(connection);
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(code(&store.append(append("a", 2, &["{}"])).await.unwrap_err()), "GS0215");
    drop(client);
    serving.await.unwrap().unwrap();
    let store = open(&format!("{}?pooler=transaction", pooler.url())).await;
    assert_eq!(store.append(append("a", 2, &["{}"])).await.unwrap(), Seq(3));
}

#[tokio::test]
async fn reports_a_schema_that_was_dropped_while_open() {
    let cluster = cluster();
    let store = open(&cluster.url()).await;
    store.append(append("a", 0, &["{}"])).await.unwrap();
    store.read(&run("a"), Seq(0), 1).await.unwrap();
    cluster.sql("DROP SCHEMA goldseam CASCADE;").unwrap();
    for _ in 0..3 {
        assert_eq!(code(&store.append(append("a", 1, &["{}"])).await.unwrap_err()), "GS0205");
        assert_eq!(code(&store.read(&run("a"), Seq(0), 1).await.unwrap_err()), "GS0205");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_nodes_create_one_schema() {
    let cluster = cluster();
    for isolation in ["read committed", "serializable"] {
        block_in_place(|| cluster.set("default_transaction_isolation", isolation)).unwrap();
        let url = format!("{}?schema={}", cluster.url(), isolation.replace(' ', "_"));
        let mut opening = JoinSet::new();
        for _ in 0..10 {
            let url = url.clone();
            opening.spawn(async move { PostgresStore::open_url(&url).await.map(Arc::new) });
        }
        let stores = opening.join_all().await.into_iter().collect::<Result<Vec<_>, _>>().unwrap();
        let mut racing = JoinSet::new();
        for store in stores {
            racing.spawn(async move { store.append(append("a", 0, &["{}"])).await });
        }
        let outcomes = racing.join_all().await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{isolation}: {outcomes:?}");
        let lost =
            |outcome: &Result<Seq, StoreError>| matches!(outcome, Err(StoreError::Conflict { end: Seq(1) }));
        assert_eq!(outcomes.iter().filter(|outcome| lost(outcome)).count(), 9, "{isolation}: {outcomes:?}");
    }
}
