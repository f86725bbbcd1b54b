//! A value that holds no more is not shown by way of an episode in which it stands: such episodes are marked.

use super::Shared;
use super::error::Answer;
use crate::base::FactId;
use crate::memory::Scope;

/// At most so many episodes are marked for one value.
const MAX_MARKED: usize = 1_000;

/// A value that was deleted, replaced or taken back, and the fact that held it.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    pub(super) fact: FactId,
    pub(super) value: String,
}

/// Marks the episodes of the scope in which a gone value stands.
pub(super) async fn mark(api: &Shared, scope: &Scope, gone: &[Gone]) -> Answer<()> {
    for Gone { fact, value } in gone {
        let mut marked = Vec::new();
        for id in api.changed.mentioning(scope, value).await.into_iter().take(MAX_MARKED) {
            let episode = api.store.episode(scope, id).await?;
            if let Some(mut episode) = episode.filter(|episode| !episode.retired_facts.contains(fact)) {
                episode.retired_facts.push(*fact);
                marked.push(episode);
            }
        }
        if !marked.is_empty() {
            api.store.put_episodes(scope, &marked).await?;
        }
    }
    Ok(())
}
