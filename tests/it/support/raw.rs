//! A server to the byte, for what no HTTP library would send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What is done with one request.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These bytes; the connection stays open.
    Say(String),
    /// These bytes, then the connection is closed. With none, it is closed without an answer.
    SayAndClose(String),
    /// These bytes, then this piece again and again.
    ForEver(String, String),
}

/// A running server. It ends when it is dropped.
pub(crate) struct RawServer {
    pub(crate) addr: SocketAddr,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl RawServer {
    /// Answers the n-th request, counted from 0 over all connections.
    pub(crate) async fn start(answer: impl Fn(usize) -> Step + Send + Sync + 'static) -> Self {
        Self::serve(None, Arc::new(answer)).await
    }

    /// The same over TLS, with a certificate and its key from `tests/data/tls`.
    pub(crate) async fn start_tls(name: &str, answer: impl Fn(usize) -> Step + Send + Sync + 'static) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = CertificateDer::from_pem_slice(tls_file(&format!("{name}.pem")).as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(tls_file(&format!("{name}.key")).as_bytes()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        Self::serve(Some(TlsAcceptor::from(Arc::new(config))), Arc::new(answer)).await
    }

    async fn serve(tls: Option<TlsAcceptor>, answer: Arc<dyn Fn(usize) -> Step + Send + Sync>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, answer, counted) = (tls.clone(), Arc::clone(&answer), Arc::clone(&counted));
                connections.spawn(async move {
                    match tls {
                        None => converse(stream, &*answer, &counted).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, &*answer, &counted).await;
                            }
                        }
                    }
                });
            }
        });
        Self { addr, requests, _tasks: tasks }
    }

    /// The base URL that a provider is given.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// How many requests came.
    pub(crate) fn accepted(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// A file of `tests/data/tls`.
pub(crate) fn tls_file(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tls").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// A JSON answer, to the byte, with further header lines (each ended by CRLF).
pub(crate) fn json_answer(headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// A chat completion that says one word.
pub(crate) const REPLY: &str = r#"{"id":"c1","object":"chat.completion","created":1,"model":"raw","choices":[{"index":0,"message":{"role":"assistant","content":"raw"},"finish_reason":"stop"}]}"#;

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &(dyn Fn(usize) -> Step + Send + Sync),
    counted: &AtomicUsize,
) {
    while read_request(&mut stream).await {
        let (say, then) = match answer(counted.fetch_add(1, Ordering::SeqCst)) {
            Step::Say(bytes) => (bytes, None),
            Step::SayAndClose(bytes) => (bytes, Some(String::new())),
            Step::ForEver(bytes, piece) => (bytes, Some(piece)),
        };
        if stream.write_all(say.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            return;
        }
        match then {
            None => {}
            Some(piece) if piece.is_empty() => {
                let _ = stream.shutdown().await;
                return;
            }
            Some(piece) => while stream.write_all(piece.as_bytes()).await.is_ok() {},
        }
    }
}

/// Reads one request to its end; `false` when the client is gone.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = memchr::memmem::find(&seen, b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
            if seen.len() >= end + 4 + length.unwrap_or(0) {
                return true;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => seen.extend_from_slice(&buffer[..n]),
            _ => return false,
        }
    }
}
