//! Tells the other replicas what has changed, and hears it from them.
//!
//! It only makes the rest faster: a replica that hears nothing finds by the store's revision that what it holds is outdated.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::Shared;
use crate::memory::{Namespace, Scope};

/// The form of a message. A replica that does not know it drops all that it holds.
const VERSION: u8 = 1;
/// How long a step of subscribing may take.
const STEP: Duration = Duration::from_secs(2);
/// After so much silence it is looked whether the connection still is one.
const SILENCE: Duration = Duration::from_secs(5);
/// How long after a broken connection the next one is made.
const PAUSE: Duration = Duration::from_millis(500);
/// A longer message is none of ours.
const MAX_BYTES: usize = 16 * 1024;

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A fact or an episode of a scope, by hand.
    Scope(Scope),
    /// All of a scope is gone.
    Erased(Scope),
    /// Documents of a namespace.
    Documents(Namespace),
    /// Some key.
    Keys,
}

/// Whoever holds what may have changed.
pub trait Follow: Send + Sync {
    /// Another replica changed something.
    fn follow(&self, change: &Change);

    /// Anything may have changed.
    fn missed(&self);
}

impl Shared {
    /// Tells the other replicas of a change.
    pub fn tell_of(&self, change: &Change) {
        self.later.publish(encode(self.replica, change));
    }

    /// Hears what other replicas change, until `halt`.
    pub(super) async fn hear(self: Arc<Self>, follower: Arc<dyn Follow>, halt: CancellationToken) {
        let hear = async {
            loop {
                self.link.until(true).await;
                self.subscribed(&*follower).await;
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = hear => {}
            () = halt.cancelled() => {}
        }
    }

    /// Hears until the connection breaks.
    async fn subscribed(&self, follower: &dyn Follow) -> Option<()> {
        let within = tokio::time::timeout(STEP, self.link.client().get_async_pubsub());
        let mut connection = within.await.ok()?.ok()?;
        tokio::time::timeout(STEP, connection.subscribe(&self.channel)).await.ok()?.ok()?;
        // What was said before was not heard.
        follower.missed();
        self.link.metrics().set_redis_hears(true);
        let (mut ask, mut messages) = connection.split();
        loop {
            match tokio::time::timeout(SILENCE, messages.next()).await {
                Ok(Some(message)) => match decode(message.get_payload_bytes()) {
                    Some((from, _)) if from == self.replica => {}
                    Some((_, change)) => follower.follow(&change),
                    None => follower.missed(),
                },
                Ok(None) => break,
                Err(_) => match tokio::time::timeout(STEP, ask.ping::<redis::Value>()).await {
                    Ok(Ok(_)) => {}
                    _ => break,
                },
            }
        }
        self.link.metrics().set_redis_hears(false);
        None
    }
}

fn encode(replica: u64, change: &Change) -> Vec<u8> {
    let mut message = vec![VERSION];
    message.extend_from_slice(&replica.to_be_bytes());
    message.extend(serde_json::to_vec(change).expect("names are strings"));
    message
}

/// Who says it, and what; `None` when it cannot be read.
fn decode(message: &[u8]) -> Option<(u64, Change)> {
    let (&version, rest) = message.split_first()?;
    let (replica, change) = rest.split_first_chunk()?;
    if version != VERSION || message.len() > MAX_BYTES {
        return None;
    }
    Some((u64::from_be_bytes(*replica), serde_json::from_slice(change).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard_as_it_was() {
        let scope = Scope::new("acme", "support", "ann");
        let namespace = Namespace::new("acme", "support");
        for change in [Change::Scope(scope.clone()), Change::Erased(scope), Change::Documents(namespace), Change::Keys]
        {
            assert_eq!(decode(&encode(7, &change)), Some((7, change)));
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_change_that_is_known() {
        let message = encode(7, &Change::Keys);
        let newer = [&[VERSION + 1], &message[1..]].concat();
        assert_eq!(decode(&newer), None);
        assert_eq!(decode(&message[..9]), None);
        assert_eq!(decode(b""), None);
        assert_eq!(decode(&[message.as_slice(), b"}"].concat()), None);
    }
}
