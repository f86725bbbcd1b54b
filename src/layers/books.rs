//! From an exchange and its end to a row of the books.

use std::time::{Duration, Instant};

use super::record::Ending;
use super::span;
use crate::access::Spent;
use crate::base::hex;
use crate::exchange::{Call, Payload, Recall, Sent};
use crate::store::{UsageOutcome, UsageRow, UsageTimes, UsageTokens};
use crate::telemetry::{Direction, Metrics, Used};
use crate::tokens::{Cost, Counter, Rules};
use crate::wire::{Role, Usage};

/// The status of an exchange whose client left before there was an answer, as some servers log it. Nobody sees it on the wire.
const CLIENT_GONE: u16 = 499;
/// The status where no target answered in time.
const UPSTREAM_TIMEOUT: u16 = 504;
/// Of a reply whose tokens we count ourselves so much is read, in bytes; more is taken to be like its beginning.
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
    Reply(&'a Ending<'a>),
}

/// What happened until the end of an exchange.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past<'a> {
    pub(super) call: &'a Call,
    /// `None` = it did not come so far.
    pub(super) recall: Option<&'a Recall>,
    pub(super) course: Course<'a>,
    pub(super) now: Instant,
}

/// What an exchange used and cost, decided once: limits are settled by it, the books and the metrics tell it.
#[derive(Debug)]
pub(super) struct Figures {
    /// The last attempt; `None` = nothing was sent on.
    sent: Option<Sent>,
    tokens: UsageTokens,
    /// `None` = the price is not known.
    cost: Option<Cost>,
}

impl Figures {
    /// Of an exchange that has ended. Once: the attempt is taken out of the call.
    pub(super) fn of(call: &Call, course: Course<'_>, counter: &Counter) -> Self {
        let sent = call.progress.take();
        let tokens = tokens(call, sent.as_ref(), course, counter);
        let price = sent.as_ref().and_then(|sent| sent.price);
        let cost =
            if is_free(&tokens) { Some(Cost::default()) } else { price.map(|price| price.cost(&usage_of(&tokens))) };
        Self { sent, tokens, cost }
    }

    /// Ends the span of the last attempt, if there was one.
    pub(super) fn end_span(&self, call: &Call, course: Course<'_>, metrics: &Metrics) {
        if let Some(sent) = &self.sent {
            span::ended(sent, call.payload.operation(), course, &self.tokens, metrics);
        }
    }

    /// What the limits count of it.
    pub(super) fn spent(&self) -> Spent {
        Spent { tokens: usage_of(&self.tokens).total(), cost: self.cost }
    }

    /// Counts it.
    pub(super) fn count(&self, metrics: &Metrics) {
        let tokens = [
            (Direction::Input, self.tokens.input),
            (Direction::Output, self.tokens.output),
            (Direction::Cached, self.tokens.cached),
            (Direction::Reasoning, self.tokens.reasoning),
            (Direction::Memory, self.tokens.memory),
        ];
        for (direction, n) in tokens {
            metrics.tokens.add(direction, n);
        }
        let target = self.sent.as_ref().map(|sent| sent.target.as_str());
        metrics.books.add(&Used { target, tokens: &tokens, cost_nanos: self.cost.map(|cost| cost.nanos) });
    }
}

/// Makes the row of an exchange that has ended.
pub(super) fn row(past: &Past<'_>, figures: Figures) -> UsageRow {
    let Past { call, recall, course, now } = *past;
    let Figures { sent, tokens, cost: total } = figures;
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
        conversation: recall.and_then(|recall| conversation_of(call, recall)),
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
        cost: total,
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
        Course::Reply(ending) if ending.failed() => UsageOutcome::Failed,
        Course::Reply(ending) if ending.is_complete() => UsageOutcome::Complete,
        Course::Reply(ending) if ending.client_left => UsageOutcome::Aborted,
        Course::Reply(_) => UsageOutcome::Cut,
    }
}

fn tokens(call: &Call, sent: Option<&Sent>, course: Course<'_>, counter: &Counter) -> UsageTokens {
    let Some(sent) = sent else { return UsageTokens::default() };
    let ending = match course {
        // Who was too slow for us may have worked all the same, as for a client that left.
        Course::Unanswered(UPSTREAM_TIMEOUT) | Course::Gone => None,
        // Nobody charges for an error, wherever it stands.
        Course::Unanswered(_) | Course::Error(_) => return UsageTokens::default(),
        Course::Reply(ending) if ending.failed() => return UsageTokens::default(),
        Course::Reply(ending) => Some(ending),
    };
    let told = ending.and_then(|ending| ending.reply.usage);
    // What upstream said in the middle is not all that it would have said.
    let estimated = told.is_none() || ending.is_none_or(|ending| !ending.is_complete());
    let told = told.unwrap_or_default();
    let seen = ending.filter(|_| estimated && call.payload.chat().is_some());
    let seen = seen.map_or(0, |ending| seen_tokens(ending, sent.rules, counter));
    let is_told = !estimated || told.prompt_tokens > 0;
    let own = || sent.input.unwrap_or_else(|| body_bytes(call) / TOKEN_BYTES);
    UsageTokens {
        estimated,
        input: if is_told { told.prompt_tokens } else { own() },
        cached: told.cached_tokens,
        cache_write: told.cache_write_tokens,
        output: told.completion_tokens.max(seen),
        reasoning: told.reasoning_tokens,
        memory: sent.memory,
        cut: sent.cut,
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

/// Tokens of a reply as far as it was seen, where upstream does not say: those of its texts, but no fewer than its events, since
/// not all that a model says is kept and most servers send a token in an event. A reply that is no stream is read at its end, if
/// at all: without texts it is told by its length.
fn seen_tokens(ending: &Ending<'_>, rules: Rules, counter: &Counter) -> u64 {
    let texts = ending.reply.choices.iter().flat_map(|choice| {
        let calls = choice.tool_calls.iter().flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
        [choice.text.as_str(), choice.refusal.as_str()].into_iter().chain(calls)
    });
    let counted = count(texts, rules, counter).unwrap_or(ending.bytes / TOKEN_BYTES);
    counted.max(ending.reply.events)
}

/// Counts texts, long ones by their beginning: this may run where a client has just left, on an async thread, so that so much is
/// read of all of them together. `None` where there is no text.
fn count<'t>(texts: impl Iterator<Item = &'t str>, rules: Rules, counter: &Counter) -> Option<u64> {
    let (mut all, mut read, mut tokens) = (0, 0, 0);
    for text in texts {
        let head = &text[..text.floor_char_boundary(COUNTED_BYTES - read)];
        all += text.len();
        read += head.len();
        tokens += counter.text(rules, head) as u64;
    }
    (all > 0).then(|| if read == all { tokens } else { tokens * all as u64 / read.max(1) as u64 })
}

/// The state after the first message of the user names the conversation, as in what is learned from it.
fn conversation_of(call: &Call, recall: &Recall) -> Option<String> {
    let (chat, chain) = (call.payload.chat()?, recall.chain.as_ref()?);
    let first = chat.messages().iter().position(|message| message.role == Role::User)?;
    Some(hex(chain.prefixes.get(first)?))
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
    use crate::wire::{ChoiceReply, Reply, ToolCall, Verdict};

    fn choice(text: &str) -> ChoiceReply {
        ChoiceReply { text: text.to_owned(), ..ChoiceReply::default() }
    }

    fn seen(reply: &Reply, bytes: u64) -> u64 {
        let ending = Ending { reply, bytes, verdict: Verdict::Cut, client_left: false, first: None };
        seen_tokens(&ending, Encoding::O200k.into(), &Counter::new(1 << 16))
    }

    #[test]
    fn all_that_a_model_says_is_output() {
        let call = ToolCall { name: "weather".to_owned(), arguments: "{}".to_owned(), ..ToolCall::default() };
        let calling = ChoiceReply { tool_calls: vec![call], ..choice("") };
        let reply = Reply { choices: vec![choice("one two three"), calling], ..Reply::default() };
        assert_eq!(seen(&reply, 999), 5);
    }

    #[test]
    fn what_was_not_kept_is_told_by_its_events_or_its_length() {
        assert_eq!(seen(&Reply { events: 12, ..Reply::default() }, 0), 12);
        assert_eq!(seen(&Reply::default(), 400), 100);
        // A model that thought for long before it said something.
        let thinking = Reply { choices: vec![choice("one two three")], events: 40, ..Reply::default() };
        assert_eq!(seen(&thinking, 0), 40);
    }

    #[test]
    fn long_texts_are_taken_to_be_like_their_beginning_and_share_what_is_read() {
        let counter = Counter::new(1 << 16);
        let text = "word ".repeat(20_000);
        let told = |texts: &[&str]| count(texts.iter().copied(), Encoding::O200k.into(), &counter).unwrap();
        assert!((19_600..=20_400).contains(&told(&[&text])));
        assert!((79_000..=81_000).contains(&told(&[text.as_str(); 4])));
        // Cut between characters.
        assert!(told(&[&"語".repeat(20_000)]) > 1_000);
        // Of what is behind the bound nothing is read: digits have more tokens.
        let digits = "1 2 3 4 5 6 7 8 9 ".repeat(5_000);
        assert_eq!(told(&[&text, &digits]), told(&[&text, &"x".repeat(digits.len())]));
    }

    #[test]
    fn a_name_that_a_client_made_up_is_short() {
        assert_eq!(clipped(&"ü".repeat(100)).len(), 120);
        assert_eq!(clipped("small"), "small");
    }
}
