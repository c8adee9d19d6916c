//! TLS, by rustls with ring: the service's own certificate, and the roots for those of receivers and of the database.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let show = |error| format!("{}: {error}", path.display());
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(show)?.collect();
    let found = found.map_err(show)?;
    if found.is_empty() {
        return Err(format!("{}: there is no certificate in it", path.display()));
    }
    Ok(found)
}

/// For a server with this certificate.
pub fn server(cert: &Path, key: &Path) -> Result<ServerConfig, String> {
    let chain = certificates(cert)?;
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| format!("{}: {error}", key.display()))?;
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| format!("{} and {}: {error}", cert.display(), key.display()))
}

/// For a client that trusts the roots in this file, or the system's.
pub fn client(roots: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut store = RootCertStore::empty();
    if let Some(path) = roots {
        for certificate in certificates(path)? {
            store
                .add(certificate)
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
    } else {
        // A system without roots is no mistake as long as nobody is called by HTTPS.
        let found = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(found.certs);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
