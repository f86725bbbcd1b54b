//! Accepts connections, and drains them when told to stop.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::entrance::{Entrance, Handshakes};
use super::front::Front;
use crate::base::Bell;

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
pub async fn serve(entrance: impl Into<Entrance>, front: Front, stop: CancellationToken, drain: Duration) -> Drained {
    let Entrance { listener, tls, max_connections } = entrance.into();
    let handshakes = tls.map(Handshakes::new);
    let places = Arc::new(Semaphore::new(max_connections));
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    loop {
        let accepting = async {
            // Whoever finds no place waits in the kernel's queue, and is not lost.
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = accepting => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let guest = Guest { front: front.clone(), stop: stop.clone(), cut: cut.clone() };
                let handshakes = handshakes.clone();
                connections.spawn(async move {
                    let _held = (place, guest.front.connected());
                    guest.admit(stream, handshakes).await;
                });
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

/// One connection, and what it hears of the end.
struct Guest {
    front: Front,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Guest {
    async fn admit(self, stream: TcpStream, handshakes: Option<Handshakes>) {
        // Small events must not wait for the acknowledgement of the one before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not set TCP_NODELAY");
        }
        let Some(handshakes) = handshakes else {
            return self.converse(stream).await;
        };
        // Nobody has asked for anything yet: at the end it is as an idle connection.
        match self.stop.run_until_cancelled(handshakes.shake(stream)).await {
            Some(Ok(stream)) => self.converse(stream).await,
            Some(Err(why)) => self.front.handshake_failed(why),
            None => {}
        }
    }

    async fn converse(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let Self { front, stop, cut } = self;
        let service = service_fn(move |request| {
            let front = front.clone();
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let bell = Bell::default();
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = poll_fn(|cx| bell.poll(cx, |cx| connection.as_mut().poll(cx))) => {
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
}
