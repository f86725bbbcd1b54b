//! A conversation replayed against a policy, request by request: what would be cut, what is saved, and how much of each prompt stays the
//! same. Nobody is called and nothing is kept: this is how a budget is chosen before it is enforced.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::conversation::{self, Hash};
use crate::memory::Scope;
use crate::tokens::Counter;
use crate::wire::{ChatRequest, Role, Span};

use super::digest::Digests;
use super::fit::{FitInput, fit};
use super::notes::{Earlier, NoteLine, Notes, Pinned};
use super::policy::{Policy, Target};
use super::report::{FitError, Fitted};
use super::trail::{Common, Trails};

/// Counts that are remembered, in bytes.
const COUNT_BYTES: usize = 8 << 20;
/// Digests and trails that are remembered, in bytes each.
const CACHE_BYTES: u64 = 16 << 20;

/// Returns the requests that a conversation was made of: the messages so far, wherever the model answered, and all of them. All else
/// of the body is in each.
pub fn requests(conversation: &ChatRequest) -> impl Iterator<Item = Bytes> + '_ {
    let messages = conversation.messages();
    let ends = (0..messages.len()).filter(|&at| {
        let answered = messages.get(at + 1).is_none_or(|next| next.role == Role::Assistant);
        // What the model said is a request only when someone answered it, or when it is the beginning of what it is to say.
        answered && (messages[at].role != Role::Assistant || at + 1 == messages.len())
    });
    let text = conversation.text();
    let rest = messages.last().map_or("", |last| &text[last.span.end..]);
    ends.map(move |at| {
        let Span { end, .. } = messages[at].span;
        Bytes::from([&text[..end], rest].concat())
    })
}

/// One request of the replay. Figures are tokens of the target.
#[derive(Clone, Debug)]
pub struct Step {
    /// Messages of the client's request.
    pub messages: usize,
    /// Its user turn, from 1.
    pub turn: usize,
    /// Whether that turn was already going on.
    pub is_tool_loop: bool,
    /// What the client's request counts.
    pub counted: usize,
    /// What would be sent; `None` when it would be refused.
    pub sent: Option<usize>,
    /// Why it would be refused.
    pub refused: Option<String>,
    /// Messages left out.
    pub cut: usize,
    /// Whether more was left out than from the request before.
    pub newly_cut: bool,
    /// Texts shortened.
    pub shortened: usize,
    /// What it has in common with the request before, as sent; `None` for the first.
    pub prefix: Option<Common>,
    /// What the client's own requests have in common.
    pub plain_prefix: Option<Common>,
}

/// Tokens in the common prefix, of all tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// In the common prefix.
    pub prefix: usize,
    /// All.
    pub all: usize,
}

impl Share {
    /// The share; `None` of nothing.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.all > 0).then(|| self.prefix as f64 / self.all as f64)
    }

    fn add(&mut self, common: Option<Common>) {
        if let Some(common) = common {
            self.prefix += common.tokens;
            self.all += common.all_tokens;
        }
    }
}

/// Common prefixes by the kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    /// New user turns.
    pub chat: Share,
    /// User turns that go on.
    pub tool_loop: Share,
    /// Requests at which something was newly cut.
    pub cut: Share,
}

/// The sums of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests.
    pub requests: usize,
    /// Of them, those that would be refused.
    pub refused: usize,
    /// Of them, those at which something was newly cut.
    pub cuts: usize,
    /// Tokens of the client's requests, refused ones apart.
    pub counted: usize,
    /// Tokens that would be sent for them.
    pub sent: usize,
    /// Common prefixes of what would be sent.
    pub with: Shares,
    /// Common prefixes of the client's own requests, by the same kinds.
    pub without: Shares,
}

impl Totals {
    fn add(&mut self, step: &Step) {
        self.requests += 1;
        let Some(sent) = step.sent else {
            self.refused += 1;
            return;
        };
        self.counted += step.counted;
        self.sent += sent;
        self.cuts += usize::from(step.newly_cut);
        let kind = |shares: &mut Shares, common| match (step.newly_cut, step.is_tool_loop) {
            (true, _) => shares.cut.add(common),
            (false, true) => shares.tool_loop.add(common),
            (false, false) => shares.chat.add(common),
        };
        kind(&mut self.with, step.prefix);
        kind(&mut self.without, step.plain_prefix);
    }
}

/// The replay of one conversation.
#[derive(Debug)]
pub struct Rehearsal {
    policy: Policy,
    target: Target,
    /// Tokens of the recollection that is assumed to be shown with each user turn; 0 = none.
    recollection_tokens: usize,
    scope: Scope,
    counter: Counter,
    digests: Digests,
    trails: Trails,
    plain_trails: Trails,
    /// What was shown with each user turn, by its state.
    shown: HashMap<Hash, Arc<str>>,
    cut_before: usize,
    totals: Totals,
}

impl Rehearsal {
    /// Begins a replay. With each user turn a recollection of about `recollection_tokens` is assumed to be shown, as far as the policy
    /// lets it; 0 = memory has nothing to say.
    #[must_use]
    pub fn new(policy: Policy, target: Target, recollection_tokens: usize) -> Self {
        Self {
            policy,
            target,
            recollection_tokens,
            scope: Scope::new("rehearsal", "rehearsal", "rehearsal"),
            counter: Counter::new(COUNT_BYTES),
            digests: Digests::new(CACHE_BYTES),
            trails: Trails::new(CACHE_BYTES),
            plain_trails: Trails::new(CACHE_BYTES),
            shown: HashMap::new(),
            cut_before: 0,
            totals: Totals::default(),
        }
    }

    /// Takes the next request of the conversation.
    pub fn step(&mut self, request: &ChatRequest) -> Step {
        let chain = conversation::chain(&self.scope, request);
        let notes = self.notes(&chain);
        let input = FitInput {
            request,
            chain: Some(&chain),
            notes: &notes,
            target: &self.target,
            policy: &self.policy,
            budget_header: None,
            counter: &self.counter,
            digests: Some(&self.digests),
            trails: Some(&self.trails),
            strip_own_fence: true,
            figures: true,
        };
        let fitted = fit(&input);
        let (nothing, no_policy) = (Notes::default(), Policy { max_input_tokens: 0, ..Policy::default() });
        let no_window = Target { window: None, ..self.target.clone() };
        let plain = fit(&FitInput {
            notes: &nothing,
            policy: &no_policy,
            target: &no_window,
            trails: Some(&self.plain_trails),
            strip_own_fence: false,
            ..input
        });
        let plain_prefix = plain.ok().and_then(|plain| follow(&self.plain_trails, &plain));
        let mut step = Step {
            messages: request.messages().len(),
            turn: chain.n_users(),
            is_tool_loop: chain.is_tool_loop(),
            counted: self.target.real(self.counter.request(self.target.rules(), request).total),
            sent: None,
            refused: None,
            cut: 0,
            newly_cut: false,
            shortened: 0,
            prefix: None,
            plain_prefix,
        };
        match fitted {
            Ok(fitted) => {
                step.sent = fitted.report.sent;
                step.cut = fitted.report.cut;
                step.newly_cut = step.cut > self.cut_before;
                step.shortened = fitted.report.shortened;
                step.prefix = follow(&self.trails, &fitted);
                self.cut_before = step.cut;
                if let (Some(turn), false) = (chain.turn(), notes.pinned.is_some()) {
                    self.shown.insert(turn, fitted.recollection);
                }
            }
            Err(FitError::ContextLength { message, .. }) => step.refused = Some(message),
        }
        self.totals.add(&step);
        step
    }

    /// The sums so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// What a gateway would have to say: the block of a turn that goes on, those of earlier turns, and for a new turn lines that nobody
    /// said.
    fn notes(&self, chain: &conversation::Chain) -> Notes {
        let earlier = chain.users().iter().rev().skip(1).rev();
        let earlier = earlier.filter_map(|&message| {
            self.shown.get(&chain.prefixes[message]).map(|block| Earlier { message, block: Arc::clone(block) })
        });
        let mut notes = Notes { earlier: earlier.collect(), ..Notes::default() };
        match chain.turn().and_then(|turn| self.shown.get(&turn)) {
            Some(block) if chain.is_tool_loop() => {
                notes.pinned = Some(Pinned { profile: Arc::default(), recollection: Arc::clone(block) });
            }
            _ => notes.recollection = self.lines(chain.n_users()),
        }
        notes
    }

    fn lines(&self, turn: usize) -> Vec<NoteLine> {
        let mut lines = Vec::new();
        let mut tokens = 0;
        while tokens < self.recollection_tokens {
            let text = format!("note {} of turn {turn}: this stands for something that memory knows", lines.len() + 1);
            tokens += self.counter.text(self.target.rules(), &text) + 2;
            lines.push(NoteLine { text, ..NoteLine::default() });
        }
        lines
    }
}

fn follow(trails: &Trails, fitted: &Fitted) -> Option<Common> {
    fitted.trail.as_ref().and_then(|trail| trails.follow("", trail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// `n` user turns of about 50 tokens and 100 of reply, each with `calls` rounds of a tool.
    fn conversation(n: usize, calls: usize, result_words: usize) -> ChatRequest {
        let mut messages = vec![json!({"role": "system", "content": "Be brief."})];
        for turn in 0..n {
            messages
                .push(json!({"role": "user", "content": format!("turn {turn}: {}", "please say more ".repeat(15))}));
            for call in 0..calls {
                let id = format!("c{turn}-{call}");
                messages
                    .push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
                    "function": {"name": "f", "arguments": format!("{{\"n\":{turn}{call}}}")}}]}));
                messages.push(json!({"role": "tool", "tool_call_id": id, "content": format!("{turn}.{call} {}", "row ".repeat(result_words))}));
            }
            messages.push(
                json!({"role": "assistant", "content": format!("answer {turn}: {}", "here is more ".repeat(33))}),
            );
        }
        messages.pop();
        let body = json!({"model": "gpt-4o", "messages": Value::from(messages)}).to_string();
        ChatRequest::decode(Bytes::from(body)).unwrap()
    }

    fn replay(conversation: &ChatRequest, policy: Policy, recollection_tokens: usize) -> (Vec<Step>, Totals) {
        let mut rehearsal = Rehearsal::new(policy, Target::default(), recollection_tokens);
        let steps = requests(conversation).map(|body| rehearsal.step(&ChatRequest::decode(body).unwrap())).collect();
        (steps, rehearsal.totals())
    }

    fn points(with: Share, without: Share) -> f64 {
        100.0 * (without.ratio().unwrap() - with.ratio().unwrap())
    }

    #[test]
    fn a_conversation_is_replayed_wherever_the_model_answered() {
        let conversation = conversation(2, 1, 1);
        let n: Vec<usize> =
            requests(&conversation).map(|body| ChatRequest::decode(body).unwrap().messages().len()).collect();
        assert_eq!(n, [2, 4, 6, 8]);
        let last = requests(&conversation).last().unwrap();
        assert_eq!(&last, conversation.body());
    }

    /// Guards against mtrnix/metronix-memory#428 and anthropics/claude-code#46644.
    #[test]
    fn without_a_budget_and_memory_the_prefix_is_the_clients_own() {
        let (steps, totals) = replay(&conversation(40, 0, 0), Policy::default(), 0);
        assert_eq!((totals.requests, totals.cuts, totals.counted), (40, 0, totals.sent));
        assert_eq!(totals.with, totals.without);
        assert!(steps.iter().skip(1).all(|step| step.prefix == step.plain_prefix && step.prefix.is_some()));
        let last = steps[39].prefix.unwrap();
        assert_eq!(last.tokens + (steps[39].counted - steps[38].counted), last.all_tokens);
    }

    /// Issue 3, item 8: chat turns and tool loops apart.
    #[test]
    fn memory_costs_a_long_conversation_less_than_three_points_of_its_prefix() {
        let (_, chat) = replay(&conversation(200, 0, 0), Policy::default(), 150);
        assert!(points(chat.with.chat, chat.without.chat) < 3.0, "{chat:?}");
        let (_, agent) = replay(&conversation(100, 1, 60), Policy::default(), 150);
        assert!(points(agent.with.chat, agent.without.chat) < 3.0, "{agent:?}");
        assert!(points(agent.with.tool_loop, agent.without.tool_loop) < 3.0, "{agent:?}");
    }

    /// Guards against headroomlabs-ai/headroom PR#2942 and tontinton/maki PR#407.
    #[test]
    fn cuts_are_no_more_frequent_than_the_low_water_mark_allows() {
        for budget in [3_000, 8_000] {
            let policy = Policy { max_input_tokens: budget, ..Policy::default() };
            let (steps, totals) = replay(&conversation(100, 1, 40), policy, 150);
            let turn = steps.last().unwrap().counted / 100;
            let between = 3 * budget / 10 / turn;
            assert!(totals.cuts <= 100 / between + 1, "{budget}: {} cuts, one in {between} turns at most", totals.cuts);
            assert!(totals.cuts > 0 && totals.sent < totals.counted / 2, "{totals:?}");
            assert!(steps.iter().all(|step| step.sent.is_some_and(|sent| sent <= budget)));
        }
    }

    #[test]
    fn a_long_turn_keeps_its_block_in_place_and_stays_cached() {
        let agents = conversation(8, 10, 500);
        let of = |sticky_tokens| replay(&agents, Policy { sticky_tokens, ..Policy::default() }, 150);
        let ((_, stays), (_, goes)) = (of(4000), of(usize::MAX));
        let lost = |totals: Totals| points(totals.with.chat, totals.without.chat);
        assert!(lost(stays) < 2.0 && lost(goes) > 5.0, "{:.2} {:.2}", lost(stays), lost(goes));
        // What that costs: one block for each turn before.
        assert!(stays.sent - goes.sent < goes.sent / 20, "{} {}", stays.sent, goes.sent);
    }

    #[test]
    fn what_is_refused_is_said_and_not_summed() {
        let policy = Policy { max_input_tokens: 20, ..Policy::default() };
        let (steps, totals) = replay(&conversation(2, 0, 0), policy, 0);
        assert_eq!((totals.refused, totals.sent), (2, 0));
        assert!(steps[0].refused.as_ref().unwrap().contains("newest turn"));
    }
}
