//! Failures during appends: no acknowledged event is lost, and none is stored twice.

use goldseam_testbed::pgbouncer::Pooler;
use goldseam_testbed::postgres::Shutdown;
use tokio::task::block_in_place;

use crate::support::{Writers, cluster, durable, open};

const END_SESSIONS: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'goldseam';";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_survive_restarts_of_the_server() {
    let cluster = durable();
    let stores = [open(&cluster.url()).await, open(&cluster.url()).await];
    let writers = Writers::start(&stores);
    for shutdown in [Shutdown::Fast, Shutdown::Immediate, Shutdown::Fast, Shutdown::Immediate] {
        writers.wait_for_more(100).await;
        block_in_place(|| cluster.restart(shutdown)).unwrap();
    }
    writers.wait_for_more(100).await;
    writers.check(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_survive_terminated_sessions() {
    let cluster = cluster();
    let stores = [open(&cluster.url()).await, open(&cluster.url()).await];
    let writers = Writers::start(&stores);
    for _ in 0..15 {
        writers.wait_for_more(30).await;
        let ended = block_in_place(|| cluster.sql(END_SESSIONS)).unwrap();
        assert_ne!(ended, "0");
    }
    writers.wait_for_more(30).await;
    writers.check(&stores[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_survive_restarts_of_pooler_and_server() {
    let cluster = durable();
    let pooler = Pooler::start(&cluster.url()).unwrap();
    let url = format!("{}?pooler=transaction", pooler.url());
    let stores = [open(&url).await, open(&url).await];
    let writers = Writers::start(&stores);
    for _ in 0..3 {
        writers.wait_for_more(60).await;
        block_in_place(|| pooler.restart()).unwrap();
        writers.wait_for_more(60).await;
        block_in_place(|| cluster.restart(Shutdown::Immediate)).unwrap();
    }
    writers.wait_for_more(60).await;
    writers.check(&stores[0]).await;
}
