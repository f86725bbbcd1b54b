//! What is sent to a target: fitted, once more where the target turns out to be smaller, and what is looked for ahead of need.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::Shared;
use crate::base::{ErrorKind, GatewayError};
use crate::context::{self, Digests, FitError, FitInput, Fitted, Trails};
use crate::conversation::{self, Chain};
use crate::exchange::{Call, Embeddings, Kind, Payload, Recall, Recalled};
use crate::memory::Scope;
use crate::tokens::Counter;
use crate::upstream::overflow::Overflow;
use crate::upstream::plan::Target;
use crate::upstream::summaries::Place;
use crate::upstream::translate::{self, How, Put, unsupported};
use crate::wire::translate::Back;
use crate::wire::{ChatRequest, Dialect, ParamRules};

/// Requests from this size on are put into another dialect off the async threads, in bytes: that runs at hundreds of MB/s.
const PUT_INLINE_BYTES: usize = 128 * 1024;

/// The output limit of a model that we do not know, in tokens: what every model of Anthropic's can write.
const UNKNOWN_MAX_OUTPUT: usize = 4096;

/// What is sent to a target.
#[derive(Clone)]
pub(super) struct Prepared {
    pub(super) body: Bytes,
    pub(super) fitted: Option<Arc<Fitted>>,
    /// We ask for usage although the client did not.
    pub(super) asked_usage: bool,
    /// The conversation's hashes, where there is a use for them.
    pub(super) chain: Option<Arc<Chain>>,
    /// What decides the address.
    pub(super) kind: Kind,
    /// The way back for the answer, where the target speaks another dialect than the client.
    pub(super) back: Option<Back>,
    /// Members that it has no word for.
    pub(super) dropped: Vec<String>,
}

/// What is known, or assumed, of a target when a request is fitted to it.
#[derive(Clone, Copy)]
struct Assumed {
    /// Tokens of input and output together.
    window: Option<usize>,
    /// Real tokens per token of ours.
    correction: f64,
    /// Real tokens that upstream adds to each request.
    overhead: usize,
}

/// How a request is fitted.
struct FitHow {
    chain: Option<Arc<Chain>>,
    digests: Arc<Digests>,
    target: Arc<context::Target>,
    /// The target's parameter rules, until they were applied.
    params: Option<Arc<ParamRules>>,
    /// The request with them applied; none = the client's own.
    rewritten: Option<ChatRequest>,
    figures: bool,
    /// Whether memory takes part: then our own fence is taken out of what came back.
    memory: bool,
}

impl FitHow {
    /// All that the fit of a request depends on. `own` is its chain where memory has none.
    fn input<'a>(
        &'a self,
        call: &'a Call,
        recall: &'a Recall,
        chat: &'a ChatRequest,
        own: Option<&'a Chain>,
        counter: &'a Counter,
        trails: &'a Trails,
    ) -> FitInput<'a> {
        FitInput {
            request: chat,
            chain: self.chain.as_deref().or(own),
            notes: &recall.notes,
            target: &self.target,
            policy: &call.policy,
            budget_header: call.budget_header,
            counter,
            digests: Some(&self.digests),
            trails: self.figures.then_some(trails),
            figures: self.figures,
            strip_own_fence: self.memory,
        }
    }
}

impl Shared {
    /// Makes the body for one target: counts, cuts and splices. With `look`, nothing is settled by it.
    pub(super) async fn prepare(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        digests: &Arc<Digests>,
        look: bool,
    ) -> Result<Prepared, GatewayError> {
        let known = self.learned.known(target, request.call.stamp.at);
        let assumed = Assumed {
            window: target.window(known.window),
            correction: known.correction.ratio,
            overhead: known.correction.overhead.round() as usize,
        };
        self.prepare_for(request, target, assumed, digests, look).await
    }

    /// Makes the body anew for a target that found it larger than its window; `None` when nothing would be different.
    pub(super) async fn refit(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        sent: &Prepared,
        overflow: &Overflow,
    ) -> Option<Prepared> {
        let known = self.learned.known(target, request.call.stamp.at);
        let told = overflow.window.filter(|_| !target.window_is_configured);
        let counted = sent.fitted.as_ref()?.report.sent_uncorrected;
        // What upstream counted of this very request is worth more than what was learned from others.
        let exactly = counted.zip(overflow.sent).map(|(ours, theirs)| theirs as f64 / ours.max(1) as f64);
        let assumed = Assumed {
            window: [target.window(known.window), told].into_iter().flatten().min(),
            correction: exactly.map_or(known.correction.ratio, |ratio| ratio.max(known.correction.ratio)),
            overhead: known.correction.overhead.round() as usize,
        };
        let again = self.prepare_for(request, target, assumed, &self.digests, false).await.ok()?;
        (again.body != sent.body).then_some(again)
    }

    async fn prepare_for(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        assumed: Assumed,
        digests: &Arc<Digests>,
        look: bool,
    ) -> Result<Prepared, GatewayError> {
        let call = &request.call;
        let chat = match &call.payload {
            Payload::Embeddings(embeddings) => {
                if !target.provider.api.embeds() {
                    return Err(unsupported("this target has no embeddings").with_param("model"));
                }
                let (body, kind) = (embeddings_body(embeddings, target), Kind::Embeddings);
                let (fitted, chain, back, dropped) = (None, None, None, Vec::new());
                return Ok(Prepared { body, fitted, asked_usage: false, chain, kind, back, dropped });
            }
            Payload::Chat(chat) => chat,
        };
        let memory = call.identity.memory.read || call.identity.memory.write;
        let counted = memory || call.policy.max_input_tokens > 0 || call.budget_header.is_some();
        let ask_usage = chat.stream()
            && chat.dialect().is_asked_for_usage()
            && (counted || call.reserved.is_some())
            && chat.include_usage() != Some(true)
            && !target.refuses_usage.load(Ordering::Relaxed);
        // A conversation that nobody's budget limits may still grow out of its target's window.
        let summaries = self.summaries.as_ref().filter(|_| counted || chat.body().len() >= Counter::SOON_BYTES);
        let chain = match (&request.recall.chain, summaries) {
            (None, Some(summaries)) => summaries.chain(call),
            (chain, _) => chain.clone(),
        };
        let Assumed { window, correction, overhead } = assumed;
        let how = FitHow {
            chain: chain.clone(),
            digests: Arc::clone(digests),
            target: Arc::new(context::Target { ask_usage, window, correction, overhead, ..target.fit.clone() }),
            params: target.params.clone(),
            rewritten: None,
            figures: counted,
            memory,
        };
        let (mut fitted, how) = self.fit(request, how).await?;
        if let (Some(summaries), Some(chain)) = (summaries, &chain)
            && fitted.report.cut > 0
        {
            let first_kept = fitted.report.first_kept;
            if summaries.settle(Place { call, recall: &request.recall, chain, first_kept }, digests, look).await {
                fitted = self.fit(request, how).await?.0;
            }
        }
        // It is held as what it really is.
        if let (Some(reserved), Some(tokens)) = (call.reserved.as_ref().filter(|_| !look), fitted.report.sent) {
            reserved.sending(tokens as u64)?;
        }
        let Put { body, kind, back, dropped } = self.put(request, target, chat.dialect(), &fitted).await?;
        Ok(Prepared { body, fitted: Some(fitted), asked_usage: ask_usage, chain, kind, back, dropped })
    }

    /// Puts what was fitted into the target's dialect; a very large one off the async threads.
    async fn put(
        &self,
        request: &Recalled<()>,
        target: &Arc<Target>,
        client: Dialect,
        fitted: &Fitted,
    ) -> Result<Put, GatewayError> {
        if target.provider.api.dialects.has(client) {
            return Ok(Put::as_it_is(fitted.body.clone(), client));
        }
        let known = self.learned.known(target, request.call.stamp.at);
        let how = How {
            untranslatable: target.provider.api.untranslatable,
            max_tokens: room_for_reply(target, target.window(known.window), fitted.report.sent),
            completion_tokens: target.provider.wants_completion_tokens(),
            ask_usage: !target.refuses_usage.load(Ordering::Relaxed),
            created: u64::try_from(request.call.stamp.at.0 / 1000).unwrap_or_default(),
        };
        let (target, body) = (Arc::clone(target), fitted.body.clone());
        let put = move || translate::put(&target.provider.api, client, &body, how);
        if fitted.body.len() < PUT_INLINE_BYTES {
            return put();
        }
        tokio::task::spawn_blocking(put).await.map_err(GatewayError::internal)?
    }

    /// Fits a chat request to a target, its rules applied; off the async threads where that takes long. What was made of the request is kept for
    /// the next fit.
    async fn fit(&self, request: &Recalled<()>, mut how: FitHow) -> Result<(Arc<Fitted>, FitHow), GatewayError> {
        let (call, recall) = (Arc::clone(&request.call), Arc::clone(&request.recall));
        let (counter, trails) = (Arc::clone(&self.counter), Arc::clone(&self.trails));
        let takes_long = call.payload.chat().is_some_and(|chat| {
            let is_soon_done = || context::is_soon_done(&how.input(&call, &recall, chat, None, &counter, &trails));
            chat.body().len() >= Counter::SOON_BYTES && (how.params.is_some() || !is_soon_done())
        });
        let fit = move || {
            let Payload::Chat(own) = &call.payload else {
                unreachable!("only chat is fitted");
            };
            if let Some(rules) = how.params.take() {
                how.rewritten = rewrite(own, &rules)?;
            }
            let param = own.dialect().conversation_member();
            let chat = how.rewritten.as_ref().unwrap_or(own);
            // Without a subject no memory is asked, but what was cut is still known again by its state (design, doubt 3).
            let own = (how.figures && how.chain.is_none()).then(|| {
                let (tenant, namespace) = (&call.principal.tenant, &call.identity.namespace);
                conversation::chain(&Scope::new(Arc::clone(tenant), Arc::clone(namespace), ""), chat)
            });
            let fitted = context::fit(&how.input(&call, &recall, chat, own.as_ref(), &counter, &trails));
            fitted.map(|fitted| (Arc::new(fitted), how)).map_err(|error| match error {
                FitError::ContextLength { message, .. } => {
                    GatewayError::new(ErrorKind::ContextLength, message).with_param(param)
                }
            })
        };
        if takes_long {
            // Held by the work itself: a client that leaves does not stop it.
            let turn = Arc::clone(&self.counting).acquire_owned().await.map_err(GatewayError::internal)?;
            let fit = move || {
                let _turn = turn;
                fit()
            };
            tokio::task::spawn_blocking(fit).await.map_err(GatewayError::internal)?
        } else {
            fit()
        }
    }

    /// Wishes for a summary of what the next cut will drop, when that is near.
    pub(super) fn look_ahead(&self, request: &Recalled<()>, prepared: &Prepared) {
        let next = prepared.fitted.as_ref().and_then(|fitted| fitted.report.next_first_kept);
        if let (Some(summaries), Some(chain), Some(first_kept)) = (&self.summaries, &prepared.chain, next) {
            summaries.want(Place { call: &request.call, recall: &request.recall, chain, first_kept });
        }
    }
}

/// The output tokens that a request may have which names no limit, where the API wants one: the model's own, as far as its window has room.
fn room_for_reply(target: &Target, window: Option<usize>, sent: Option<usize>) -> u64 {
    let most = target.fit.max_output.unwrap_or(UNKNOWN_MAX_OUTPUT);
    // Our counts are off by a little.
    let left = window.zip(sent).map(|(window, sent)| window.saturating_sub(sent + sent / 10));
    left.map_or(most, |left| most.min(left)).max(1) as u64
}

/// Applies a target's rules to the client's own request; `None` when they change nothing.
fn rewrite(chat: &ChatRequest, rules: &ParamRules) -> Result<Option<ChatRequest>, GatewayError> {
    let patches = rules.patches(chat.text());
    if patches.is_empty() {
        return Ok(None);
    }
    // Messages and model are reserved, so what was a chat request stays one.
    ChatRequest::decode_as(chat.dialect(), patches.apply(chat.body())).map(Some).map_err(GatewayError::internal)
}

/// The body of an embeddings request for one target.
fn embeddings_body(embeddings: &Embeddings, target: &Target) -> Bytes {
    let model = target.fit.model.as_deref().filter(|model| *model != embeddings.model);
    let body = model.map_or_else(|| embeddings.body.clone(), |model| embeddings.with_model(model));
    match (&target.params, std::str::from_utf8(&body)) {
        (Some(rules), Ok(text)) => rules.patches(text).apply(&body),
        _ => body,
    }
}
