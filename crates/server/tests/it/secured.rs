//! TLS by files. The certificate beside this file is its own authority, good for a hundred years, and for tests only.

use std::path::Path;

use reqwest::tls::Certificate;

use crate::desk::Desk;

fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name).display().to_string()
}

/// A copy of a file with this mode.
fn copy(folder: &tempfile::TempDir, name: &str, mode: u32) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let to = folder.path().join(name);
    std::fs::copy(file(name), &to).unwrap();
    std::fs::set_permissions(&to, std::fs::Permissions::from_mode(mode)).unwrap();
    to.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tls_key_that_others_may_read_is_refused() {
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
async fn a_server_with_a_certificate_speaks_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let key = copy(&folder, "key.pem", 0o600);
    let mut desk = Desk::with(&[("tls_cert", &file("cert.pem")), ("tls_key", &key)]).await;
    assert!(desk.url.starts_with("https://"));
    let certificate = Certificate::from_pem(&std::fs::read(file("cert.pem")).unwrap()).unwrap();
    desk.http = reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).build().unwrap();
    assert_eq!(desk.get("/healthz").await.text, "ok\n");
    desk.get("/v1/runs").await.ok();
    let stranger = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(stranger.get(format!("{}/healthz", desk.url)).send().await.is_err(), "nobody else trusts it");
    let plain = desk.url.replace("https://", "http://");
    assert!(desk.http.get(format!("{plain}/healthz")).send().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_none_is_told_before_anything_is_served() {
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
