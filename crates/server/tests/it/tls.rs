//! TLS from files. The test certificate is self-signed and valid for a hundred years.

use std::path::Path;

use reqwest::tls::Certificate;

use crate::test_server::TestServer;

fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name).display().to_string()
}

/// Copies a file and sets its mode.
fn copy(folder: &tempfile::TempDir, name: &str, mode: u32) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let to = folder.path().join(name);
    std::fs::copy(file(name), &to).unwrap();
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode)).unwrap();
    to.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_key_readable_by_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for mode in [0o640, 0o604, 0o620] {
        let flags = std::collections::BTreeMap::from([
            ("listen", "127.0.0.1:0".to_owned()),
            ("store", "sqlite:never-made.db".to_owned()),
            ("tls_cert", file("cert.pem")),
            ("tls_key", copy(&folder, "key.pem", mode)),
        ]);
        let config =
            goldseam_server::config::Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
        let problem = goldseam_server::serve(config).await.unwrap_err();
        assert_eq!(problem.code.as_deref(), Some("GS0610"), "{problem}");
        assert!(problem.hint.unwrap().starts_with("chmod 600 "), "{mode:o}");
    }
    assert!(!Path::new("never-made.db").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_with_a_certificate_accepts_only_tls() {
    let folder = tempfile::tempdir().unwrap();
    let key = copy(&folder, "key.pem", 0o600);
    let mut server = TestServer::with(&[("tls_cert", &file("cert.pem")), ("tls_key", &key)]).await;
    assert!(server.url.starts_with("https://"));
    let certificate = Certificate::from_pem(&std::fs::read(file("cert.pem")).unwrap()).unwrap();
    server.http = reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).build().unwrap();
    assert_eq!(server.get("/healthz").await.text, "ok\n");
    server.get("/v1/runs").await.ok();
    let stranger = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(
        stranger.get(format!("{}/healthz", server.url)).send().await.is_err(),
        "other clients do not trust it"
    );
    let plain = server.url.replace("https://", "http://");
    assert!(server.http.get(format!("{plain}/healthz")).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_certificate_is_reported_before_serving() {
    let folder = tempfile::tempdir().unwrap();
    let flags = std::collections::BTreeMap::from([
        ("listen", "127.0.0.1:0".to_owned()),
        ("store", "sqlite:never-made.db".to_owned()),
        ("tls_cert", file("key.pem")),
        ("tls_key", copy(&folder, "cert.pem", 0o600)),
    ]);
    let config = goldseam_server::config::Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
    let problem = goldseam_server::serve(config).await.unwrap_err();
    assert_eq!(problem.code.as_deref(), Some("GS0610"), "{problem}");
    assert!(!Path::new("never-made.db").exists());
}
