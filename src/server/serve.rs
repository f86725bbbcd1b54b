//! Accepts connections, and drains them when told to stop.

use std::convert::Infallible;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::front::Front;

/// How long a client may take to send the next request's head; so long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// After a failed accept (no file descriptors left), so long is waited before the next.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Every reply was finished.
    All,
    /// The time was up; connections were cut.
    Cut,
}

/// Serves until `stop`, then lets running replies end for at most `drain`, then cuts what is left.
///
/// From `stop` on no connection is accepted, idle ones are closed, and busy ones are closed after their reply.
pub async fn serve(listener: TcpListener, front: Front, stop: CancellationToken, drain: Duration) -> Drained {
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                connections.spawn(connection(stream, front.clone(), stop.clone(), cut.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // Further connections are refused by the kernel from here on, not left waiting.
    drop(listener);
    connections.close();
    if tokio::time::timeout(drain, connections.wait()).await.is_ok() {
        return Drained::All;
    }
    tracing::warn!(connections = connections.len(), "drain time is up; cutting the replies that are left");
    cut.cancel();
    connections.wait().await;
    Drained::Cut
}

async fn connection(stream: TcpStream, front: Front, stop: CancellationToken, cut: CancellationToken) {
    // Small events must not wait for the acknowledgement of the one before.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "could not set TCP_NODELAY");
    }
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let mut stopping = false;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                }
                return;
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                connection.as_mut().graceful_shutdown();
            }
            () = cut.cancelled() => return,
        }
    }
}
