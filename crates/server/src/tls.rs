//! TLS from PEM files: a certificate chain and its private key.

use std::path::Path;
use std::sync::Arc;

use goldseam_api::Problem;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use goldseam_api::credentials::file_mode;

/// Builds the TLS acceptor.
pub(crate) fn acceptor(chain: &Path, key: &Path) -> Result<TlsAcceptor, Problem> {
    let bad = |file: &Path, error: &dyn std::fmt::Display| {
        Problem::new(500, format!("cannot set up TLS with {}: {error}", file.display()))
            .code("GS0610")
            .hint("set tls_cert to a certificate chain and tls_key to its private key, both in PEM format")
    };
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(chain).map_err(|error| bad(chain, &error))?.collect();
    let certificates = certificates.map_err(|error| bad(chain, &error))?;
    file_mode::check("tls_key", key)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder
        .map_err(|error| bad(chain, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| bad(chain, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
