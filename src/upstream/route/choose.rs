//! Which targets a request may go to, before any is tried: by its conditions, by its size, and by how they have been doing.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::walk::spread;
use crate::base::{ErrorKind, GatewayError};
use crate::context;
use crate::exchange::{Call, Payload, Recalled};
use crate::tokens::Counter;
use crate::upstream::health::State;
use crate::upstream::learned::Known;
use crate::upstream::mono::now_ms;
use crate::upstream::plan::Target;
use crate::upstream::when::Traits;

/// Bytes of a token, where a request is of a kind that is not counted.
const BYTES_PER_TOKEN: usize = 4;

impl Shared {
    /// Returns the targets of a request, first choice first; never empty.
    pub(super) async fn plan(&self, request: &Recalled<()>) -> Result<Vec<Arc<Target>>, GatewayError> {
        let call = &request.call;
        let model = self.routes.model(&call.principal, call.payload.model())?;
        let mut traits = if model.has_conditions() {
            Traits::of(&call.payload)
        } else {
            Traits { stream: call.payload.stream(), ..Traits::default() }
        };
        let mut counted = None;
        if model.counts()
            && let Some(first) = model.first()
        {
            let tokens = self.count(call, first).await?;
            counted = Some(tokens);
            traits.input_tokens = tokens;
        }
        let plan = model.plan(&traits, spread(call))?;
        self.by_window(call, plan, counted).await
    }

    /// Puts the targets whose window holds the whole request, and its answer, before those for which it would have to be cut.
    async fn by_window(
        &self,
        call: &Arc<Call>,
        plan: Vec<Arc<Target>>,
        counted: Option<usize>,
    ) -> Result<Vec<Arc<Target>>, GatewayError> {
        let Some(chat) = call.payload.chat().filter(|_| plan.len() > 1) else { return Ok(plan) };
        let known: Vec<Known> = plan.iter().map(|target| self.learned.known(target, call.stamp.at)).collect();
        let room = |(target, known): (&Arc<Target>, &Known)| {
            context::room(target.max_output(chat), &target.fit, target.window(known.window), &call.policy)
        };
        let rooms: Vec<Option<usize>> = plan.iter().zip(&known).map(room).collect();
        let smallest = rooms.iter().flatten().min().copied();
        if context::is_proven_small(chat, &plan[0].fit, smallest) || rooms.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(plan);
        }
        let counted = match counted {
            Some(counted) => counted,
            None => self.count(call, &plan[0]).await?,
        };
        // More than the policy allows is cut wherever it goes.
        let needed = match call.policy.max_input_tokens {
            0 => counted,
            most => counted.min(most),
        };
        let holds = |known: &Known, room: Option<usize>| {
            let real = needed as f64 * known.correction.ratio + known.correction.overhead;
            room.is_none_or(|room| real <= room as f64)
        };
        let held = known.iter().zip(rooms).map(|(known, room)| holds(known, room));
        let (fits, cut): (Vec<_>, Vec<_>) = plan.into_iter().zip(held).partition(|(_, held)| *held);
        Ok(fits.into_iter().chain(cut).map(|(target, _)| target).collect())
    }

    /// Counts a request as this target's model does; off the async threads where that takes long. Counts are kept, so that the fit that
    /// follows has them.
    async fn count(&self, call: &Arc<Call>, target: &Arc<Target>) -> Result<usize, GatewayError> {
        let Some(chat) = call.payload.chat() else { return Ok(body_len(&call.payload) / BYTES_PER_TOKEN) };
        let rules = target.fit.rules();
        if self.counter.remembered(rules, chat).is_some() {
            return Ok(self.counter.request(rules, chat).total);
        }
        let turn = Arc::clone(&self.counting).acquire_owned().await.map_err(GatewayError::internal)?;
        let (call, counter): (Arc<Call>, Arc<Counter>) = (Arc::clone(call), Arc::clone(&self.counter));
        let count = move || {
            let _turn = turn;
            call.payload.chat().map_or(0, |chat| counter.request(rules, chat).total)
        };
        tokio::task::spawn_blocking(count).await.map_err(GatewayError::internal)
    }

    /// Leaves out the targets that cool; those that another request is trying just now come last. A route with one target never
    /// cools: its upstream's own answer is the best there is.
    pub(super) fn open(plan: Vec<Arc<Target>>) -> Result<Vec<Arc<Target>>, GatewayError> {
        if plan.len() < 2 {
            return Ok(plan);
        }
        let now = now_ms();
        let (mut ready, mut probed) = (Vec::with_capacity(plan.len()), Vec::new());
        let (mut soonest, mut all_limited) = (Duration::MAX, true);
        for target in plan {
            match target.lanes.state(target.provider.keys(), now) {
                State::Ready => ready.push(target),
                State::Probing => probed.push(target),
                State::Cooling { left, limited } => {
                    soonest = soonest.min(left);
                    all_limited &= limited;
                }
            }
        }
        ready.append(&mut probed);
        if ready.is_empty() {
            let kind = if all_limited { ErrorKind::RateLimited } else { ErrorKind::Overloaded };
            let public = "every target of this model failed a moment ago and is left alone for now";
            return Err(GatewayError::new(kind, public).with_retry_after(soonest));
        }
        Ok(ready)
    }
}

fn body_len(payload: &Payload) -> usize {
    match payload {
        Payload::Chat(chat) => chat.body().len(),
        Payload::Embeddings(embeddings) => embeddings.body.len(),
    }
}
