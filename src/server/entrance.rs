//! An address that we listen on, and how it lets clients in.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::telemetry::HandshakeFailure;

/// How long a handshake may take, the wait for its turn included.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// So many handshakes at a time: each costs a signature, and a flood of them must leave something for those who are in.
const HANDSHAKES: usize = 256;

/// A listener, and what it shows.
#[derive(Debug)]
pub struct Entrance {
    /// Where connections come from.
    pub listener: TcpListener,
    /// How TLS is spoken; `None` = plain HTTP.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connections at once; further ones wait to be accepted.
    pub max_connections: usize,
}

/// Plain HTTP, and as many connections as the system gives.
impl From<TcpListener> for Entrance {
    fn from(listener: TcpListener) -> Self {
        Self { listener, tls: None, max_connections: Semaphore::MAX_PERMITS }
    }
}

/// Shakes hands, with a bounded number of clients at a time.
#[derive(Clone)]
pub(super) struct Handshakes {
    acceptor: TlsAcceptor,
    turns: Arc<Semaphore>,
}

impl Handshakes {
    pub(super) fn new(tls: Arc<ServerConfig>) -> Self {
        Self { acceptor: TlsAcceptor::from(tls), turns: Arc::new(Semaphore::new(HANDSHAKES)) }
    }

    /// Cancel safe: the connection is closed.
    pub(super) async fn shake(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, HandshakeFailure> {
        let shaking = async {
            let _turn = self.turns.acquire().await;
            self.acceptor.accept(stream).await
        };
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, shaking).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                Err(HandshakeFailure::Failed)
            }
            Err(_) => Err(HandshakeFailure::Late),
        }
    }
}
