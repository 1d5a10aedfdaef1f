//! A pooler lends its server connections transaction by transaction.

use goldseam_testbed::pgbouncer::{self, Pooler};
use goldseam_testbed::postgres::{self, Cluster, ClusterOptions};

use crate::postgres::psql;

#[test]
fn pools_by_transaction_and_survives_a_restart() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    let pooler = Pooler::start(&cluster.url()).unwrap();
    let backend = || psql(&pooler.url(), "SELECT pg_backend_pid()").unwrap();
    let first = backend();
    assert_eq!(backend(), first, "the second client gets the connection of the first");
    pooler.restart().unwrap();
    assert_ne!(backend(), first);
}

#[test]
fn one_server_and_one_pooler_are_shared() {
    let server = postgres::shared().unwrap();
    let pooler = pgbouncer::shared().unwrap();
    assert_eq!(postgres::shared().unwrap(), server);
    let port = server.rsplit([':', '/']).nth(1).unwrap();
    assert_eq!(psql(pooler, "SHOW port").unwrap(), port);
}
