//! A line to a server that can be cut, closed and opened again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A port that passes on to a server.
#[derive(Debug)]
pub(super) struct Proxy {
    address: SocketAddr,
    /// Connections live as long as it; none: closed, no new one is let in.
    line: Arc<Mutex<Option<CancellationToken>>>,
}

impl Proxy {
    /// Passes on to `server`, an URL.
    pub(super) async fn to(server: &str) -> Self {
        let target = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let line = Arc::new(Mutex::new(Some(CancellationToken::new())));
        let (tracker, current) = (TaskTracker::new(), Arc::clone(&line));
        tracker.clone().spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let Some(token) = current.lock().unwrap().clone() else { continue };
                let target = target.clone();
                tracker.spawn(async move {
                    let mut server = TcpStream::connect(target).await.unwrap();
                    tokio::select! {
                        () = token.cancelled() => {}
                        _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    }
                });
            }
        });
        Self { address, line }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts all connections; new ones are let in.
    pub(super) fn cut(&self) {
        self.replace(Some(CancellationToken::new()));
    }

    /// Cuts all connections, and lets none in.
    pub(super) fn close(&self) {
        self.replace(None);
    }

    /// Lets connections in again.
    pub(super) fn open(&self) {
        self.replace(Some(CancellationToken::new()));
    }

    fn replace(&self, with: Option<CancellationToken>) {
        if let Some(before) = std::mem::replace(&mut *self.line.lock().unwrap(), with) {
            before.cancel();
        }
    }
}
