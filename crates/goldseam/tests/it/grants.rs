//! The SQL grants in the guide are sufficient for a node, and do not let it rewrite the log.

use goldseam::{Engine, OpenEngine as _};
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::{Cluster, ClusterOptions};

const GUIDE: &str = include_str!("../../../../docs/guides/from-one-machine-to-many.md");

/// Returns the SQL block of the guide.
fn grants() -> &'static str {
    let (_, rest) = GUIDE.split_once("```sql\n").unwrap();
    rest.split_once("```").unwrap().0
}

async fn greet(ctx: goldseam::Context, name: String) -> goldseam::Result<String> {
    ctx.sleep("breathe", std::time::Duration::from_millis(20)).await?;
    ctx.step("greet", || hello(&name)).await
}

async fn hello(name: &str) -> goldseam::Result<String> {
    Ok(format!("hello, {name}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_works_with_the_grants_of_the_guide() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    drop(PostgresStore::open_url(&cluster.url()).await.unwrap());
    let url = cluster.user("node", "secret").unwrap();
    assert!(
        Engine::open(&url).await.unwrap_err().to_string().contains("lacks a privilege"),
        "a node needs the grants"
    );
    cluster.sql(grants()).unwrap();
    let engine = Engine::open(&url).await.unwrap().workflow("greet", greet).start().await.unwrap();
    let greeting: String = engine.start("greet", "g", &"Ada").await.unwrap().result().await.unwrap();
    assert_eq!(greeting, "hello, Ada");
    engine.shutdown().await;
    let denied = cluster.sql("SET ROLE node; DELETE FROM goldseam.events;");
    assert!(denied.is_err(), "a node cannot rewrite history: {denied:?}");
}
