//! The connection for commands: one, for all requests at once, and never waited for longer than a moment.
//!
//! A Redis that is away is known to be away: whoever asks is told so at once, and one task alone (`keeper`) tries to reach it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult};
use tokio::sync::watch;

use super::Away;
use super::server::{Reason, reason};
use crate::telemetry::{Metrics, RedisCommand, RedisOutcome};

/// So many answers in a row that are late or refusals, and Redis is taken to be away. One alone may be a hiccup.
const PATIENCE: u32 = 3;
/// How long a connection may take to be made. No request waits for it.
const CONNECT: Duration = Duration::from_secs(2);
/// Commands that wait to be written; further ones wait within their time.
const WAITING: usize = 1_024;

/// The way to Redis.
pub(super) struct Link {
    client: Client,
    /// The longest that a command is waited for.
    timeout: Duration,
    live: RwLock<Option<MultiplexedConnection>>,
    failures: AtomicU32,
    /// Tells those who go by it.
    is_up: watch::Sender<bool>,
    why: RwLock<Option<Reason>>,
    metrics: Arc<Metrics>,
}

impl Link {
    pub(super) fn new(client: Client, timeout: Duration, metrics: Arc<Metrics>) -> Self {
        Self {
            client,
            timeout,
            live: RwLock::default(),
            failures: AtomicU32::new(0),
            is_up: watch::Sender::new(false),
            why: RwLock::default(),
            metrics,
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether commands are sent.
    pub(super) fn is_up(&self) -> bool {
        *self.is_up.borrow()
    }

    /// Why not, if it is known.
    pub(super) fn why(&self) -> Option<Reason> {
        self.why.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks Redis, and waits for at most the time that a command has.
    ///
    /// # Errors
    /// Redis is away, late, or refuses. What was asked may have been done.
    pub(super) async fn ask<T>(
        &self,
        command: RedisCommand,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Away> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner).clone();
        let count = |outcome| self.metrics.redis_commands.inc(command, outcome);
        let Some(mut connection) = live else {
            count(RedisOutcome::Skipped);
            return Err(Away);
        };
        match tokio::time::timeout(self.timeout, ask(&mut connection)).await {
            Ok(Ok(answer)) => {
                self.failures.store(0, Ordering::Relaxed);
                count(RedisOutcome::Ok);
                Ok(answer)
            }
            Ok(Err(error)) => {
                count(RedisOutcome::Failed);
                self.failed(&error);
                Err(Away)
            }
            Err(_) => {
                count(RedisOutcome::Late);
                self.count_failure(Reason::Late);
                Err(Away)
            }
        }
    }

    fn failed(&self, error: &RedisError) {
        if error.is_io_error() || error.is_unrecoverable_error() {
            self.give_up(reason(error));
        } else {
            self.count_failure(reason(error));
        }
    }

    fn count_failure(&self, reason: Reason) {
        if self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= PATIENCE {
            self.give_up(reason);
        }
    }

    /// Sends no further command until the keeper has found Redis well.
    fn give_up(&self, reason: Reason) {
        if self.live.write().unwrap_or_else(PoisonError::into_inner).take().is_some() {
            self.set_why(Some(reason));
            self.metrics.set_redis_up(false);
            self.is_up.send_replace(false);
        }
    }

    /// Makes a connection that nobody uses yet.
    pub(super) async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // Whoever asks has a shorter time of its own.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(CONNECT))
            .set_pipeline_buffer_size(WAITING);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Lets everyone use a connection.
    pub(super) fn open(&self, connection: MultiplexedConnection) {
        self.failures.store(0, Ordering::Relaxed);
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        self.set_why(None);
        self.metrics.set_redis_up(true);
        self.is_up.send_replace(true);
    }

    pub(super) fn set_why(&self, why: Option<Reason>) {
        *self.why.write().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// Returns when commands are sent, or are not sent any more; at once when that is so already.
    pub(super) async fn until(&self, up: bool) {
        // The sender lives as long as this.
        let mut told = self.is_up.subscribe();
        let _until = told.wait_for(|is| *is == up).await;
    }
}
