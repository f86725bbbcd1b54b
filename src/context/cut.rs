//! Which messages go when a conversation is over its budget: whole turns, oldest first, and rarely.
//!
//! The cut has hysteresis: nothing happens below the budget; when it is passed, everything goes down to the low-water mark,
//! so that the next turns fit without another cut and the prompt's prefix stays the same bytes. It is not remembered but
//! *replayed*, over every point at which the messages so far were a request of their own. So it is a function of the
//! messages alone, the same on every replica; a longer conversation only goes on from where a shorter one got to, and
//! never brings back what was cut.

use std::collections::HashMap;

use crate::wire::{ChatRequest, Message, Role};

/// One message, as far as the cut depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// What it costs.
    pub(super) tokens: usize,
    /// What it costs less when it is shortened: a long result of a tool (`profile = "task"`).
    pub(super) spare: usize,
    /// Whether it is the model's: what stands before it was answered.
    pub(super) answers: bool,
    /// Instruction messages stay, wherever they are.
    pub(super) pinned: bool,
    /// Whether a unit begins here, so that all before it may go.
    pub(super) starts_unit: bool,
    /// Whether the messages up to and including this one were a request: a reply follows, or nothing.
    pub(super) ends_request: bool,
}

/// The figures of a cut, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// What is sent beside messages.
    pub(super) fixed: usize,
    /// What all of it may cost.
    pub(super) budget: usize,
    /// Down to what a cut goes.
    pub(super) low_water: usize,
    /// What is kept free for memory and digest once something was cut.
    pub(super) reserve: usize,
}

/// Where a conversation is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Messages before this one go, unless they are pinned.
    pub(super) first_kept: usize,
    /// How many go.
    pub(super) n_cut: usize,
    /// Messages before this one are shortened, where they can be.
    pub(super) first_whole: usize,
    /// The message that ended the request at which something went for the last time.
    pub(super) last: Option<usize>,
    /// What is left, `fixed` included; it may still be over the budget.
    pub(super) kept_tokens: usize,
}

/// Replays the cut. Work is linear in the number of messages.
pub(super) fn replay(items: &[Item], limits: Limits) -> Cut {
    let starts: Vec<usize> = (0..items.len()).filter(|&i| items[i].starts_unit).collect();
    let mut next_start = starts.iter().copied().peekable();
    let mut cut = Cut { kept_tokens: limits.fixed, ..Cut::default() };
    let mut answered = 0;
    for (at, item) in items.iter().enumerate() {
        cut.kept_tokens += item.tokens;
        if item.answers {
            answered = at;
        }
        let fits = |cut: &Cut| {
            let reserve = if cut.n_cut > 0 { limits.reserve } else { 0 };
            cut.kept_tokens + reserve <= limits.budget
        };
        if !item.ends_request || fits(&cut) {
            continue;
        }
        cut.shorten_before(answered, items);
        if fits(&cut) {
            continue;
        }
        // The unit that holds `at` is the newest turn as it was then: it stays.
        let end = at;
        while cut.kept_tokens + limits.reserve > limits.low_water
            && let Some(start) = next_start.next_if(|&start| start <= at)
        {
            for (at, item) in items.iter().enumerate().take(start).skip(cut.first_kept) {
                if !item.pinned {
                    cut.kept_tokens -= item.tokens - if at < cut.first_whole { item.spare } else { 0 };
                    cut.n_cut += 1;
                    cut.last = Some(end);
                }
            }
            cut.first_kept = start;
        }
    }
    cut
}

impl Cut {
    /// Shortens what the model has answered, all of it at once: the prompt's prefix changes rarely.
    fn shorten_before(&mut self, answered: usize, items: &[Item]) {
        let from = self.first_whole.max(self.first_kept);
        self.kept_tokens -= items[from.min(answered)..answered].iter().map(|item| item.spare).sum::<usize>();
        self.first_whole = self.first_whole.max(answered);
    }
}

/// Where the next cut will get to at least, seen from a conversation that was cut at `cut` and is not over its budget: it will have
/// to bring the budget down to the low-water mark, whatever is said until then. `None` when nothing would go.
pub(super) fn next(items: &[Item], limits: Limits, cut: &Cut) -> Option<usize> {
    let reserve = if cut.n_cut > 0 { 0 } else { limits.reserve };
    let least = (limits.budget + reserve).saturating_sub(limits.low_water);
    let (mut dropped, mut first_kept) = (0, cut.first_kept);
    let starts = (cut.first_kept + 1..items.len()).filter(|&at| items[at].starts_unit);
    for start in starts {
        if dropped >= least {
            break;
        }
        dropped += items[first_kept..start].iter().filter(|item| !item.pinned).map(|item| item.tokens).sum::<usize>();
        first_kept = start;
    }
    (dropped > 0).then_some(first_kept)
}

/// Returns what the cut depends on, for each message. `tokens` and `spare` have one figure per message; none = 0.
pub(super) fn items(request: &ChatRequest, text: &str, tokens: &[usize], spare: &[usize]) -> Vec<Item> {
    let messages = request.messages();
    let starts = unit_starts(messages, text);
    messages
        .iter()
        .enumerate()
        .map(|(i, message)| Item {
            tokens: tokens.get(i).copied().unwrap_or(0),
            spare: spare.get(i).copied().unwrap_or(0),
            answers: message.role == Role::Assistant,
            pinned: message.role.is_instruction(),
            starts_unit: starts[i],
            ends_request: messages.get(i + 1).is_none_or(|next| next.role == Role::Assistant && !next.goes_on),
        })
        .collect()
}

/// A unit begins with a user message. Without any, with an assistant message, so that tool calls stay with their results.
/// It never begins between a call and its result, whatever stands between them.
fn unit_starts(messages: &[Message], text: &str) -> Vec<bool> {
    let role = if messages.iter().any(|m| m.role == Role::User) { Role::User } else { Role::Assistant };
    let mut starts: Vec<bool> = messages.iter().map(|m| m.role == role && !m.goes_on).collect();
    let mut calls: Option<HashMap<&str, usize>> = None;
    let mut in_group = false;
    for (at, message) in messages.iter().enumerate() {
        if message.role.is_instruction() {
            continue;
        }
        if message.role.is_tool_result() && !in_group {
            // Its call is not right before it: it has none, or something stands between.
            let calls = calls.get_or_insert_with(|| call_ids(messages, text));
            let id = message.tool_call_id.map(|span| span.of(text));
            let call = match id {
                Some(id) => calls.get(id).copied().filter(|&call| call < at),
                None => messages[..at].iter().rposition(|m| m.function_call.is_some()),
            };
            if let Some(call) = call {
                // From behind, until a mark that is gone already: each is taken away once.
                starts[call + 1..=at].fill(false);
            }
        }
        in_group = message.calls_tools() || (in_group && message.role.is_tool_result());
    }
    starts
}

/// Where each tool call is, by the literal of its id.
fn call_ids<'a>(messages: &[Message], text: &'a str) -> HashMap<&'a str, usize> {
    let mut ids = HashMap::new();
    for (at, message) in messages.iter().enumerate() {
        ids.extend(message.calls(text).filter_map(|call| call.id).map(|id| (id.of(text), at)));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    const LIMITS: Limits = Limits { fixed: 3, budget: 100, low_water: 70, reserve: 10 };

    fn request(messages: &Value) -> ChatRequest {
        ChatRequest::decode(Bytes::from(json!({"model": "m", "messages": messages}).to_string())).unwrap()
    }

    fn cut(roles: &[(&str, usize)], limits: Limits) -> Cut {
        let messages: Vec<Value> = roles.iter().map(|(role, _)| json!({"role": role, "content": "x"})).collect();
        let request = request(&Value::from(messages));
        let tokens: Vec<usize> = roles.iter().map(|(_, tokens)| *tokens).collect();
        replay(&items(&request, request.text(), &tokens, &[]), limits)
    }

    /// The first message that stays, how many go, and what is left.
    fn kept(roles: &[(&str, usize)]) -> (usize, usize, usize) {
        let cut = cut(roles, LIMITS);
        (cut.first_kept, cut.n_cut, cut.kept_tokens)
    }

    fn starts(messages: Value) -> Vec<usize> {
        let request = request(&messages);
        let starts = unit_starts(request.messages(), request.text());
        (0..starts.len()).filter(|&i| starts[i]).collect()
    }

    #[test]
    fn below_the_budget_nothing_happens() {
        let roles = [("system", 30), ("user", 30), ("assistant", 30), ("user", 7)];
        assert_eq!(cut(&roles, LIMITS), Cut { kept_tokens: 100, ..Cut::default() });
    }

    #[test]
    fn above_it_whole_turns_go_down_to_the_low_water_mark() {
        let roles = [("system", 20), ("user", 15), ("assistant", 15), ("user", 15), ("assistant", 15), ("user", 18)];
        // 101: the first turn leaves 71 + 10, the second 41 + 10.
        assert_eq!(kept(&roles), (5, 4, 41));
        assert_eq!(cut(&roles, LIMITS).last, Some(5));
    }

    #[test]
    fn system_messages_between_turns_stay() {
        let roles = [("user", 40), ("system", 20), ("assistant", 40), ("user", 20)];
        assert_eq!(kept(&roles), (3, 2, 43));
    }

    #[test]
    fn the_newest_turn_stays_even_when_it_is_too_big() {
        let roles = [("user", 40), ("assistant", 40), ("user", 200), ("assistant", 40), ("tool", 40)];
        assert_eq!(kept(&roles), (2, 2, 283));
    }

    #[test]
    fn results_are_shortened_all_at_once_and_stay_so_and_only_then_is_anything_cut() {
        let roles = ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "assistant", "user"];
        let messages: Vec<Value> = roles.iter().map(|role| json!({"role": role, "content": "x"})).collect();
        let request = request(&Value::from(messages));
        let tokens = [1, 1, 30, 1, 30, 1, 40, 1, 1];
        let spare = [0, 0, 20, 0, 20, 0, 20, 0, 0];
        let of = |end: usize| {
            let items = items(&request, request.text(), &tokens, &spare);
            let cut = replay(&items[..end], LIMITS);
            (cut.first_kept, cut.first_whole, cut.kept_tokens)
        };
        assert_eq!(of(5), (0, 0, 66));
        // 107 with the newest result: what was answered before it goes down, and the newest stays whole for the model to read.
        assert_eq!(of(7), (0, 5, 67));
        assert_eq!(of(9), (0, 5, 69));
    }

    #[test]
    fn between_cuts_nothing_moves() {
        let mut roles = Vec::new();
        let mut places = Vec::new();
        for turn in 0..60 {
            roles.push(("user", 6));
            places.push(cut(&roles, LIMITS).first_kept);
            roles.push(("assistant", 4 + turn % 3));
        }
        let mut moves = places.clone();
        moves.dedup();
        assert!(places.is_sorted());
        // A cut frees 30 of 100, less the reserve: two turns at least between two cuts.
        assert!(moves.len() <= 1 + 60 / 2, "{moves:?}");
        assert!(places.windows(2).filter(|pair| pair[0] == pair[1]).count() >= 30);
    }

    /// Whatever is said next: what was foretold is cut, and little more.
    #[test]
    fn the_next_cut_gets_at_least_as_far_as_foretold() {
        let turn = |n: usize| 3 + (n * 7) % 9;
        let mut roles: Vec<(&str, usize)> = vec![("system", 12)];
        let mut foretold = None;
        let mut cuts = 0;
        for n in 0..200 {
            roles.push(("user", turn(n)));
            let now = cut(&roles, LIMITS);
            if let Some((before, next)) = foretold.filter(|(before, _)| *before != now.first_kept) {
                assert!(
                    before < next && next <= now.first_kept && now.first_kept <= next + 6,
                    "{before} {next} {now:?}"
                );
                cuts += 1;
            }
            let messages: Vec<Value> = roles.iter().map(|(role, _)| json!({"role": role, "content": "x"})).collect();
            let tokens: Vec<usize> = roles.iter().map(|(_, tokens)| *tokens).collect();
            let request = request(&Value::from(messages));
            foretold =
                next(&items(&request, request.text(), &tokens, &[]), LIMITS, &now).map(|next| (now.first_kept, next));
            roles.push(("assistant", turn(n + 3)));
        }
        assert!(cuts > 20, "{cuts}");
    }

    #[test]
    fn without_user_messages_tool_groups_are_the_units() {
        let call = json!({"role": "assistant", "tool_calls": [{"id": "c"}]});
        let tool = json!({"role": "tool", "tool_call_id": "c"});
        assert_eq!(starts(json!([call, tool, tool, {"role": "assistant"}])), [0, 3]);
    }

    #[test]
    fn no_unit_begins_between_a_call_and_its_result() {
        let user = json!({"role": "user"});
        let call = |id: &str| json!({"role": "assistant", "tool_calls": [{"id": id}, {"id": format!("{id}2")}]});
        let tool = |id: &str| json!({"role": "tool", "tool_call_id": id});
        assert_eq!(starts(json!([user, call("a"), tool("a"), user, tool("a2"), user])), [0, 5]);
        assert_eq!(starts(json!([user, tool("lost"), user, tool("a"), call("a"), user])), [0, 2, 5]);
        let old = json!({"role": "assistant", "function_call": {"name": "f"}});
        assert_eq!(starts(json!([user, old, user, {"role": "function", "name": "f"}, user])), [0, 4]);
    }

    #[test]
    fn ten_thousand_lost_results_are_looked_up_quickly() {
        let pair = [json!({"role": "user"}), json!({"role": "tool", "tool_call_id": "lost"})];
        let messages: Vec<Value> = pair.iter().cycle().take(10_000).cloned().collect();
        assert_eq!(starts(Value::from(messages)).len(), 5_000);
    }
}
