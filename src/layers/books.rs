//! From an exchange and its end to a row of the books.

use std::time::{Duration, Instant};

use super::record::Ending;
use crate::conversation;
use crate::exchange::{Call, Payload, Recall, Sent};
use crate::store::{UsageOutcome, UsageRow, UsageTimes, UsageTokens};
use crate::tokens::{Cost, Counter, Rules};
use crate::wire::{Reply, Role, Usage};

/// The status of an exchange whose client left before there was an answer, as some servers log it. Nobody sees it on the wire.
const CLIENT_GONE: u16 = 499;
/// The status where no target answered in time.
const UPSTREAM_TIMEOUT: u16 = 504;
/// Of a text whose tokens we count ourselves so much is read, in bytes; more is taken to be like its beginning.
const COUNTED_BYTES: usize = 16 * 1024;
/// Bytes of a token, where nothing was counted.
const TOKEN_BYTES: u64 = 4;
/// Longest model name that is booked, in bytes: clients may ask for anything.
const MAX_MODEL_BYTES: usize = 120;

/// How far an exchange came.
#[derive(Clone, Copy, Debug)]
pub(super) enum Course<'a> {
    /// It ended with an error of ours, of this status.
    Unanswered(u16),
    /// Upstream answered with an error, of this status.
    Error(u16),
    /// The client left before there was an answer.
    Gone,
    /// A reply began, and ended like this.
    Reply(&'a Ending),
}

/// What happened until the end of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past<'a> {
    pub(super) call: &'a Call,
    pub(super) recall: &'a Recall,
    pub(super) course: Course<'a>,
    pub(super) now: Instant,
}

/// Makes the row of an exchange that has ended.
pub(super) fn row(past: &Past<'_>, counter: &Counter) -> UsageRow {
    let Past { call, recall, course, now } = *past;
    let sent = call.progress.take();
    let tokens = tokens(call, sent.as_ref(), course, counter);
    let price = sent.as_ref().and_then(|sent| sent.price);
    let cost = |tokens: u64| if tokens == 0 { Some(Cost::default()) } else { price.map(|p| p.input_cost(tokens)) };
    let arrived = call.stamp.started;
    let (target, attempts, overhead) = match sent {
        Some(sent) => (Some(sent.target), sent.attempts, sent.overhead),
        None => (None, 0, now.saturating_duration_since(arrived)),
    };
    let first = match course {
        Course::Reply(ending) => ending.first.map(|at| micros(at.saturating_duration_since(arrived))),
        _ => None,
    };
    UsageRow {
        exchange: call.stamp.exchange,
        at: call.stamp.at,
        tenant: call.principal.tenant.clone(),
        namespace: call.identity.namespace.clone(),
        key: call.principal.key_name.clone(),
        subject: call.identity.scope.as_ref().map(|scope| scope.subject.clone()),
        conversation: conversation_of(call, recall),
        operation: call.payload.operation(),
        model: clipped(call.payload.model()),
        target,
        attempts,
        stream: call.payload.stream(),
        status: match course {
            Course::Unanswered(status) | Course::Error(status) => status,
            Course::Gone => CLIENT_GONE,
            Course::Reply(_) => 200,
        },
        outcome: outcome(course, attempts),
        cost: if is_free(&tokens) { Some(Cost::default()) } else { price.map(|price| price.cost(&usage_of(&tokens))) },
        memory_cost: cost(tokens.memory),
        saved: cost(tokens.cut),
        tokens,
        times: UsageTimes {
            total_us: micros(now.saturating_duration_since(arrived)),
            first_us: first,
            overhead_us: micros(overhead),
        },
    }
}

fn outcome(course: Course<'_>, attempts: u32) -> UsageOutcome {
    match course {
        Course::Unanswered(_) if attempts == 0 => UsageOutcome::Refused,
        Course::Unanswered(_) | Course::Error(_) => UsageOutcome::Failed,
        Course::Gone => UsageOutcome::Aborted,
        Course::Reply(ending) if ending.complete => UsageOutcome::Complete,
        Course::Reply(ending) if ending.client_left => UsageOutcome::Aborted,
        Course::Reply(_) => UsageOutcome::Cut,
    }
}

fn tokens(call: &Call, sent: Option<&Sent>, course: Course<'_>, counter: &Counter) -> UsageTokens {
    let Some(sent) = sent else { return UsageTokens::default() };
    let ending = match course {
        // Who was too slow for us may have worked all the same, as for a client that left.
        Course::Unanswered(UPSTREAM_TIMEOUT) | Course::Gone => None,
        // Nobody charges for an error.
        Course::Unanswered(_) | Course::Error(_) => return UsageTokens::default(),
        Course::Reply(ending) => Some(ending),
    };
    let counted = UsageTokens { memory: sent.memory, cut: sent.cut, ..UsageTokens::default() };
    match ending.and_then(|ending| ending.usage) {
        Some(usage) => UsageTokens {
            input: usage.prompt_tokens,
            cached: usage.cached_tokens,
            cache_write: usage.cache_write_tokens,
            output: usage.completion_tokens,
            reasoning: usage.reasoning_tokens,
            ..counted
        },
        None => UsageTokens {
            estimated: true,
            input: sent.input.unwrap_or_else(|| body_bytes(call) / TOKEN_BYTES),
            output: ending
                .filter(|_| call.payload.chat().is_some())
                .map_or(0, |e| e.output.tokens(sent.rules, counter)),
            ..counted
        },
    }
}

fn usage_of(tokens: &UsageTokens) -> Usage {
    Usage {
        prompt_tokens: tokens.input,
        completion_tokens: tokens.output,
        cached_tokens: tokens.cached,
        cache_write_tokens: tokens.cache_write,
        reasoning_tokens: tokens.reasoning,
    }
}

fn is_free(tokens: &UsageTokens) -> bool {
    tokens.input == 0 && tokens.output == 0
}

fn body_bytes(call: &Call) -> u64 {
    match &call.payload {
        Payload::Chat(chat) => chat.body().len() as u64,
        Payload::Embeddings(embeddings) => embeddings.body.len() as u64,
    }
}

/// What came of a reply, for the case that upstream does not say how much it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// Text that came and was kept: content, refusals and tool calls of all choices.
    texts: Vec<String>,
    /// Tokens of what came and was not kept, roughly.
    rough: u64,
}

impl Output {
    /// Of a reply as far as it came; `bytes` of it when it is no stream, of which nothing is read before its end.
    pub(super) fn of(reply: &Reply, bytes: u64) -> Self {
        // What upstream says itself is not counted again.
        if reply.usage.is_some() {
            return Self::default();
        }
        let mut texts = Vec::new();
        for choice in &reply.choices {
            texts.extend([&choice.text, &choice.refusal].into_iter().filter(|text| !text.is_empty()).cloned());
            texts.extend(choice.tool_calls.iter().map(|call| format!("{}{}", call.name, call.arguments)));
        }
        // Most servers send a token in an event.
        let rough = if texts.is_empty() { reply.events + bytes / TOKEN_BYTES } else { 0 };
        Self { texts, rough }
    }

    fn tokens(&self, rules: Rules, counter: &Counter) -> u64 {
        self.texts.iter().map(|text| count(text, rules, counter)).sum::<u64>() + self.rough
    }
}

/// Counts a text, a long one by its beginning: this may run where a client has just left, on an async thread.
fn count(text: &str, rules: Rules, counter: &Counter) -> u64 {
    let head = &text[..text.floor_char_boundary(COUNTED_BYTES)];
    let counted = counter.text(rules, head) as u64;
    if head.len() == text.len() { counted } else { counted * text.len() as u64 / head.len().max(1) as u64 }
}

/// The state after the first message of the user names the conversation, as in what is learned from it.
fn conversation_of(call: &Call, recall: &Recall) -> Option<String> {
    let (chat, chain) = (call.payload.chat()?, recall.chain.as_ref()?);
    let first = chat.messages().iter().position(|message| message.role == Role::User)?;
    Some(conversation::hex(chain.prefixes.get(first)?))
}

fn clipped(model: &str) -> String {
    model[..model.floor_char_boundary(MAX_MODEL_BYTES)].to_owned()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Encoding;
    use crate::wire::{ChoiceReply, ToolCall};

    fn tokens_of(output: &Output) -> u64 {
        output.tokens(Encoding::O200k.into(), &Counter::new(1 << 16))
    }

    #[test]
    fn all_that_a_model_says_is_output() {
        let call = ToolCall { name: "weather".to_owned(), arguments: "{}".to_owned(), ..ToolCall::default() };
        let choice = |text: &str| ChoiceReply { text: text.to_owned(), ..ChoiceReply::default() };
        let calling = ChoiceReply { tool_calls: vec![call], ..choice("") };
        let reply = Reply { choices: vec![choice("one two three"), calling], ..Reply::default() };
        let called = Counter::new(1 << 16).text(Encoding::O200k, "weather{}") as u64;
        assert_eq!(tokens_of(&Output::of(&reply, 999)), 3 + called);
    }

    #[test]
    fn what_upstream_counted_is_not_counted_again() {
        let choices = vec![ChoiceReply { text: "one two three".to_owned(), ..ChoiceReply::default() }];
        let reply = Reply { choices, usage: Some(Usage::default()), ..Reply::default() };
        assert_eq!(Output::of(&reply, 0), Output::default());
    }

    #[test]
    fn what_was_not_kept_is_told_by_its_events_or_its_length() {
        assert_eq!(tokens_of(&Output::of(&Reply { events: 12, ..Reply::default() }, 0)), 12);
        assert_eq!(tokens_of(&Output::of(&Reply::default(), 400)), 100);
    }

    #[test]
    fn a_long_text_is_taken_to_be_like_its_beginning() {
        let counter = Counter::new(1 << 16);
        let text = "word ".repeat(20_000);
        let (all, told) = (20_000, count(&text, Encoding::O200k.into(), &counter));
        assert!((all - 400..=all + 400).contains(&told), "{told}");
        // Cut between characters.
        assert!(count(&"語".repeat(20_000), Encoding::O200k.into(), &counter) > 1_000);
    }

    #[test]
    fn a_name_that_a_client_made_up_is_short() {
        assert_eq!(clipped(&"ü".repeat(100)).len(), 120);
        assert_eq!(clipped("small"), "small");
    }
}
