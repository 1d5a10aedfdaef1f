//! TLS by files. The certificate beside this file is its own authority, good for a hundred years, and for tests only.

use std::path::Path;

use reqwest::tls::Certificate;

use crate::desk::Desk;

fn file(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name).display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_speaks_tls_and_nothing_else() {
    let mut desk = Desk::with(&[("tls_cert", &file("cert.pem")), ("tls_key", &file("key.pem"))]).await;
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
    let flags = std::collections::BTreeMap::from([
        ("listen", "127.0.0.1:0".to_owned()),
        ("store", "sqlite:never-made.db".to_owned()),
        ("tls_cert", file("key.pem")),
        ("tls_key", file("cert.pem")),
    ]);
    let config = goldseam_server::config::Settings::gather(&flags, |_| None, None).unwrap().config().unwrap();
    let problem = goldseam_server::serve(config).await.unwrap_err();
    assert_eq!(problem.code.as_deref(), Some("GS0610"), "{problem}");
    assert!(!Path::new("never-made.db").exists());
}
