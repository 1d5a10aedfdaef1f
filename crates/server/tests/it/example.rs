//! Runs the example that uses the HTTP interface, twice: the second time its run already exists.

use crate::test_server::TestServer;

#[path = "../../../../examples/http_client.rs"]
#[expect(dead_code, reason = "the test does not call `main`")]
mod http_client;

#[tokio::test(flavor = "multi_thread")]
async fn example_http_client_runs_and_runs_again() {
    let server = TestServer::open().await;
    for _ in 0..2 {
        assert_eq!(http_client::run(&server.url).unwrap(), "same run: true; runs: 1");
    }
}
