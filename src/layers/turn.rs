//! From a call and its reply to what the outbox keeps.

use std::sync::Arc;

use serde_json::json;

use crate::base::{Time, hex};
use crate::context::Fitted;
use crate::conversation::{self, fence};
use crate::exchange::{Call, MemoryOutcome, Recall};
use crate::memory::{Said, Speaker, Turn, segment};
use crate::store::{Finished, Shown, StateKey, TurnState, UsageRow};
use crate::wire::Role;

/// How long a conversation state is kept, in seconds: 7 days.
const STATE_SECONDS: i64 = 7 * 24 * 3600;
/// Longest text of one side that is kept for learning, in bytes. What is longer is a pasted document: its head is enough.
const MAX_SAID_BYTES: usize = 64 * 1024;
/// Longest part of the assistant's earlier message that is kept, in bytes.
const MAX_BEFORE_BYTES: usize = 2 * 1024;

/// What is known about a request once upstream has answered.
#[derive(Debug)]
pub(super) struct Answered {
    /// What was sent.
    pub(super) fitted: Arc<Fitted>,
    /// The target that answered.
    pub(super) target: String,
    /// The memory outcome, as in the response header.
    pub(super) memory: String,
    /// The context figures, as in the response header.
    pub(super) context: String,
}

/// How an exchange ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// The conversation state that came up with it.
    pub(super) state: Option<(StateKey, TurnState)>,
    /// The reply's text.
    pub(super) reply: Option<String>,
    /// Whether the reply ended as it should.
    pub(super) complete: bool,
    /// Whether what was shown is kept.
    pub(super) trace: bool,
    /// When it ended.
    pub(super) at: Time,
    /// What it used.
    pub(super) usage: Option<Box<UsageRow>>,
}

/// Returns the state to keep for the newest user turn; `None` where memory is not read, or there is no user turn.
pub(super) fn state(call: &Call, recall: &Recall, fitted: &Fitted) -> Option<(StateKey, TurnState)> {
    let (chat, chain, scope) = (call.payload.chat()?, recall.chain.as_ref()?, call.identity.scope.as_ref()?);
    // A pinned turn has its state already.
    if !call.identity.memory.read || matches!(recall.outcome, MemoryOutcome::Pinned { .. }) {
        return None;
    }
    let prefix = *chain.prefixes.get(chat.newest_user()?)?;
    let state = TurnState {
        profile: Arc::clone(&fitted.profile),
        profile_facts: recall.profile_facts.clone(),
        recollection: Arc::clone(&fitted.recollection),
        facts: fitted.facts_shown.clone(),
        episodes: fitted.episodes_shown.clone(),
        passages: fitted.passages_shown.clone(),
        revision: recall.revision,
        expires_at: call.stamp.at.plus_seconds(STATE_SECONDS),
    };
    Some((StateKey { scope: scope.clone(), prefix }, state))
}

/// Puts together what one exchange leaves in the outbox.
pub(super) fn finished(call: &Call, recall: &Recall, answered: Option<&Answered>, ended: Ended) -> Option<Finished> {
    let Ended { state, reply, complete, trace, at, usage } = ended;
    let scope = call.identity.scope.clone()?;
    let write = call.identity.memory.write;
    let shown = answered.filter(|_| trace).map(|answered| Shown {
        exchange: call.stamp.exchange,
        at: call.stamp.at,
        model: call.payload.model().to_owned(),
        target: answered.target.clone(),
        memory: answered.memory.clone(),
        context: answered.context.clone(),
        detail: json!({
            "profile": &*answered.fitted.profile,
            "recollection": &*answered.fitted.recollection,
            "earlier": answered.fitted.earlier.iter().map(|block| &**block).collect::<Vec<_>>(),
            "facts": answered.fitted.facts_shown,
            "episodes": answered.fitted.episodes_shown,
            "passages": answered.fitted.passages_shown,
            "why": recall.why.iter().map(|w| json!({"id": w.id, "score": w.score, "reason": w.reason})).collect::<Vec<_>>(),
        }),
        complete,
    });
    Some(Finished {
        exchange: call.stamp.exchange,
        scope,
        at,
        turn: if write { turn(call, recall, answered, reply, complete) } else { None },
        shown,
        state: state.filter(|_| write),
        usage,
    })
}

/// What there is to learn from: the newest user turn and its reply.
fn turn(
    call: &Call,
    recall: &Recall,
    answered: Option<&Answered>,
    reply: Option<String>,
    complete: bool,
) -> Option<Turn> {
    let (chat, chain) = (call.payload.chat()?, recall.chain.as_ref()?);
    let newest = chat.newest_user()?;
    let messages = chat.messages();
    let said = |index: usize, role: Speaker, limit: usize| {
        let text = chat.message_text(&messages[index]);
        let text = clip(&fence::strip(&text), limit).to_owned();
        Said { role, text, hash: hex(&chain.message_hashes[index]) }
    };
    let before = messages[..newest]
        .iter()
        .rposition(|m| !m.role.is_instruction())
        .filter(|&index| messages[index].role == Role::Assistant)
        .map(|index| said(index, Speaker::Assistant, MAX_BEFORE_BYTES));
    // A task in a message of its own, and behind it the text that it is about: the words are somebody's of another conversation.
    let is_material = newest.checked_sub(1).is_some_and(|at| {
        messages[at].role == Role::User
            && segment::is_payload_task(fence::strip(&chat.message_text(&messages[at])).trim())
    });
    if is_material {
        return None;
    }
    let hash = chain.message_hashes[newest];
    let repeated = (0..newest).any(|i| messages[i].role == Role::User && chain.message_hashes[i] == hash);
    let first = messages.iter().position(|m| m.role == Role::User)?;
    let reply = reply.map(|text| {
        let text = clip(&fence::strip(&text), MAX_SAID_BYTES).to_owned();
        let hash = hex(&conversation::message_hash(Role::Assistant, &text));
        Said { role: Speaker::Assistant, text, hash }
    });
    let shown = answered
        .into_iter()
        .flat_map(|a| [&a.fitted.profile, &a.fitted.recollection].into_iter().chain(&a.fitted.earlier))
        .map(|block| block.to_string())
        .filter(|block| !block.is_empty())
        .collect();
    Some(Turn {
        exchange: call.stamp.exchange,
        scope: call.identity.scope.clone()?,
        epoch: recall.epoch,
        session: hex(&chain.prefixes[first]),
        turn_key: hex(&chain.prefixes[newest]),
        turn_index: messages[..newest].iter().filter(|m| m.role == Role::User).count() as i64,
        said_at: call.stamp.at,
        before,
        user: vec![said(newest, Speaker::User, MAX_SAID_BYTES)],
        repeated,
        reply,
        complete,
        shown,
        trace: call.stamp.trace,
    })
}

/// The head of a text, at most `limit` bytes, cut between characters.
fn clip(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let end = (0..=limit).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    &text[..end]
}
