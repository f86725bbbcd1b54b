//! What was sent, message by message, as far as it takes to tell how much of it the next request repeats.
//!
//! Providers cache the prefix that a prompt has in common with an earlier one, so the length of that prefix is what a conversation
//! costs. A [`Trail`] holds hashes, lengths and token counts, never texts; [`Trails`] keeps the last one of each conversation.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use foldhash::quality::RandomState;
use moka::sync::Cache;

use crate::conversation::Chain;
use crate::wire::{ChatRequest, Message, Patches, Role, Span};

/// One message as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link {
    hash: u64,
    bytes: u32,
    tokens: u32,
}

/// A request as it was sent. Hashes are seeded in each process: a trail means nothing in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// Tool schemas and `response_format`: they stand before the messages in the prompt.
    head: Link,
    messages: Vec<Link>,
    /// Names the conversation up to the end of this request.
    end: u64,
    /// Names it up to the end of the request before, as far as the messages tell.
    before: Option<u64>,
    /// Messages that were cut.
    n_cut: usize,
    /// Whether the newest user turn was already going on.
    is_tool_loop: bool,
}

/// What two requests of one conversation have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// Bytes of whole messages (and tool schemas) in the common prefix.
    pub bytes: usize,
    /// Tokens of them.
    pub tokens: usize,
    /// All bytes of the later request's messages and tool schemas.
    pub all_bytes: usize,
    /// All tokens of the later request.
    pub all_tokens: usize,
    /// Whether the later request cut something that the earlier one did not.
    pub newly_cut: bool,
    /// Whether the later request goes on with the same user turn.
    pub is_tool_loop: bool,
}

impl Common {
    /// The share of the tokens that is in the common prefix.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.all_tokens == 0 { 0.0 } else { self.tokens as f64 / self.all_tokens as f64 }
    }
}

/// What a trail is made of.
pub(super) struct Sent<'a> {
    pub(super) request: &'a ChatRequest,
    pub(super) chain: Option<&'a Chain>,
    pub(super) patches: &'a Patches,
    /// The body with the patches applied.
    pub(super) body: &'a [u8],
    /// Tokens of each of the client's messages, as they are sent.
    pub(super) tokens: &'a [usize],
    /// Tokens of a message of our own before them.
    pub(super) new_message: usize,
    /// Tokens of what is sent beside messages.
    pub(super) fixed: usize,
    pub(super) n_cut: usize,
}

impl Trail {
    /// Makes the trail of a request. Linear in its bytes, which are hashed once.
    pub(super) fn of(sent: &Sent<'_>, keys: &RandomState) -> Self {
        let messages = sent.request.messages();
        let (end, before) = names(sent, keys);
        Self {
            head: head(sent, keys),
            messages: links(sent, keys),
            end,
            before,
            n_cut: sent.n_cut,
            is_tool_loop: sent.request.newest_user().is_some_and(|at| at + 1 < messages.len()),
        }
    }

    /// Returns what `later` has in common with this one, in whole messages.
    #[must_use]
    pub fn common(&self, later: &Self) -> Common {
        let all = later.messages.iter().chain([&later.head]);
        let mut common = Common {
            newly_cut: later.n_cut > self.n_cut,
            is_tool_loop: later.is_tool_loop,
            all_bytes: all.clone().map(|link| link.bytes as usize).sum(),
            all_tokens: all.map(|link| link.tokens as usize).sum(),
            ..Common::default()
        };
        if self.head.hash != later.head.hash {
            return common;
        }
        let same = self.messages.iter().zip(&later.messages).take_while(|(a, b)| a.hash == b.hash);
        for link in same.map(|(_, link)| link).chain([&later.head]) {
            common.bytes += link.bytes as usize;
            common.tokens += link.tokens as usize;
        }
        common
    }

    fn bytes(&self) -> u32 {
        u32::try_from(size_of::<Self>() + self.messages.len() * size_of::<Link>() + 64).unwrap_or(u32::MAX)
    }
}

/// Every patch before a message moves it; those within it are part of it; one that covers it takes it out.
fn links(sent: &Sent<'_>, keys: &RandomState) -> Vec<Link> {
    let in_order = sent.patches.in_order();
    let mut patches = in_order.iter().copied().peekable();
    let messages = sent.request.messages();
    let mut out: Vec<(usize, Link)> = Vec::with_capacity(messages.len());
    // What the model reads first may stand behind the messages, as Anthropic's `system` does where members are sorted.
    let mut places: Vec<usize> = (0..messages.len()).collect();
    places.sort_by_key(|&at| messages[at].span.start);
    // Offsets into what is sent less offsets into what came; a sum of lengths that never goes below zero as a whole.
    let (mut grown, mut shrunk) = (0, 0);
    let mut removed_to = 0;
    for at in places {
        let message = &messages[at];
        while let Some((span, with)) = patches.next_if(|(span, _)| is_before(*span, message)) {
            grown += with.len();
            shrunk += span.len();
            removed_to = removed_to.max(span.end);
        }
        if removed_to > message.span.start {
            continue;
        }
        let start = message.span.start + grown - shrunk;
        while let Some((span, with)) =
            patches.next_if(|(span, _)| span.end <= message.span.end && span.start < message.span.end)
        {
            grown += with.len();
            shrunk += span.len();
        }
        let end = message.span.end + grown - shrunk;
        let bytes = sent.body.get(start..end).unwrap_or_default();
        out.push((at, link(keys, bytes, sent.tokens.get(at).copied().unwrap_or(0))));
    }
    out.sort_by_key(|&(at, _)| at);
    let own = in_order.iter().filter(|(span, _)| sent.new_message > 0 && is_own(*span, sent.request));
    let own = own.map(|(_, with)| link(keys, with.trim_matches(',').as_bytes(), sent.new_message));
    own.chain(out.into_iter().map(|(_, link)| link)).collect()
}

/// Whether a change puts in a system message of our own.
fn is_own(span: Span, request: &ChatRequest) -> bool {
    span.is_empty() && span.start == request.system_message_at()
}

/// Whether a change stands before a message, or takes it out.
fn is_before(span: Span, message: &Message) -> bool {
    span.end <= message.span.start || (span.start <= message.span.start && span.end > message.span.end)
}

fn link(keys: &RandomState, bytes: &[u8], tokens: usize) -> Link {
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Link { hash: keys.hash_one(bytes), bytes: small(bytes.len()), tokens: small(tokens) }
}

/// What of a request stands before the messages in the prompt, in any dialect.
const HEAD: [&str; 6] = ["tools", "functions", "response_format", "output_format", "output_config", "text"];

fn head(sent: &Sent<'_>, keys: &RandomState) -> Link {
    let text = sent.request.text();
    let mut hasher = keys.build_hasher();
    let mut bytes = 0;
    for member in sent.request.members() {
        if HEAD.contains(&member.key.of(text)) {
            member.value.of(text).hash(&mut hasher);
            bytes += member.value.len();
        }
    }
    Link {
        hash: hasher.finish(),
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        tokens: u32::try_from(sent.fixed).unwrap_or(u32::MAX),
    }
}

/// The names of the conversation at the end of this request and of the one before: the messages up to the last that is not the model's,
/// and those up to what the model answered then.
fn names(sent: &Sent<'_>, keys: &RandomState) -> (u64, Option<u64>) {
    let messages = sent.request.messages();
    let is_models = |message: &Message| message.role == Role::Assistant;
    let end = messages.iter().rposition(|message| !is_models(message));
    let answer = end.and_then(|end| messages[..end].iter().rposition(is_models));
    let before = answer.and_then(|answer| messages[..answer].iter().rposition(|message| !is_models(message)));
    // Instruction messages carry clocks and are no part of a name.
    let name = |upto: usize| match sent.chain.and_then(|chain| chain.prefixes.get(upto)) {
        Some(prefix) => keys.hash_one(prefix),
        None => {
            let mut hasher = keys.build_hasher();
            for message in messages[..=upto].iter().filter(|message| !message.role.is_instruction()) {
                hasher.write(message.span.of(sent.request.text()).as_bytes());
            }
            hasher.finish()
        }
    };
    (end.map_or(0, name), before.map(name))
}

/// The last trail of each conversation. Bounded: of one that is not here, nothing is measured.
#[derive(Debug)]
pub struct Trails {
    last: Cache<u64, Arc<Trail>>,
    keys: RandomState,
}

impl Trails {
    /// Keeps at most `max_bytes` bytes of trails.
    #[must_use]
    pub fn new(max_bytes: u64) -> Self {
        let weigh = |_: &u64, trail: &Arc<Trail>| trail.bytes();
        Self { last: Cache::builder().weigher(weigh).max_capacity(max_bytes).build(), keys: RandomState::default() }
    }

    /// Bytes that are held, by their own count.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.last.weighted_size()
    }

    pub(super) fn keys(&self) -> &RandomState {
        &self.keys
    }

    /// Takes in a request that was sent to `target`, and returns what it has in common with the one before of its conversation there;
    /// `None` when there was none, or it is not known any more. Caches are the target's own, so another target is another conversation.
    pub fn follow(&self, target: &str, trail: &Arc<Trail>) -> Option<Common> {
        let key = |name: u64| self.keys.hash_one((target, name));
        let before = trail.before.and_then(|name| self.last.get(&key(name)));
        self.last.insert(key(trail.end), Arc::clone(trail));
        before.map(|before| before.common(trail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    use crate::context::{FitInput, NoteLine, Notes, Policy, SystemRole, Target, fit};
    use crate::tokens::Counter;

    /// Fits a conversation with memory and returns its trail, what the report says was sent, and the body.
    fn sent(messages: &Value, budget: usize, role: SystemRole, trails: &Trails) -> (Arc<Trail>, usize, Value) {
        let body = json!({"messages": messages, "model": "m"}).to_string();
        let request = ChatRequest::decode(Bytes::from(body)).unwrap();
        let line = |text: &str| NoteLine { text: text.to_owned(), ..NoteLine::default() };
        let notes =
            Notes { profile: vec![line("name: Ada")], recollection: vec![line("likes tea")], ..Notes::default() };
        let fitted = fit(&FitInput {
            request: &request,
            chain: None,
            notes: &notes,
            target: &Target { system_role: role, ..Target::default() },
            policy: &Policy { max_input_tokens: budget, memory_tokens: 200, ..Policy::default() },
            budget_header: None,
            counter: &Counter::new(1 << 12),
            digests: None,
            trails: Some(trails),
            strip_own_fence: true,
            figures: true,
        });
        let fitted = fitted.unwrap();
        (fitted.trail.unwrap(), fitted.report.sent.unwrap(), serde_json::from_slice(&fitted.body).unwrap())
    }

    fn turns(n: usize) -> Vec<Value> {
        let turn = |n: usize| {
            [
                json!({"role": "user", "content": format!("question {n} {}", "and so on ".repeat(20))}),
                json!({"role": "assistant", "content": "yes"}),
            ]
        };
        let mut turns: Vec<Value> = (0..n).flat_map(turn).collect();
        turns.pop();
        turns
    }

    #[test]
    fn every_message_that_is_sent_is_in_the_trail_with_its_bytes_and_tokens() {
        let trails = Trails::new(1 << 16);
        for role in [SystemRole::FirstUser, SystemRole::System] {
            for (budget, n) in [(0, 1), (0, 5), (700, 20)] {
                let (trail, tokens, body) = sent(&turns(n).into(), budget, role, &trails);
                let messages = body["messages"].as_array().unwrap();
                assert_eq!(trail.messages.len(), messages.len());
                let same = trail.common(&trail);
                assert_eq!((same.tokens, same.all_tokens, same.bytes), (tokens, tokens, same.all_bytes));
                assert_eq!(same.all_bytes, messages.iter().map(|m| m.to_string().len()).sum::<usize>());
            }
        }
    }

    #[test]
    fn the_next_request_finds_the_one_before_at_its_own_target() {
        let trails = Trails::new(1 << 16);
        let all = turns(3);
        let of = |end: usize| sent(&all[..end].to_vec().into(), 0, SystemRole::System, &trails).0;
        assert_eq!(trails.follow("a", &of(1)), None);
        let common = trails.follow("a", &of(3)).unwrap();
        // The message of our own; the question before lost its notes.
        assert_eq!(common.bytes, of(1).messages[0].bytes as usize);
        assert!(!common.newly_cut && !common.is_tool_loop && common.share() > 0.0);
        assert_eq!(trails.follow("b", &of(5)), None, "another target has another cache");
        assert!(trails.follow("a", &of(5)).unwrap().bytes > common.bytes);
    }
}
