//! What a request may need, before anything of it was counted.

use memchr::memmem;

use crate::access::Need;
use crate::exchange::{Call, Payload};
use crate::wire::ChatRequest;

/// Tokens that a reply is taken to have when the client does not limit it.
const DEFAULT_REPLY: u64 = 1_024;
/// Of the smallest limit, so much at most is kept for such a reply: else a small limit would let nothing pass.
const REPLY_SHARE: u64 = 4;
/// Bytes of JSON that are one token at least, in nearly all texts: plain English has more than four, digits three, Chinese
/// three or four.
const BYTES_PER_TOKEN: u64 = 3;
/// Bytes that are one token at most: long words of a common language.
const MOST_BYTES_PER_TOKEN: u64 = 16;
/// What a picture or a file is taken to need, however many bytes it has.
const MEDIA: u64 = 2_000;

/// Returns the least that a request needs, whatever it turns out to be: where there is not even room for this, nobody has to
/// count.
pub(super) fn least(call: &Call) -> Need {
    let bytes = match &call.payload {
        Payload::Chat(chat) if !has_media(chat.body()) => chat.body().len() as u64,
        _ => 0,
    };
    capped(call, Need { input: bytes / MOST_BYTES_PER_TOKEN, ..Need::default() })
}

/// Returns what a request needs at most, of hardly any text more.
pub(super) fn most(call: &Call, fewest: Option<u64>) -> Need {
    let input = match &call.payload {
        Payload::Chat(chat) => text_tokens(chat.body()),
        Payload::Embeddings(embeddings) => text_tokens(&embeddings.body),
    };
    with_input(call, input, fewest, None)
}

/// Returns what a request with so many counted tokens needs; `max_output` is what its model can write at most.
pub(super) fn with_input(call: &Call, input: u64, fewest: Option<u64>, max_output: Option<usize>) -> Need {
    let memory = call.identity.memory.read && call.identity.scope.is_some();
    let memory = if memory { call.policy.memory_tokens as u64 } else { 0 };
    let most = max_output.map_or(u64::MAX, |n| n as u64);
    let output = call.payload.chat().map_or(0, |chat| reply(chat, call, fewest, most));
    capped(call, Need { input: input.saturating_add(memory), output, price: None })
}

/// What is kept for the reply.
fn reply(chat: &ChatRequest, call: &Call, fewest: Option<u64>, most: u64) -> u64 {
    let asked =
        ["max_completion_tokens", "max_tokens"].into_iter().find_map(|key| chat.get_u64(key).filter(|&n| n > 0));
    let choices = chat.get_u64("n").unwrap_or(1).clamp(1, 128);
    let one = asked.unwrap_or_else(|| {
        let guess = call.policy.output_reserve.map_or(DEFAULT_REPLY, |n| n as u64);
        guess.min(fewest.map_or(u64::MAX, |fewest| fewest / REPLY_SHARE))
    });
    one.min(most).saturating_mul(choices)
}

/// What is over the request's budget is cut, or refused: it is never sent.
fn capped(call: &Call, need: Need) -> Need {
    let policy = Some(call.policy.max_input_tokens).filter(|&n| n > 0);
    let cap = [policy, call.budget_header].into_iter().flatten().min();
    Need { input: need.input.min(cap.map_or(u64::MAX, |n| n as u64)), ..need }
}

/// Tokens of a JSON text, on the high side; what stands in base 64 counts as a picture.
fn text_tokens(body: &[u8]) -> u64 {
    let mut text = body.len() as u64;
    let mut media = 0;
    for at in memmem::find_iter(body, b";base64,") {
        let rest = &body[at..];
        text -= memchr::memchr(b'"', rest).unwrap_or(rest.len()) as u64;
        media += MEDIA;
    }
    // A picture behind an address costs as much.
    media = media.max(MEDIA * memmem::find_iter(body, br#""image_url":{"#).count() as u64);
    text / BYTES_PER_TOKEN + media
}

fn has_media(body: &[u8]) -> bool {
    memmem::find(body, b";base64,").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_counts_as_one_however_many_bytes_it_has() {
        let picture = format!(r#"{{"image_url":{{"url":"data:image/png;base64,{}"}}}}"#, "A".repeat(300_000));
        assert!((MEDIA..MEDIA + 50).contains(&text_tokens(picture.as_bytes())));
        assert_eq!(text_tokens(&[b'x'; 300]), 100);
        // A body that breaks off, or says so in a text.
        assert!(text_tokens(br#"{"content":";base64,;base64,"#) >= 2 * MEDIA);
    }
}
