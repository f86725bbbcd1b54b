//! What replicas share, in Redis: limits, conversation states, and word of what has changed.
//!
//! Redis makes replicas agree; it never makes a request fail or wait for longer than `timeout_ms`. While it is away each replica goes by
//! itself, and the metrics say so. Nothing in it is the only copy of anything: what is lost with it drains, ends or is read from the store.
//!
//! Start with [`Shared`]. `link` is the connection, `keeper` keeps it; `minutes`, `slots` and `kept` are what is shared, `later` tells
//! Redis what need not be waited for, `changes` tells the others. Only this module speaks to Redis.

mod changes;
mod keeper;
mod kept;
mod later;
mod link;
mod minutes;
mod server;
mod slots;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::Client;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use changes::{Change, Follow};
pub use minutes::{Account, Answer, Figure, Held, Verdict, Wanted};
pub use server::{Owner, Reason, Server};
pub use slots::Slot;

use keeper::Keeper;
use later::{Later, Told};
use link::Link;
use minutes::Scripts;
use slots::Slots;

use crate::base::{Clock, Random, Secret};
use crate::telemetry::Metrics;

/// For how long a slot is held for a replica that does not say any more that it is.
pub const HOLD: Duration = Duration::from_secs(30);

/// Redis cannot be asked just now, or does not answer in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away;

/// Why Redis cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is none.
    #[error("[redis] url is no address of a Redis server: {0}")]
    Address(String),
    /// Another cluster uses it.
    #[error("{0}")]
    OtherCluster(Reason),
}

/// Where Redis is, and how it is used.
#[derive(Clone)]
pub struct Options {
    /// `redis://…` or `rediss://…`.
    pub url: Secret,
    /// What all keys begin with.
    pub prefix: String,
    /// The longest that a command is waited for.
    pub timeout: Duration,
    /// See [`HOLD`].
    pub hold: Duration,
    /// What the replicas of one store know, and nobody else: names in Redis are hashed with it, and it tells whose they are.
    pub secret: [u8; 32],
}

/// Never prints the secret.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("prefix", &self.prefix).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// What replicas share.
pub struct Shared {
    link: Arc<Link>,
    keeper: Arc<Keeper>,
    prefix: String,
    channel: String,
    /// This process.
    replica: u64,
    salt: [u8; 32],
    hold: Duration,
    scripts: Scripts,
    slots: Arc<Slots>,
    later: Later,
    /// Until it is started.
    told: Mutex<Option<mpsc::Receiver<Told>>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("prefix", &self.prefix).field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Makes what is shared, without asking Redis anything.
    ///
    /// # Errors
    /// The address is none.
    pub fn new(
        options: Options,
        clock: Arc<dyn Clock>,
        random: &dyn Random,
        metrics: Arc<Metrics>,
    ) -> Result<Self, OpenError> {
        let client = Client::open(options.url.expose());
        // What is wrong is named without the address, which may hold a password.
        let client = client.map_err(|error| OpenError::Address(error.category().to_owned()))?;
        let prefix = options.prefix;
        let link = Arc::new(Link::new(client, options.timeout, Arc::clone(&metrics)));
        let cluster = blake3::derive_key("backstory 2026 whose Redis this is", &options.secret);
        let keeper = Arc::new(Keeper {
            link: Arc::clone(&link),
            clock,
            mark: format!("{prefix}cluster"),
            cluster: blake3::Hash::from_bytes(cluster).to_hex()[..32].to_owned(),
            prefix: prefix.clone(),
        });
        let replica = random.next_u64();
        let (later, told) = Later::new(metrics);
        Ok(Self {
            link,
            keeper,
            channel: format!("{prefix}changed"),
            prefix,
            replica,
            salt: options.secret,
            hold: options.hold,
            scripts: Scripts::new(),
            slots: Arc::new(Slots::new(replica)),
            later,
            told: Mutex::new(Some(told)),
        })
    }

    /// Tries to reach Redis, once and not for long. Where that fails it is tried again and again once this is started.
    ///
    /// # Errors
    /// Another cluster has its keys there. That Redis is away is no error.
    pub async fn reach(&self) -> Result<Result<Server, Reason>, OpenError> {
        match self.keeper.reach().await {
            Err(reason @ Reason::OtherCluster(_)) => Err(OpenError::OtherCluster(reason)),
            reached => Ok(reached),
        }
    }

    /// Looks Redis over, and whose it is, and changes nothing.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub async fn look_over(&self) -> Result<(Server, Owner), Reason> {
        self.keeper.look_over().await
    }

    /// Starts what goes on behind requests, until `halt`; `follower` hears what other replicas change. Once.
    pub fn start(self: &Arc<Self>, follower: Arc<dyn Follow>, tasks: &TaskTracker, halt: &CancellationToken) {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(told) = told else { return };
        tasks.spawn(Arc::clone(&self.keeper).run(halt.clone()));
        tasks.spawn(Arc::clone(self).tell_later(told, halt.clone()));
        tasks.spawn(Arc::clone(self).hold_slots(halt.clone()));
        tasks.spawn(Arc::clone(self).hear(follower, halt.clone()));
    }

    /// Whether Redis is used just now.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.link.is_up()
    }

    /// Why it is not, as far as that is known.
    #[must_use]
    pub fn why(&self) -> Option<Reason> {
        self.link.why()
    }

    fn minutes_key(&self, account: &str) -> String {
        format!("{}limit:{account}", self.prefix)
    }

    fn slots_key(&self, account: &str) -> String {
        format!("{}running:{account}", self.prefix)
    }

    fn hold_millis(&self) -> u64 {
        u64::try_from(self.hold.as_millis()).unwrap_or(u64::MAX)
    }
}
