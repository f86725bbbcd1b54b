//! What there is to sum up: the messages that the next cut will drop, and the summary of what went before.

use crate::conversation::{Chain, Hash, fence};
use crate::memory::redact::redact;
use crate::wire::{ChatRequest, Role};

use super::Summary;

/// Bytes of messages that a model is shown at most, newest first: about 12,000 tokens.
const MAX_BYTES: usize = 48 * 1024;
/// A longer message is shown by its beginning and its end.
const MAX_MESSAGE_BYTES: usize = 6 * 1024;
/// So many states are looked at for an earlier summary, newest first.
const MAX_CANDIDATES: usize = 1_000;

/// What a summary is made of. Secrets are masked, our own fence is taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Material {
    /// The state that it leads up to.
    covers: Hash,
    /// What an earlier summary says of the time before; empty = nothing.
    earlier: String,
    /// The messages, oldest first.
    said: Vec<Said>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    /// The state after it.
    state: Hash,
    role: Role,
    text: String,
}

/// Returns the states before message `first_kept`, newest first: those for which a summary may be there.
#[must_use]
pub fn candidates(chain: &Chain, first_kept: usize) -> Vec<Hash> {
    let mut states: Vec<Hash> = chain.prefixes.iter().take(first_kept).rev().copied().collect();
    // An instruction message repeats the state before it.
    states.dedup();
    states.retain(|state| *state != chain.start);
    states.truncate(MAX_CANDIDATES);
    states
}

impl Material {
    /// Reads the messages before `first_kept`; `None` when they say nothing.
    #[must_use]
    pub fn read(request: &ChatRequest, chain: &Chain, first_kept: usize) -> Option<Self> {
        let covers = *chain.prefixes.get(first_kept.checked_sub(1)?)?;
        let (mut left, mut said) = (MAX_BYTES, Vec::new());
        let messages = request.messages().iter().zip(&chain.prefixes).take(first_kept).rev();
        for (message, &state) in messages.filter(|(message, _)| !message.role.is_instruction()) {
            let text = message.text(request.text());
            let text = ends(&redact(&fence::strip(&text)), MAX_MESSAGE_BYTES);
            if text.trim().is_empty() {
                continue;
            }
            let Some(rest) = left.checked_sub(text.len()) else { break };
            left = rest;
            said.push(Said { state, role: message.role, text });
        }
        said.reverse();
        (!said.is_empty()).then_some(Self { covers, earlier: String::new(), said })
    }

    /// The state that it leads up to.
    #[must_use]
    pub fn covers(&self) -> Hash {
        self.covers
    }

    /// Puts an earlier summary in the place of the messages that it tells of.
    #[must_use]
    pub fn after(mut self, earlier: &Summary) -> Self {
        if let Some(at) = self.said.iter().rposition(|said| said.state == earlier.covers) {
            self.said.drain(..=at);
        }
        self.earlier = redact(&earlier.text).into_owned();
        self
    }

    /// Everything in it as one text, as a model is shown it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.earlier.is_empty() {
            out.push_str("before that: ");
            out.push_str(&self.earlier);
            out.push('\n');
        }
        for said in &self.said {
            out.push_str(said.role.as_str());
            out.push_str(": ");
            out.push_str(&said.text);
            out.push('\n');
        }
        out
    }

    /// What the user said in it, or else all of it: shows which language is spoken.
    #[must_use]
    pub fn voice(&self) -> String {
        let of_user: Vec<_> = self.said.iter().filter(|s| s.role == Role::User).map(|s| s.text.as_str()).collect();
        if of_user.is_empty() { self.text() } else { of_user.join("\n") }
    }
}

/// Returns a text, or its beginning and its end when it is longer than `max` bytes.
fn ends(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(max / 2);
    let tail = text.ceil_char_boundary(text.len() - max / 2);
    format!("{}\n…\n{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::conversation::chain;
    use crate::memory::Scope;

    fn request() -> (ChatRequest, Chain) {
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": "It is noon."},
            {"role": "user", "content": "<backstory-notes>\n- x\n</backstory-notes>\n\nMy boat is red."},
            {"role": "assistant", "content": "Nice."},
            {"role": "system", "content": "It is one."},
            {"role": "user", "content": format!("The key is sk-proj-{}", "a1B2".repeat(8))},
            {"role": "assistant", "content": null},
            {"role": "user", "content": "now"},
        ]});
        let request = ChatRequest::decode(Bytes::from(body.to_string())).unwrap();
        let chain = chain(&Scope::new("t", "n", "s"), &request);
        (request, chain)
    }

    #[test]
    fn secrets_instructions_and_our_own_fence_are_no_material() {
        let (request, chain) = request();
        let material = Material::read(&request, &chain, 6).unwrap();
        assert_eq!(material.covers(), chain.prefixes[5]);
        let text = material.text();
        assert!(text.starts_with("user: My boat is red.\nassistant: Nice.\nuser: The key is "), "{text}");
        assert!(!text.contains("sk-proj") && !text.contains("noon"), "{text}");
        assert!(Material::read(&request, &chain, 1).is_none() && Material::read(&request, &chain, 0).is_none());
    }

    #[test]
    fn an_earlier_summary_stands_for_the_messages_it_tells_of() {
        let (request, chain) = request();
        let material = Material::read(&request, &chain, 6).unwrap();
        let earlier = Summary { covers: chain.prefixes[2], text: "The boat is red.".to_owned() };
        let text = material.clone().after(&earlier).text();
        assert!(text.starts_with("before that: The boat is red.\nuser: The key"), "{text}");
        // One that tells of older messages than those at hand: nothing of them is taken out.
        let older = Summary { covers: [9; 32], ..earlier };
        assert!(material.after(&older).text().contains("My boat is red."));
    }

    #[test]
    fn candidates_are_the_states_before_the_cut_newest_first_each_once() {
        let (_, chain) = request();
        assert_eq!(candidates(&chain, 5), [chain.prefixes[4], chain.prefixes[2], chain.prefixes[1]]);
        assert!(candidates(&chain, 1).is_empty());
    }

    #[test]
    fn the_newest_messages_come_first_and_long_ones_by_their_ends() {
        let messages: Vec<_> =
            (0..40).map(|n| json!({"role": "user", "content": format!("m{n} {}", "长".repeat(5_000))})).collect();
        let request =
            ChatRequest::decode(Bytes::from(json!({"model": "m", "messages": messages}).to_string())).unwrap();
        let chain = chain(&Scope::new("t", "n", "s"), &request);
        let text = Material::read(&request, &chain, 39).unwrap().text();
        assert!(text.len() <= MAX_BYTES + 40 * 8 && text.contains("m38 ") && !text.contains("m0 "), "{}", text.len());
    }
}
