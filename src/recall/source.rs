//! Where a scope is read from, when it is not in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;

use crate::base::{EpisodeId, FactId};
use crate::memory::{Episode, Fact, Scope};
use crate::store::{Change, FactFilter, Page, Store, StoreError};

/// Rows read at a time.
const PAGE: u32 = 2_000;
/// The newest so many facts of a scope are held, superseded ones included.
const MAX_FACTS: usize = 20_000;

/// Everything that recall needs of one scope.
#[derive(Clone, Debug, Default)]
pub struct ScopeData {
    /// The revision before anything was read: what was written later may be in the data, or not.
    pub revision: i64,
    /// The last change before anything was read, with which the source can tell what came since; `None`: then the scope is read again.
    pub change: Option<i64>,
    /// Facts of any status, oldest first.
    pub facts: Vec<Fact>,
    /// Active episodes, oldest first.
    pub episodes: Vec<Episode>,
}

/// What became of a scope since it was read.
#[derive(Clone, Debug, Default)]
pub struct Since {
    /// The revision before the changes were read: later ones may be among them.
    pub revision: i64,
    /// In the order in which they were committed.
    pub changes: Vec<Change>,
}

/// Reads scopes.
#[async_trait]
pub trait Source: Send + Sync {
    /// Reads a scope with at most `max_episodes` episodes, the newest.
    async fn load(&self, scope: &Scope, max_episodes: usize) -> Result<ScopeData, StoreError>;

    /// Reads those of these episodes that the scope has. A source may know none beyond what it loads.
    async fn episodes_of(&self, _: &Scope, _: &[EpisodeId]) -> Result<Vec<Episode>, StoreError> {
        Ok(Vec::new())
    }

    /// Where a scope stands, if anybody else may have changed it: what is held of another revision is brought up to date. `None`: nobody else
    /// does.
    async fn revision(&self, _: &Scope) -> Result<Option<i64>, StoreError> {
        Ok(None)
    }

    /// What changed of a scope behind a change, at most `limit` changes; `revision` is where it stands, where that was asked for already. `None`:
    /// the source cannot tell.
    async fn since(
        &self,
        _scope: &Scope,
        _change: i64,
        _revision: Option<i64>,
        _limit: u32,
    ) -> Result<Option<Since>, StoreError> {
        Ok(None)
    }

    /// Reads the vectors of a scope that belong to a generation, in the order of their episodes. A source may have none.
    async fn load_vectors(&self, _: &Scope, _: &str) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Source for Arc<dyn Store> {
    async fn load(&self, scope: &Scope, max_episodes: usize) -> Result<ScopeData, StoreError> {
        let revision = self.scope_state(scope).await?.revision;
        let change = Some(self.last_change_of(scope).await?);
        let facts = read_facts(self.as_ref(), scope).await?;
        let episodes = read_episodes(self.as_ref(), scope, max_episodes).await?;
        Ok(ScopeData { revision, change, facts, episodes })
    }

    async fn since(
        &self,
        scope: &Scope,
        change: i64,
        revision: Option<i64>,
        limit: u32,
    ) -> Result<Option<Since>, StoreError> {
        let revision = match revision {
            Some(revision) => revision,
            None => self.scope_state(scope).await?.revision,
        };
        Ok(Some(Since { revision, changes: self.changes(scope, change, limit).await? }))
    }

    async fn episodes_of(&self, scope: &Scope, ids: &[EpisodeId]) -> Result<Vec<Episode>, StoreError> {
        self.as_ref().episodes_of(scope, ids).await
    }

    async fn load_vectors(&self, scope: &Scope, generation: &str) -> Result<Vec<(EpisodeId, Vec<u8>)>, StoreError> {
        let mut all = Vec::new();
        loop {
            let after = all.last().map(|(id, _)| *id);
            let mut rows = self.vectors(scope, generation, after, PAGE).await?;
            let full = rows.len() >= PAGE as usize;
            all.append(&mut rows);
            if !full {
                return Ok(all);
            }
        }
    }
}

async fn read_facts(store: &dyn Store, scope: &Scope) -> Result<Vec<Fact>, StoreError> {
    let mut kept = VecDeque::new();
    let mut last: Option<FactId> = None;
    loop {
        let page = Page { after: last.map(|id| id.to_string()), limit: PAGE };
        let rows = store.list_facts(scope, &FactFilter::default(), &page).await?;
        let full = rows.len() >= PAGE as usize;
        last = rows.last().map(|fact| fact.id);
        keep_newest(&mut kept, rows, MAX_FACTS);
        if !full {
            return Ok(kept.into());
        }
    }
}

/// From the newest back, so that of a large scope no more is read than is held.
async fn read_episodes(store: &dyn Store, scope: &Scope, max: usize) -> Result<Vec<Episode>, StoreError> {
    let mut all: Vec<Episode> = Vec::new();
    loop {
        let left = u32::try_from(max - all.len()).unwrap_or(u32::MAX).min(PAGE);
        let rows = store.newest_episodes(scope, all.last().map(|episode| episode.id), left).await?;
        let full = rows.len() >= left as usize;
        all.extend(rows);
        if !full || all.len() >= max {
            all.reverse();
            return Ok(all);
        }
    }
}

/// Listings run from old to new, so the oldest are read first and give way.
fn keep_newest<T>(kept: &mut VecDeque<T>, rows: Vec<T>, max: usize) {
    kept.extend(rows);
    let surplus = kept.len().saturating_sub(max);
    kept.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rows_give_way() {
        let mut kept = VecDeque::new();
        keep_newest(&mut kept, vec![1, 2], 3);
        keep_newest(&mut kept, vec![3, 4], 3);
        assert_eq!(kept, [2, 3, 4]);
    }
}
