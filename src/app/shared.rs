//! What replicas share: opens Redis, and has every cache follow what other replicas change.

use std::sync::Arc;

use super::BuildError;
use crate::access::StoredKeys;
use crate::base::{Clock, Random};
use crate::config::Config;
use crate::context::Digests;
use crate::conversation;
use crate::embed::Embed;
use crate::jobs::Summaries;
use crate::memory::Scope;
use crate::recall::{Knowledge, Recall};
use crate::shared::{Change, Follow, HOLD, Options, Shared};
use crate::states::States;
use crate::telemetry::Metrics;

/// What is shared, as configured; `None` = each replica is by itself. That Redis is away is no error: it is said in the log, and it is
/// used as soon as it is there.
pub(super) async fn shared(
    config: &Config,
    secret: [u8; 32],
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<Shared>>, BuildError> {
    let Some(options) = options(config, secret) else { return Ok(None) };
    let shared = Shared::new(options, Arc::clone(clock), &**random, Arc::clone(metrics))?;
    match shared.reach().await? {
        Ok(server) => {
            if let Some(warning) = server.warning() {
                tracing::warn!("{warning}");
            }
        }
        Err(reason) => {
            tracing::warn!(%reason, "Redis is not used: each replica has its limits for itself until it is there");
        }
    }
    Ok(Some(Arc::new(shared)))
}

/// Where Redis is and how it is used, if any is configured. `secret` is what the replicas of one store know.
pub(crate) fn options(config: &Config, secret: [u8; 32]) -> Option<Options> {
    let redis = &config.redis;
    let url = redis.url.clone()?;
    Some(Options { url, prefix: redis.prefix.clone(), timeout: redis.timeout, hold: HOLD, secret })
}

/// The caches of this process.
pub(super) struct Caches {
    pub(super) recall: Arc<Recall>,
    pub(super) states: Arc<States>,
    pub(super) knowledge: Arc<Knowledge>,
    pub(super) digests: Arc<Digests>,
    pub(super) summaries: Option<Arc<Summaries>>,
    pub(super) stored_keys: Option<Arc<StoredKeys>>,
    pub(super) embedder: Option<Arc<dyn Embed>>,
}

impl Caches {
    fn forget_shown(&self, scope: &Scope) {
        self.states.forget(scope);
        // Digests are known by hashes, not by scope; they are made again where they are needed.
        self.digests.clear();
    }
}

impl Follow for Caches {
    fn follow(&self, change: &Change) {
        match change {
            Change::Scope(scope) => {
                self.recall.changed(scope);
                self.forget_shown(scope);
            }
            Change::Erased(scope) => {
                self.recall.invalidate(scope);
                self.forget_shown(scope);
                let start = conversation::start(scope);
                self.digests.forget(start);
                if let Some(summaries) = &self.summaries {
                    summaries.forget(start);
                }
                if let Some(embedder) = &self.embedder {
                    embedder.forget();
                }
            }
            Change::Documents(namespace) => self.knowledge.invalidate(namespace),
            Change::Keys => {
                if let Some(keys) = &self.stored_keys {
                    keys.forget();
                }
            }
        }
    }

    fn missed(&self) {
        self.recall.invalidate_all();
        self.states.forget_all();
        self.knowledge.invalidate_all();
        self.digests.clear();
        self.follow(&Change::Keys);
    }
}
