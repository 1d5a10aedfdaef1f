//! TLS: which certificates are accepted. The certificate here is for these tests only.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use goldseam_conformance::make::append;
use goldseam_store::Store;
use goldseam_store_postgres::PostgresStore;
use goldseam_testbed::postgres::Cluster;

use crate::support::{cluster, code, open};

fn certificate() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/tls/server.pem")
}

/// A server with TLS. Postgres reads a key only if it owns the file.
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
async fn accepts_a_certificate_of_a_trusted_issuer() {
    let cluster = with_tls();
    let url = format!("{}?sslmode=require&sslrootcert={}", cluster.url(), certificate().display());
    let store = open(&url).await;
    store.append(append("r", 0, &["a"])).await.unwrap();
    let encrypted = cluster.sql("SELECT count(*) FROM pg_stat_ssl WHERE ssl;").unwrap();
    assert_ne!(encrypted.trim(), "0", "the connections of the store are encrypted");
}

#[tokio::test]
async fn refuses_a_certificate_of_an_unknown_issuer() {
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
async fn refuses_a_server_without_tls_if_tls_is_required() {
    let cluster = cluster();
    let error = PostgresStore::open_url(&format!("{}?sslmode=require", cluster.url())).await.unwrap_err();
    assert_eq!(code(&error), "GS0205", "{error}");
    assert!(error.to_string().contains("TLS"), "{error}");
}
