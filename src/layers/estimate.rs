//! What a request may need, before anything of it was counted.

use memchr::memmem;

use crate::access::Need;
use crate::exchange::{Call, Payload};
use crate::wire::{ChatRequest, Content};

/// Tokens that a reply is taken to have when the client does not limit it.
const DEFAULT_REPLY: u64 = 1_024;
/// Of the smallest limit, so much at most is kept for such a reply: else a small limit would let nothing pass.
const REPLY_SHARE: u64 = 4;
/// Bytes of JSON that are one token at least, in nearly all texts: plain English has more than four, digits three, Chinese
/// three or four.
const BYTES_PER_TOKEN: u64 = 3;
/// Bytes that are one token at most: long words of a common language.
const MOST_BYTES_PER_TOKEN: u64 = 16;
/// How the data of pictures and files begins that Anthropic takes.
const BASE64_DATA: &[u8] = br#""data":""#;
/// What a picture or a file is taken to need, however many bytes it has.
const MEDIA: u64 = 2_000;

/// Returns the least that a request needs, whatever it turns out to be: where there is not even room for this, nobody has to
/// count.
pub(super) fn least(call: &Call) -> Need {
    let bytes = match &call.payload {
        Payload::Chat(chat) if parts(chat).next().is_none() => chat.body().len() as u64,
        _ => 0,
    };
    capped(call, Need { input: bytes / MOST_BYTES_PER_TOKEN, ..Need::default() })
}

/// Returns what a request needs at most, of hardly any text more. `asked` is the output that is asked for.
pub(super) fn most(call: &Call, asked: Option<u64>, fewest: Option<u64>) -> Need {
    let input = match &call.payload {
        Payload::Chat(chat) => chat_tokens(chat),
        Payload::Embeddings(embeddings) => embeddings.body.len() as u64 / BYTES_PER_TOKEN,
    };
    with_input(call, input, asked, fewest, None)
}

/// Returns what a request with so many counted tokens needs; `max_output` is what its model can write at most.
pub(super) fn with_input(
    call: &Call,
    input: u64,
    asked: Option<u64>,
    fewest: Option<u64>,
    max_output: Option<usize>,
) -> Need {
    let memory = call.identity.memory.read && call.identity.scope.is_some();
    let memory = if memory { call.policy.memory_tokens as u64 } else { 0 };
    let most = max_output.map_or(u64::MAX, |n| n as u64);
    let output = call.payload.chat().map_or(0, |chat| reply(chat, call, asked, fewest, most));
    capped(call, Need { input: input.saturating_add(memory), output, price: None })
}

/// What is kept for the reply.
fn reply(chat: &ChatRequest, call: &Call, asked: Option<u64>, fewest: Option<u64>, most: u64) -> u64 {
    let choices = chat.get_u64("n").unwrap_or(1).clamp(1, 128);
    let one = asked.unwrap_or_else(|| {
        let guess = call.policy.output_reserve.map_or(DEFAULT_REPLY, |n| n as u64);
        guess.min(fewest.map_or(u64::MAX, |fewest| fewest / REPLY_SHARE))
    });
    one.min(most).saturating_mul(choices)
}

/// What is over the budget of a chat request is cut, or refused: it is never sent. Everything else is sent whole.
fn capped(call: &Call, need: Need) -> Need {
    if call.payload.chat().is_none() {
        return need;
    }
    let policy = Some(call.policy.max_input_tokens).filter(|&n| n > 0);
    let cap = [policy, call.budget_header].into_iter().flatten().min();
    Need { input: need.input.min(cap.map_or(u64::MAX, |n| n as u64)), ..need }
}

/// Tokens of a chat request, on the high side. Only contents made of parts are looked into: others are text.
fn chat_tokens(chat: &ChatRequest) -> u64 {
    let mut bytes = chat.body().len() as u64;
    let mut tokens = 0;
    for content in parts(chat) {
        bytes = bytes.saturating_sub(content.len() as u64);
        tokens += part_tokens(content.as_bytes());
    }
    tokens + bytes / BYTES_PER_TOKEN
}

/// The contents that are made of parts.
fn parts(chat: &ChatRequest) -> impl Iterator<Item = &str> {
    chat.messages().iter().filter_map(|message| match message.content {
        Content::Parts(span) => Some(span.of(chat.text())),
        _ => None,
    })
}

/// Tokens of parts; what stands in base 64 counts as a picture.
fn part_tokens(content: &[u8]) -> u64 {
    let mut text = content.len() as u64;
    let mut media = 0;
    for at in memmem::find_iter(content, b";base64,").chain(memmem::find_iter(content, BASE64_DATA)) {
        let rest = &content[at..];
        let rest = rest.strip_prefix(BASE64_DATA).unwrap_or(rest);
        text = text.saturating_sub(memchr::memchr(b'"', rest).unwrap_or(rest.len()) as u64);
        media += MEDIA;
    }
    // A picture behind an address costs as much.
    let addresses = [br#""image_url":{"#.as_slice(), br#""type":"image""#];
    media = media.max(addresses.iter().map(|mark| MEDIA * memmem::find_iter(content, mark).count() as u64).sum());
    text / BYTES_PER_TOKEN + media
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use super::*;

    fn tokens(content: &Value) -> u64 {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]});
        chat_tokens(&ChatRequest::decode(Bytes::from(body.to_string())).unwrap())
    }

    #[test]
    fn a_picture_counts_as_one_however_many_bytes_it_has() {
        let picture =
            |url: String| json!([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "?"}]);
        let small = tokens(&picture("https://host.example/a.png".to_owned()));
        let large = tokens(&picture(format!("data:image/png;base64,{}", "A".repeat(300_000))));
        assert!((MEDIA..MEDIA + 100).contains(&small) && (MEDIA..MEDIA + 100).contains(&large), "{small} {large}");
    }

    #[test]
    fn a_text_counts_by_its_length_whatever_it_says() {
        let text = tokens(&json!(";base64,".repeat(300)));
        assert!((800..850).contains(&text), "{text}");
        // A body that breaks off, or names the form twice.
        assert!(part_tokens(br#"{"content":";base64,;base64,"#) >= 2 * MEDIA);
    }
}
