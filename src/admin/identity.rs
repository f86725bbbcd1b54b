//! Who calls the memory API, and which caches hear of what it writes.

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;

use super::memory::{Caller, Changed, Identify};
use crate::access::identify;
use crate::app::App;
use crate::base::{EpisodeId, GatewayError};
use crate::config::ApiAccess;
use crate::exchange::MemoryApi;
use crate::memory::{Namespace, Scope};
use crate::shared::Change;

/// Callers by their key, as in chat.
pub(super) struct ByKey(pub(super) Arc<App>);

#[async_trait]
impl Identify for ByKey {
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, GatewayError> {
        let (principal, _) = self.0.keys.authenticate(headers).await?;
        let identity = identify(&principal, headers, &())?;
        let own = identity.namespace == principal.namespace || principal.any_namespace;
        let allowed = match principal.memory_api {
            MemoryApi::Off => ApiAccess::Off,
            MemoryApi::Read => ApiAccess::Read,
            MemoryApi::Write => ApiAccess::Write,
        };
        Ok(Caller {
            scope: identity.scope,
            tenant: Arc::clone(&principal.tenant),
            namespace: identity.namespace,
            namespaces_readable: principal.read_namespaces.clone(),
            // A granted namespace is read, never written.
            memory_api: if own { allowed } else { allowed.min(ApiAccess::Read) },
            may_edit: principal.may_edit,
            admin: false,
            max_sensitivity: principal.max_sensitivity,
        })
    }
}

/// The caches of this process.
pub(super) struct Caches(pub(super) Arc<App>);

#[async_trait]
impl Changed for Caches {
    fn changed(&self, scope: &Scope) {
        self.0.follow_change(scope);
        self.0.tell_replicas(&Change::Scope(scope.clone()));
    }

    fn erased(&self, scope: &Scope) {
        self.0.forget_cached(scope);
        self.0.forget_summaries(scope);
        if let Some(embedder) = &self.0.embedder {
            embedder.forget();
        }
        self.0.tell_replicas(&Change::Erased(scope.clone()));
    }

    fn documents(&self, namespace: &Namespace) {
        self.0.knowledge.invalidate(namespace);
        self.0.tell_replicas(&Change::Documents(namespace.clone()));
    }

    async fn mentioning(&self, scope: &Scope, value: &str) -> Vec<EpisodeId> {
        if let Err(error) = self.0.recall.facts(scope).await {
            tracing::warn!(%error, "could not look for episodes with a value that holds no more");
        }
        self.0.recall.mentioning(scope, value)
    }
}
