//! TLS: what proves whose server it is, and what does not. The certificate is of no use anywhere else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use goldseam_store::Store;
use goldseam_store::conformance::make::append;
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::Cluster;

use crate::support::{cluster, code, open};

fn certificate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/tls/server.pem")
}

/// A server that speaks TLS. Postgres reads a key only if it is its own.
fn with_tls() -> Cluster {
    let cluster = cluster();
    let owner = fs::metadata(cluster.folder().join("data")).unwrap();
    for (name, setting) in [("server.key", "ssl_key_file"), ("server.pem", "ssl_cert_file")] {
        let copy = cluster.folder().join(name);
        fs::copy(certificate().with_file_name(name), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&copy, Some(owner.uid()), Some(owner.gid())).unwrap();
        cluster.set(setting, copy.to_str().unwrap()).unwrap();
    }
    cluster.set("ssl", "on").unwrap();
    cluster
}

#[tokio::test]
async fn a_server_proves_itself_by_a_certificate_that_is_vouched_for() {
    let cluster = with_tls();
    let url = format!("{}?sslmode=require&sslrootcert={}", cluster.url(), certificate().display());
    let store = open(&url).await;
    store.append(append("r", 0, &["a"])).await.unwrap();
    let encrypted = cluster.sql("SELECT count(*) FROM pg_stat_ssl WHERE ssl;").unwrap();
    assert_ne!(encrypted.trim(), "0", "the connections of the store are encrypted");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_proves_nothing() {
    let cluster = with_tls();
    for mode in ["require", "prefer"] {
        let error = PostgresStore::open_url(&format!("{}?sslmode={mode}", cluster.url())).await.unwrap_err();
        assert_eq!(code(&error), "GS0213", "{mode}: {error}");
        assert!(error.to_string().contains("certificate"), "{mode}: {error}");
    }
    let missing = format!("{}?sslmode=require&sslrootcert=/nowhere.pem", cluster.url());
    assert_eq!(code(&PostgresStore::open_url(&missing).await.unwrap_err()), "GS0213");
}

#[tokio::test]
async fn a_server_without_tls_is_not_used_where_tls_is_required() {
    let cluster = cluster();
    let error = PostgresStore::open_url(&format!("{}?sslmode=require", cluster.url())).await.unwrap_err();
    assert_eq!(code(&error), "GS0205", "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
}
