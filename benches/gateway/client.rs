//! The client's side: one HTTP/1.1 connection, as lean as it can be, so that it measures the server and not itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::Result;

/// Where requests go, with which keys, and with what a gateway of others wants to be told beside.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: String,
    pub(crate) keys: Arc<KeyRing>,
    pub(crate) headers: Arc<HeaderMap>,
}

impl Target {
    pub(crate) fn new(address: &str, keys: Arc<KeyRing>) -> Self {
        Self { address: address.to_owned(), keys, headers: Arc::default() }
    }
}

/// Keys that requests have in turn.
#[derive(Debug)]
pub(crate) struct KeyRing {
    keys: Vec<String>,
    next: AtomicUsize,
}

impl KeyRing {
    /// Of at least one key.
    pub(crate) fn new(keys: Vec<String>) -> Arc<Self> {
        Arc::new(Self { keys, next: AtomicUsize::new(0) })
    }

    pub(crate) fn one(key: &str) -> Arc<Self> {
        Self::new(vec![key.to_owned()])
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    fn next(&self) -> &str {
        &self.keys[self.next.fetch_add(1, Ordering::Relaxed) % self.keys.len()]
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: &'static str,
    pub(crate) body: Bytes,
    /// Whose memory it is about; the key's own subject where it is `None`.
    pub(crate) user: Option<String>,
}

impl Call {
    pub(crate) fn new(path: &'static str, body: Bytes) -> Self {
        Self { path, body, user: None }
    }
}

/// Makes requests, each another.
pub(crate) trait Calls: Send + Sync + 'static {
    fn next(&self) -> Call;
}

#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    target: Target,
    /// Ends the connection's task when the connection is dropped.
    _driver: JoinSet<()>,
}

impl Connection {
    pub(crate) async fn open(target: &Target) -> Result<Self> {
        let socket = TcpStream::connect(&target.address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, target: target.clone(), _driver: driver })
    }

    /// Sends one request and returns the reply as soon as its header is there.
    pub(crate) async fn send(&mut self, call: Call) -> Result<Response<Incoming>> {
        let Call { path, body, user } = call;
        self.sender.ready().await?;
        let mut request = Request::post(path)
            .header("host", &self.target.address)
            .header("authorization", format!("Bearer {}", self.target.keys.next()))
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        if let Some(user) = user {
            request.headers_mut().insert("x-backstory-user", user.parse()?);
        }
        for (name, value) in self.target.headers.iter() {
            request.headers_mut().insert(name, value.clone());
        }
        let response = self.sender.send_request(request).await?;
        if !response.status().is_success() {
            let status = response.status();
            let said = response.into_body().collect().await?.to_bytes();
            let said = String::from_utf8_lossy(&said[..said.len().min(500)]).into_owned();
            return Err(format!("{path} answered {status}: {said}").into());
        }
        Ok(response)
    }

    /// Sends one request and reads the whole reply.
    pub(crate) async fn exchange(&mut self, call: Call) -> Result<Bytes> {
        Ok(self.send(call).await?.into_body().collect().await?.to_bytes())
    }
}

/// The time that upstream writes into its chunks: one clock for all processes of the machine.
#[expect(clippy::disallowed_methods, reason = "two processes compare times, so it must be the machine's clock")]
pub(crate) fn wall_clock_nanos() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
