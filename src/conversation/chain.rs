//! The hash chain over a conversation's messages.

use crate::memory::Scope;
use crate::wire::{ChatRequest, Kept, Message, Role, decode_lossy, scan};

use super::fence;

/// A BLAKE3 hash.
pub type Hash = [u8; 32];

/// The states that a conversation went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// For each message of the request, the state after it. Instruction messages (system, developer) are not part of the
    /// state, since they carry clocks: they repeat the previous one.
    pub prefixes: Vec<Hash>,
    /// For each message, its own hash; of instruction messages too.
    pub message_hashes: Vec<Hash>,
    /// The state before the first message: the scope.
    pub start: Hash,
    /// Where the user messages are.
    users: Vec<usize>,
    n_messages: usize,
}

impl Chain {
    /// The newest user message: where the newest user turn begins.
    #[must_use]
    pub fn newest_user(&self) -> Option<usize> {
        self.users.last().copied()
    }

    /// The state up to and including the newest user message: it names the user turn, its retries and its tool loop.
    #[must_use]
    pub fn turn(&self) -> Option<Hash> {
        self.newest_user().map(|i| self.prefixes[i])
    }

    /// The state up to and including the user message before the newest: the turn before this one.
    #[must_use]
    pub fn previous_turn(&self) -> Option<Hash> {
        let at = self.users.len().checked_sub(2)?;
        self.users.get(at).map(|&i| self.prefixes[i])
    }

    /// The state at the first user message: it names the conversation.
    #[must_use]
    pub fn session(&self) -> Option<Hash> {
        self.users.first().map(|&i| self.prefixes[i])
    }

    /// How many user messages there are.
    #[must_use]
    pub fn n_users(&self) -> usize {
        self.users.len()
    }

    /// The user messages, in order.
    #[must_use]
    pub fn users(&self) -> &[usize] {
        &self.users
    }

    /// Whether the newest user turn is already going on: there are messages behind the newest user message.
    #[must_use]
    pub fn is_tool_loop(&self) -> bool {
        self.newest_user().is_some_and(|i| i + 1 < self.n_messages)
    }
}

/// Hashes the messages of a request, one onto the other, starting from the scope: equal words under two scopes are two
/// conversations.
#[must_use]
pub fn chain(scope: &Scope, request: &ChatRequest) -> Chain {
    let text = request.text();
    let messages = request.messages();
    // One buffer for all messages: hashing short texts whole is several times faster than an incremental hasher.
    let mut buffer = Vec::with_capacity(1024);
    let start = start_of(scope, request);
    let mut out = Chain {
        prefixes: Vec::with_capacity(messages.len()),
        message_hashes: Vec::with_capacity(messages.len()),
        start,
        users: Vec::new(),
        n_messages: messages.len(),
    };
    let mut state = start;
    for (i, message) in messages.iter().enumerate() {
        let hash = hash_of(text, message, &mut buffer);
        if !message.role.is_instruction() {
            let mut both = [0_u8; 64];
            both[..32].copy_from_slice(&state);
            both[32..].copy_from_slice(&hash);
            state = *blake3::hash(&both).as_bytes();
        }
        if message.role == Role::User {
            out.users.push(i);
        }
        out.message_hashes.push(hash);
        out.prefixes.push(state);
    }
    out
}

/// Returns the state before the first message of every conversation of a scope.
#[must_use]
pub fn start(scope: &Scope) -> Hash {
    let mut buffer = Vec::with_capacity(128);
    buffer.extend_from_slice(b"backstory conversation 1\0");
    for name in [&scope.tenant, &scope.namespace, &scope.subject] {
        add(&mut buffer, name);
    }
    *blake3::hash(&buffer).as_bytes()
}

/// Where upstream keeps what was said before, what it keeps names the state that the request goes on from.
fn start_of(scope: &Scope, request: &ChatRequest) -> Hash {
    let start = start(scope);
    match request.kept_upstream() {
        None => start,
        Some(kept) => after(&start, &kept),
    }
}

/// Returns the state under which is kept what was shown with a response: that of a conversation which goes on from it.
#[must_use]
pub fn after_response(scope: &Scope, id: &str) -> Hash {
    after(&start(scope), &Kept::Response(id.into()))
}

fn after(start: &Hash, kept: &Kept<'_>) -> Hash {
    let (what, id) = match kept {
        Kept::Response(id) => ("response", id),
        Kept::Conversation(id) => ("conversation", id),
    };
    let mut buffer = Vec::with_capacity(128);
    buffer.extend_from_slice(start);
    add(&mut buffer, what);
    add(&mut buffer, id);
    *blake3::hash(&buffer).as_bytes()
}

/// Returns the hash of a message that is nothing but text, as it has in a [`Chain`].
#[must_use]
pub fn message_hash(role: Role, text: &str) -> Hash {
    let mut buffer = Vec::with_capacity(text.len() + 32);
    add(&mut buffer, role.as_str());
    add(&mut buffer, &fence::strip(text));
    *blake3::hash(&buffer).as_bytes()
}

/// The canonical form: role, text (our own fence taken out) and tool calls. Not in it: `cache_control`, which clients move
/// from turn to turn, ids of tool calls, and images (signed URLs change with each request).
fn hash_of(text: &str, message: &Message, buffer: &mut Vec<u8>) -> Hash {
    buffer.clear();
    add(buffer, message.role.as_str());
    add(buffer, &fence::strip(&message.text(text)));
    for call in message.calls(text) {
        buffer.extend_from_slice(b"call");
        for key in ["name", "arguments", "input"] {
            if let Some(value) = scan::member(text, call.span, key) {
                add(buffer, &decode_lossy(value.of(text)));
            }
        }
    }
    *blake3::hash(buffer).as_bytes()
}

/// Adds a text and its length, so that where one ends and the next begins is part of the hash.
fn add(buffer: &mut Vec<u8>, text: &str) {
    buffer.extend_from_slice(&(text.len() as u64).to_le_bytes());
    buffer.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    fn of(messages: Value) -> Chain {
        let body = json!({"model": "m", "messages": messages}).to_string();
        chain(&Scope::new("t", "n", "s"), &ChatRequest::decode(Bytes::from(body)).unwrap())
    }

    fn user(text: &str) -> Value {
        json!({"role": "user", "content": text})
    }

    #[test]
    fn equal_prefixes_have_equal_hashes_and_a_change_shows_from_there_on() {
        let a = of(json!([user("a"), user("b"), user("c")]));
        let b = of(json!([user("a"), user("x"), user("c")]));
        assert_eq!(a.prefixes[0], b.prefixes[0]);
        assert_ne!(a.prefixes[1], b.prefixes[1]);
        assert_ne!(a.prefixes[2], b.prefixes[2]);
        assert_eq!(a.message_hashes[2], b.message_hashes[2]);
    }

    #[test]
    fn a_scope_is_part_of_every_state() {
        let body = Bytes::from(json!({"model": "m", "messages": [user("a")]}).to_string());
        let request = ChatRequest::decode(body).unwrap();
        let turn = |t, n, s| chain(&Scope::new(t, n, s), &request).turn();
        assert_ne!(turn("t", "n", "s"), turn("t", "n", "s2"));
        assert_ne!(turn("t", "n", "s"), turn("tn", "", "s"));
    }

    #[test]
    fn form_clocks_and_cache_marks_do_not_matter() {
        let plain = of(json!([{"role": "system", "content": "It is 10:00"}, user("a")]));
        let parts = of(json!([{"role": "system", "content": "It is 10:05"},
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]));
        assert_eq!(plain.prefixes, parts.prefixes);
        assert_eq!(plain.prefixes[0], plain.start);
        assert_eq!(plain.message_hashes[1], message_hash(Role::User, "a"));
    }

    #[test]
    fn tool_calls_matter_and_their_ids_do_not() {
        let call = |id: &str, arguments: &str| {
            of(json!([user("a"), {"role": "assistant", "content": null,
                "tool_calls": [{"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}]}]))
        };
        assert_eq!(call("1", "{}").prefixes, call("2", "{}").prefixes);
        assert_ne!(call("1", "{}").prefixes, call("1", "[]").prefixes);
    }

    #[test]
    fn our_own_fence_does_not_matter() {
        let plain = of(json!([user("hello")]));
        let fenced = of(json!([user("<backstory-notes>\n- x\n</backstory-notes>\n\nhello")]));
        assert_eq!(plain, fenced);
    }

    #[test]
    fn turns_and_sessions_are_named() {
        let tool = json!({"role": "tool", "tool_call_id": "c", "content": "42"});
        let c = of(
            json!([{"role": "system", "content": "s"}, user("a"), {"role": "assistant", "content": "b"}, user("c"), tool]),
        );
        assert_eq!((c.newest_user(), c.n_users(), c.is_tool_loop()), (Some(3), 2, true));
        assert_eq!(c.session(), Some(c.prefixes[1]));
        assert_eq!(c.previous_turn(), Some(c.prefixes[1]));
        assert_eq!(c.turn(), Some(c.prefixes[3]));
        assert!(!of(json!([user("a")])).is_tool_loop());
        let none = of(json!([{"role": "assistant", "content": "b"}]));
        assert_eq!((none.turn(), none.previous_turn(), none.session(), none.is_tool_loop()), (None, None, None, false));
    }
}
