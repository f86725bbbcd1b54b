//! Ties summaries to routing: whose conversation it is, where they are kept, how long a request waits for them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::Clock;
use crate::context::summary::{Material, candidates};
use crate::context::{Chosen, Digests};
use crate::conversation::{self, Chain};
use crate::exchange::{Call, MemoryOutcome};
use crate::jobs::{self, Owner, Wish};
use crate::memory::Scope;
use crate::upstream::{Place, Summaries};

/// Summaries, as routing sees them.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) summaries: Arc<jobs::Summaries>,
    /// Those of the requests themselves.
    pub(super) digests: Arc<Digests>,
    pub(super) clock: Arc<dyn Clock>,
    /// How long a request waits to hear which summary its cut uses.
    pub(super) deadline: Duration,
    /// Whether the store can be used at all.
    pub(super) has_store: bool,
}

impl Bridge {
    fn owner(&self, place: &Place<'_>) -> Owner {
        let identity = &place.call.identity;
        let durable = self.has_store && identity.scope.is_some() && identity.memory.write;
        // In the process an erasure takes everything at once, so that the epoch, which may not have been asked for, says nothing.
        let epoch = if durable { place.recall.epoch } else { 0 };
        Owner { scope: scope(place.call), start: place.chain.start, epoch, durable }
    }
}

/// Whose conversation a request goes on with; without a subject it is the namespace's, which no subject has.
fn scope(call: &Call) -> Scope {
    let nobody = || Scope::new(&*call.principal.tenant, &*call.identity.namespace, "");
    call.identity.scope.clone().unwrap_or_else(nobody)
}

#[async_trait]
impl Summaries for Bridge {
    fn chain(&self, call: &Call) -> Option<Arc<Chain>> {
        call.payload.chat().map(|chat| Arc::new(conversation::chain(&scope(call), chat)))
    }

    async fn settle(&self, place: Place<'_>, digests: &Digests, look: bool) -> bool {
        let candidates = candidates(place.chain, place.first_kept);
        let Some(&state) = candidates.first() else { return false };
        let owner = self.owner(&place);
        // Without memory's answer nobody knows the epoch; what was settled here before holds.
        let blind = matches!(place.recall.outcome, MemoryOutcome::Timeout | MemoryOutcome::Error);
        let known = digests.chosen(&state);
        if (blind && owner.durable) || known.as_ref().is_some_and(|chosen| chosen.epoch == owner.epoch) {
            return false;
        }
        // A preview has digests of its own; what holds for the requests themselves holds for it too.
        let live = look.then(|| self.digests.chosen(&state)).flatten();
        if let Some(chosen) = live.filter(|chosen| chosen.epoch == owner.epoch) {
            return digests.choose(state, chosen).summary.is_some();
        }
        let now = self.clock.now();
        let asked = async {
            if look {
                self.summaries.foretell(&owner, state, &candidates, now).await
            } else {
                self.summaries.settle(&owner, state, &candidates, now).await
            }
        };
        let summary = tokio::time::timeout(self.deadline, asked).await.unwrap_or_default().map(Arc::new);
        let before = known.and_then(|chosen| chosen.summary);
        let settled = digests.choose(state, Chosen { start: owner.start, epoch: owner.epoch, summary });
        before != settled.summary
    }

    fn want(&self, place: Place<'_>) {
        let owner = self.owner(&place);
        let blind = matches!(place.recall.outcome, MemoryOutcome::Timeout | MemoryOutcome::Error);
        let states = candidates(place.chain, place.first_kept);
        let (Some((&covers, before)), Some(&first)) = (states.split_first(), states.last()) else { return };
        if blind && owner.durable {
            return;
        }
        let session = place.chain.session().unwrap_or(first);
        self.summaries.want(&owner, session, covers, || {
            let chat = place.call.payload.chat()?;
            let material = Material::read(chat, place.chain, place.first_kept)?;
            let trace = place.call.stamp.trace;
            Some(Wish { owner: owner.clone(), session, material, candidates: before.to_vec(), trace })
        });
    }
}
