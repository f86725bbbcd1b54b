//! Whom a listener says it is: the pair that the next handshake shows.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::pair::Pair;
use crate::base::Time;

/// The pair in force. A handshake takes it once; connections that stand keep the one that they were made with.
pub struct Identity(RwLock<Arc<Pair>>);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Identity").field(&self.not_after()).finish()
    }
}

impl Identity {
    /// Begins with a pair.
    #[must_use]
    pub fn new(pair: Pair) -> Arc<Self> {
        Arc::new(Self(RwLock::new(Arc::new(pair))))
    }

    /// Shows another pair from the next handshake on.
    pub fn put(&self, pair: Pair) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pair);
    }

    /// When the certificate ends.
    #[must_use]
    pub fn not_after(&self) -> Time {
        self.pair().not_after
    }

    /// What a listener is set up with: TLS 1.2 and 1.3, HTTP/1.1 and no other protocol.
    #[must_use]
    pub fn server_config(self: &Arc<Self>) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let mut config = builder
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites for both versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    fn pair(&self) -> Arc<Pair> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.pair().certified))
    }
}
