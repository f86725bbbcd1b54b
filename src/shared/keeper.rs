//! Keeps the connection: makes it, looks whether it is well, and makes it again.
//!
//! It is the only one that ever waits for a Redis that is away, so that no request does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};
use tokio_util::sync::CancellationToken;

use super::link::Link;
use super::server::{Owner, Reason, Server, reason};
use crate::base::Clock;
use crate::telemetry::RedisCommand;

/// How often it is looked whether Redis is there, so that the metric is right where nobody asks anything.
const BEAT: Duration = Duration::from_secs(1);
/// How long after a failure it is tried again, and how long at most.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A connection that was well for so long was no accident.
const STEADY: Duration = Duration::from_secs(10);
/// How long it may take to look a server over.
const LOOK: Duration = Duration::from_secs(2);

/// Keeps the connection.
pub(super) struct Keeper {
    pub(super) link: Arc<Link>,
    pub(super) clock: Arc<dyn Clock>,
    /// Where it is written whose Redis this is, and what is written there.
    pub(super) mark: String,
    pub(super) cluster: String,
    /// For those who read the log.
    pub(super) prefix: String,
}

impl Keeper {
    /// Makes a connection, looks the server over, and has everyone use it.
    pub(super) async fn reach(&self) -> Result<Server, Reason> {
        let reached = match tokio::time::timeout(LOOK, self.look()).await {
            Ok(reached) => reached,
            Err(_) => Err(Reason::Late),
        };
        match reached {
            Ok((connection, server)) => {
                self.link.open(connection);
                Ok(server)
            }
            Err(reason) => {
                self.link.set_why(Some(reason.clone()));
                Err(reason)
            }
        }
    }

    async fn look(&self) -> Result<(MultiplexedConnection, Server), Reason> {
        let of = |error| reason(&error);
        let mut connection = self.link.connect().await.map_err(of)?;
        let server = Server::ask(&mut connection, || self.clock.now()).await.map_err(of)?;
        if let Some(hinders) = server.hinders() {
            return Err(hinders);
        }
        if self.claim(&mut connection).await.map_err(of)? != self.cluster {
            return Err(Reason::OtherCluster(self.prefix.clone()));
        }
        // Whoever asks has no more time than this.
        if server.latency > self.link.timeout() {
            return Err(Reason::Late);
        }
        Ok((connection, server))
    }

    /// Looks a server over, and whose it is, and changes nothing.
    pub(super) async fn look_over(&self) -> Result<(Server, Owner), Reason> {
        let of = |error| reason(&error);
        let look = async {
            let mut connection = self.link.connect().await.map_err(of)?;
            let server = Server::ask(&mut connection, || self.clock.now()).await.map_err(of)?;
            let mark: Option<String> = cmd("GET").arg(&self.mark).query_async(&mut connection).await.map_err(of)?;
            let owner = match mark {
                None => Owner::Nobody,
                Some(mark) if mark == self.cluster => Owner::Ours,
                Some(_) => Owner::Another,
            };
            server.hinders().map_or(Ok((server, owner)), Err)
        };
        tokio::time::timeout(LOOK, look).await.unwrap_or(Err(Reason::Late))
    }

    /// Writes down whose Redis this is, unless somebody did; returns whose it is.
    async fn claim(&self, connection: &mut MultiplexedConnection) -> RedisResult<String> {
        cmd("SET").arg(&self.mark).arg(&self.cluster).arg("NX").query_async::<Option<String>>(connection).await?;
        cmd("GET").arg(&self.mark).query_async(connection).await
    }

    /// Keeps the connection until `halt`.
    pub(super) async fn run(self: Arc<Self>, halt: CancellationToken) {
        let mut told = self.link.why();
        let mut pause = FIRST_PAUSE;
        loop {
            if self.link.is_up() {
                let since = Instant::now();
                tokio::select! {
                    () = self.beat() => {}
                    () = halt.cancelled() => return,
                }
                if since.elapsed() > STEADY {
                    pause = FIRST_PAUSE;
                }
                self.tell(&mut told);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = halt.cancelled() => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            if let Ok(server) = self.reach().await {
                told = None;
                tracing::info!(version = %server.version, "Redis is there again: replicas share limits and states");
            } else {
                self.tell(&mut told);
            }
        }
    }

    /// Looks whether Redis is there, until it is not.
    async fn beat(&self) {
        while self.link.is_up() {
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                () = self.link.until(false) => return,
            }
            let ask = async |connection: &mut MultiplexedConnection| cmd("PING").query_async::<()>(connection).await;
            // What comes of it is seen by the link.
            let _seen = self.link.ask(RedisCommand::Check, ask).await;
        }
    }

    /// Says why Redis is not used, once for each reason.
    fn tell(&self, told: &mut Option<Reason>) {
        let why = self.link.why();
        if let Some(reason) = why.as_ref().filter(|_| why != *told) {
            tracing::warn!(%reason, "Redis is not used: each replica has its limits for itself until it is there again");
        }
        *told = why.or_else(|| told.take());
    }
}
