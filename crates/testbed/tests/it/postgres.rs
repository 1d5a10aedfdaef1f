//! A cluster responds, and fails on demand.

use goldseam_testbed::postgres::{Cluster, ClusterOptions, Shutdown};

#[test]
fn responds_over_tcp_and_over_its_socket() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    assert_eq!(cluster.sql("SELECT current_user, current_database();").unwrap(), "goldseam|goldseam");
    for url in [cluster.url(), cluster.socket_url()] {
        assert_eq!(psql(&url, "SELECT 1 + 1"), Ok("2".to_owned()), "{url}");
    }
}

#[test]
fn is_fast_or_durable_and_takes_other_settings() {
    let show = |options: &ClusterOptions| {
        let cluster = Cluster::start(options).unwrap();
        cluster.sql("SHOW fsync; SHOW synchronous_commit; SHOW max_connections;").unwrap()
    };
    assert_eq!(show(&ClusterOptions::default()), "off\noff\n300");
    let settings = vec![("max_connections".to_owned(), "7".to_owned())];
    assert_eq!(show(&ClusterOptions { durable: true, settings }), "on\non\n7");
}

#[test]
fn an_invalid_setting_is_named_in_the_error() {
    let settings = vec![("max_connections".to_owned(), "many".to_owned())];
    let error = Cluster::start(&ClusterOptions { settings, ..ClusterOptions::default() }).unwrap_err();
    assert!(error.to_string().contains("max_connections"), "{error}");
}

#[test]
fn keeps_its_address_and_commits_after_a_restart() {
    let cluster = Cluster::start(&ClusterOptions { durable: true, ..ClusterOptions::default() }).unwrap();
    cluster.sql("CREATE TABLE kept (x int);").unwrap();
    for (round, shutdown) in (1..).zip([Shutdown::Fast, Shutdown::Immediate, Shutdown::Kill]) {
        cluster.sql("INSERT INTO kept VALUES (1);").unwrap();
        cluster.restart(shutdown).unwrap();
        assert_eq!(psql(&cluster.url(), "SELECT sum(x) FROM kept"), Ok(round.to_string()), "{shutdown:?}");
    }
    cluster.stop(Shutdown::Fast).unwrap();
    assert!(cluster.sql("SELECT 1;").is_err());
    cluster.start_again().unwrap();
    assert_eq!(cluster.sql("SELECT 1;"), Ok("1".to_owned()));
}

#[test]
fn changes_a_setting_while_it_runs() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    cluster.set("default_transaction_read_only", "on").unwrap();
    let error = cluster.sql("CREATE TABLE refused (x int);").unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    cluster.set("default_transaction_read_only", "off").unwrap();
    cluster.sql("CREATE TABLE accepted (x int);").unwrap();
}

#[test]
fn a_user_with_a_password_needs_it() {
    let cluster = Cluster::start(&ClusterOptions::default()).unwrap();
    let url = cluster.user("ana", "s3cret").unwrap();
    assert_eq!(psql(&url, "SELECT current_user"), Ok("ana".to_owned()));
    let error = psql(&url.replace("s3cret", "guess"), "SELECT 1").unwrap_err();
    assert!(error.contains("password authentication failed"), "{error}");
}

/// Runs a statement as a client.
pub(crate) fn psql(url: &str, statement: &str) -> Result<String, String> {
    let output = std::process::Command::new("psql").args(["-XqAt", "-c", statement, url]).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}
