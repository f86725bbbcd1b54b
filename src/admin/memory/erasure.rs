//! Erasing a subject everywhere: in the records, and in an index outside of the process.
//!
//! The records are first: what is not in them is shown by nobody, whatever the index still holds. An index that is away then is cleared by the job
//! that follows the changes, as soon as it is back; the receipt says so.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::MemoryApi;
use crate::base::Time;
use crate::memory::Scope;
use crate::store::{Erased, ScopeKey, StoreError};

/// How long the index may take; then the job erases it.
const WAIT: Duration = Duration::from_secs(10);

/// What an erasure took away.
pub(super) struct Receipt {
    erased: Erased,
    index: Option<InIndex>,
}

struct InIndex {
    engine: &'static str,
    /// How many points went; none: it could not be asked.
    points: Option<u64>,
}

/// Erases everything of a scope, and has the caches forget it in between: they must not show it while an index is slow.
pub(super) async fn erase(api: &MemoryApi, scope: &Scope, now: Time) -> Result<Receipt, StoreError> {
    let erased = api.store.erase(scope, now).await?;
    api.changed.erased(scope);
    let Some(index) = &api.index else { return Ok(Receipt { erased, index: None }) };
    let asked = tokio::time::timeout(WAIT, index.erase(&scope.tenant, ScopeKey::of(scope))).await;
    let points = match asked {
        Ok(Ok(points)) => Some(points),
        Ok(Err(error)) => {
            tracing::warn!(%error, "an index could not be asked to erase a subject; it is erased there as soon as it can be");
            None
        }
        Err(_) => {
            tracing::warn!("an index did not erase a subject in time; it is erased there as soon as it can be");
            None
        }
    };
    Ok(Receipt { erased, index: Some(InIndex { engine: index.engine(), points }) })
}

impl Receipt {
    /// Whether no file of the records holds what was erased, and no point of the index.
    pub(super) fn complete(&self) -> bool {
        self.erased.complete && self.index.as_ref().is_none_or(|index| index.points.is_some())
    }

    /// As it is told: counts by kind, whether it is complete, and what remains where.
    pub(super) fn render(&self) -> Map<String, Value> {
        let mut told = Map::new();
        let mut counts = json!(self.erased.counts);
        if let Some(index) = &self.index {
            counts["index"] = index.points.unwrap_or_default().into();
            told.insert("index".to_owned(), json!({ "engine": index.engine, "remains": index.remains() }));
        }
        if !self.erased.remains.is_empty() {
            told.insert("remains".to_owned(), json!(self.erased.remains));
        }
        told.insert("counts".to_owned(), counts);
        told.insert("complete".to_owned(), self.complete().into());
        told
    }
}

impl InIndex {
    /// What physically remains, and until when.
    fn remains(&self) -> &'static str {
        match (self.points, self.engine) {
            (None, _) => {
                "the index could not be asked: its points stay, and are shown by nobody, until it is back; they are erased then"
            }
            (Some(_), "qdrant") => {
                "no search finds them; their bytes stay in segments until the server's optimizer rewrites these (vacuum: from 20 % deleted \
                 on, in segments of 1,000 points and more), in its write-ahead log until that is cut, and in snapshots that you took"
            }
            (Some(_), "pgvector") => {
                "no search finds them; dead rows stay until VACUUM has taken them out, and the write-ahead log and backups hold them as long \
                 as you keep these"
            }
            (Some(_), _) => "nothing",
        }
    }
}
