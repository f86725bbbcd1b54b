//! What Redis is told behind requests: in order, several at once, and not at all where it is away.
//!
//! Nothing here is needed for an answer to be right: what was held too much drains, slots end by themselves, states are in the store, and
//! what has changed is seen by its revision.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, pipe};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::kept::StateChange;
use super::minutes::Holding;
use crate::telemetry::{Metrics, RedisCommand, RedisOutcome};

/// So much waits at most; what comes beyond is left out and counted.
const WAITING: usize = 10_000;
/// So much is told at once.
const AT_ONCE: usize = 100;
/// How long the end of the process waits until all is told.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Something to be told.
#[derive(Debug)]
pub(super) enum Told {
    /// What a request holds has changed.
    Settle(Arc<Holding>),
    /// A request runs no longer.
    Release { slot: String, keys: Arc<[String]> },
    /// A conversation state, or that one scope's are gone.
    State(StateChange),
    /// Something that was changed.
    Publish(Vec<u8>),
}

/// The way to have something told.
#[derive(Clone, Debug)]
pub(super) struct Later {
    sender: mpsc::Sender<Told>,
    metrics: Arc<Metrics>,
}

impl Later {
    pub(super) fn new(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Told>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender, metrics }, receiver)
    }

    pub(super) fn settle(&self, holding: Arc<Holding>) {
        self.tell(Told::Settle(holding));
    }

    pub(super) fn release(&self, slot: String, keys: Arc<[String]>) {
        self.tell(Told::Release { slot, keys });
    }

    pub(super) fn state(&self, change: StateChange) {
        self.tell(Told::State(change));
    }

    pub(super) fn publish(&self, message: Vec<u8>) {
        self.tell(Told::Publish(message));
    }

    fn tell(&self, told: Told) {
        let command = command(&told);
        if self.sender.try_send(told).is_err() {
            self.metrics.redis_commands.inc(command, RedisOutcome::Skipped);
        }
    }
}

fn command(told: &Told) -> RedisCommand {
    match told {
        Told::Settle(_) => RedisCommand::Settle,
        Told::Release { .. } => RedisCommand::Slots,
        Told::State(_) => RedisCommand::Write,
        Told::Publish(_) => RedisCommand::Publish,
    }
}

impl Shared {
    /// Tells Redis what it is to be told, until `halt`, and then what is left.
    pub(super) async fn tell_later(self: Arc<Self>, mut told: mpsc::Receiver<Told>, halt: CancellationToken) {
        let mut some = Vec::with_capacity(AT_ONCE);
        loop {
            tokio::select! {
                biased;
                _ = told.recv_many(&mut some, AT_ONCE) => self.tell(&mut some).await,
                () = halt.cancelled() => break,
            }
        }
        let rest = async {
            while !told.is_empty() {
                told.recv_many(&mut some, AT_ONCE).await;
                self.tell(&mut some).await;
            }
        };
        let _ended = tokio::time::timeout(LAST_WORDS, rest).await;
    }

    async fn tell(&self, some: &mut Vec<Told>) {
        let (mut settled, mut states) = (Vec::new(), Vec::new());
        let [mut slots, mut messages] = [pipe(), pipe()];
        for told in some.drain(..) {
            match told {
                Told::Settle(holding) => settled.push(holding),
                Told::Release { slot, keys } => {
                    keys.iter().for_each(|key| _ = slots.cmd("ZREM").arg(key).arg(&slot).ignore());
                }
                Told::State(change) => states.push(change),
                Told::Publish(message) => _ = messages.cmd("PUBLISH").arg(&self.channel).arg(message).ignore(),
            }
        }
        // What was erased goes first.
        self.send(RedisCommand::Publish, &messages).await;
        if !states.is_empty() {
            self.change_states(states).await;
        }
        self.send(RedisCommand::Slots, &slots).await;
        if !settled.is_empty() {
            self.settle(&settled).await;
        }
    }

    pub(super) async fn send(&self, command: RedisCommand, commands: &Pipeline) {
        if commands.is_empty() {
            return;
        }
        let ask = async |connection: &mut MultiplexedConnection| commands.query_async::<()>(connection).await;
        let _told = self.link.ask(command, ask).await;
    }
}
