//! A value that holds no more is not shown by way of an episode in which it stands: such episodes are marked, until it holds
//! again.

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
    for one in gone {
        set(api, scope, one, true).await?;
    }
    Ok(())
}

/// Takes the marks of a fact off the episodes in which its value stands: it holds again.
pub(super) async fn unmark(api: &Shared, scope: &Scope, back: &Gone) -> Answer<()> {
    set(api, scope, back, false).await
}

async fn set(api: &Shared, scope: &Scope, Gone { fact, value }: &Gone, retired: bool) -> Answer<()> {
    let mut found = api.changed.mentioning(scope, value).await;
    found.truncate(MAX_MARKED);
    if !found.is_empty() {
        api.store.mark_episodes(scope, &found, *fact, retired).await?;
    }
    Ok(())
}
