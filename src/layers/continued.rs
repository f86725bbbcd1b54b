//! `Continued`: whether a request may go on from what upstream keeps, what was shown with that, and what is noted of an answer so that a
//! later request may.
//!
//! A `previous_response_id` is a name and nothing more. With the client's own key upstream knows whose it is; behind the operator's key
//! anybody's would do. So a virtual key goes on only from responses that were handed out in its own scope: tenant, namespace and
//! subject. One that may reach the path of stored objects anyway (`passthrough`) may name any of them.

use std::fmt;
use std::sync::Arc;

use super::stage::Stage;
use super::turn::Answered;
use crate::base::{ErrorKind, GatewayError};
use crate::conversation;
use crate::exchange::{Call, Continues, Credential, MemoryOutcome, Recall};
use crate::memory::Scope;
use crate::states::States;
use crate::store::{HandedOut, StateKey, TurnState};
use crate::upstream::Passthrough;
use crate::wire::{ChatRequest, Dialect, Kept, Reply};

/// How long a response may be gone on from, in seconds: 30 days, as OpenAI keeps them.
const KEPT_SECONDS: i64 = 30 * 24 * 3600;

/// So many items may be referred to in one request, behind the operator's key: each is looked up.
const MAX_REFERENCES: usize = 1_000;

/// Looks up what a request goes on from; refuses with 400 what was not handed out to whoever asks.
pub struct Continued(pub Arc<States>);

impl fmt::Debug for Continued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Continued").finish()
    }
}

impl Stage<Call> for Continued {
    type Out = Call;

    async fn run(&self, mut call: Call) -> Result<Call, GatewayError> {
        let Some(chat) = call.payload.chat().filter(|chat| chat.partial().is_some()) else {
            return Ok(call);
        };
        match chat.kept_upstream() {
            Some(Kept::Response(id)) => {
                let found = Box::pin(self.find(&call, &id)).await?;
                if found.is_none() && is_walled(&call, "/v1/responses") {
                    let text = format!("Previous response with id '{id}' not found.");
                    return Err(not_found(text, "previous_response_id"));
                }
                call.continues = found.flatten().map(|shown| Continues {
                    profile: Arc::clone(&shown.profile),
                    profile_facts: shown.profile_facts.clone(),
                    revision: shown.revision,
                });
            }
            Some(Kept::Conversation(id)) if is_walled(&call, "/v1/conversations") => {
                return Err(not_found(format!("Conversation with id '{id}' not found."), "conversation"));
            }
            Some(Kept::Conversation(_)) | None => {}
        }
        if is_walled(&call, "/v1/responses") {
            Box::pin(self.check_references(&call)).await?;
        }
        Ok(call)
    }
}

impl Continued {
    /// What was shown with a response, or an item of one; `None` = it was not handed out in this scope.
    async fn find(&self, call: &Call, id: &str) -> Result<Option<Option<Arc<TurnState>>>, GatewayError> {
        let scope = scope_of(call);
        let key = StateKey { prefix: conversation::after_response(&scope, id), scope };
        match self.0.handed_out(&key, call.stamp.at).await {
            Ok(found) => Ok(found),
            // Behind the client's own key nobody but upstream has to know.
            Err(_) if matches!(call.credential, Credential::Client(_)) => Ok(None),
            Err(error) => {
                tracing::warn!(%error, "whether a response was handed out to this key cannot be told");
                Err(GatewayError::new(ErrorKind::Overloaded, "the previous response cannot be looked up right now"))
            }
        }
    }

    async fn check_references(&self, call: &Call) -> Result<(), GatewayError> {
        let ids: Vec<String> = call.payload.chat().map(references).unwrap_or_default();
        if ids.len() > MAX_REFERENCES {
            let text = format!("a request may refer to {MAX_REFERENCES} items at most");
            return Err(GatewayError::new(ErrorKind::BadRequest, text).with_param("input"));
        }
        for id in ids {
            if self.find(call, &id).await?.is_none() {
                return Err(not_found(format!("Item with id '{id}' not found."), "input"));
            }
        }
        Ok(())
    }
}

fn references(chat: &ChatRequest) -> Vec<String> {
    chat.references().map(|id| id.into_owned()).collect()
}

/// Whether a key sees only what was handed out to it: one of ours, that does not reach a path of upstream's stored objects anyway.
fn is_walled(call: &Call, path: &str) -> bool {
    !Passthrough::allows(&call.principal, &call.credential, path)
}

/// Whether it is noted to whom the answer was handed out: upstream keeps it, and either a later request is asked whether it may go on from
/// it, or something was shown that is to stay. With the client's own key and without memory nothing of it is kept here.
pub(super) fn is_noted(call: &Call, recall: &Recall) -> bool {
    let responses = call.payload.chat().filter(|chat| chat.dialect() == Dialect::Responses);
    responses.is_some_and(|chat| chat.get("store") != Some("false"))
        && (is_walled(call, "/v1/responses") || may_keep(call, recall))
}

/// What was shown is kept for longer than the request, so only where something may be kept.
fn may_keep(call: &Call, recall: &Recall) -> bool {
    let memory = call.identity.memory;
    let asked = matches!(recall.outcome, MemoryOutcome::Asked { .. } | MemoryOutcome::Pinned { .. });
    memory.read && memory.write && asked
}

/// The names of an answer that upstream keeps, and what was shown with it; `None` where that is not noted.
pub(super) fn handed_out(
    call: &Call,
    recall: &Recall,
    answered: Option<&Answered>,
    reply: &Reply,
) -> Option<HandedOut> {
    let id = reply.id.as_ref().filter(|_| is_noted(call, recall))?;
    let scope = scope_of(call);
    let expires_at = call.stamp.at.plus_seconds(KEPT_SECONDS);
    let shown = answered.filter(|_| may_keep(call, recall)).map(|answered| TurnState {
        profile: Arc::clone(&answered.fitted.profile),
        profile_facts: recall.profile_facts.clone(),
        recollection: Arc::from(""),
        facts: Vec::new(),
        episodes: Vec::new(),
        passages: Vec::new(),
        revision: recall.revision,
        expires_at,
    });
    let names = std::iter::once(id).chain(&reply.items);
    Some(HandedOut {
        names: names.map(|name| conversation::after_response(&scope, name)).collect(),
        epoch: shown.is_some().then_some(recall.epoch),
        scope,
        shown,
        expires_at,
    })
}

/// Where what is handed out with a request belongs. Who names no subject goes on from what nobody's name stood on.
fn scope_of(call: &Call) -> Scope {
    call.identity
        .scope
        .clone()
        .unwrap_or_else(|| Scope::new(Arc::clone(&call.principal.tenant), Arc::clone(&call.identity.namespace), ""))
}

/// In OpenAI's words: clients know the code, and send the whole conversation again.
fn not_found(text: String, param: &'static str) -> GatewayError {
    GatewayError::new(ErrorKind::NoSuchResponse, text).with_param(param)
}
