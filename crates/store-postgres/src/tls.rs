//! Certificates: the system's, or the file in the URL. The server's certificate is always verified.

use std::path::Path;
use std::sync::Arc;

use goldseam_store::StoreError;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Creates the TLS connector.
pub(crate) fn connector(root_cert: Option<&Path>) -> Result<MakeRustlsConnect, StoreError> {
    let mut roots = RootCertStore::empty();
    match root_cert {
        Some(path) => {
            let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let found = read.map_err(|error| refused(format!("{}: {error}", path.display())))?;
            if roots.add_parsable_certificates(found).0 == 0 {
                return Err(refused(format!("{} contains no certificate", path.display())));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn refused(what: String) -> StoreError {
    StoreError::Refused {
        code: "GS0213",
        what: format!("cannot use the certificates: {what}"),
        hint: "pass a PEM file with sslrootcert=FILE".into(),
    }
}
