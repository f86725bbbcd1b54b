//! The relay of a body that is not streamed.

use bytes::Bytes;
use memchr::memmem;
use serde_json::value::RawValue;

use super::{StreamEnd, Verdict};
use crate::wire::delta::{Accumulator, Reply};
use crate::wire::{Dialect, Usage};

/// Of a body that is longer than its copy may be, so much of its end is kept, in bytes: what was used stands there.
const TAIL_BYTES: usize = 64 * 1024;

/// Passes the frames of one JSON body on at once and keeps a bounded copy.
///
/// With `hold_end` the end waits for [`take_held`](Self::take_held): the frame that reaches the known content length, or else
/// the last byte of what came.
#[derive(Debug)]
pub struct JsonRelay {
    hold_end: bool,
    content_length: Option<u64>,
    passed: u64,
    held: Bytes,
    copy: Option<Vec<u8>>,
    /// The end of a body that is longer than the copy may be.
    tail: Vec<u8>,
    limit: usize,
    light: bool,
    dialect: Dialect,
    verdict: Verdict,
    reply: Reply,
}

impl JsonRelay {
    /// Makes a relay that keeps a copy of at most `collect_limit` bytes; of a longer body it keeps the end, for its usage.
    #[must_use]
    pub fn new(hold_end: bool, collect_limit: usize) -> Self {
        Self {
            hold_end,
            content_length: None,
            passed: 0,
            held: Bytes::new(),
            copy: Some(Vec::new()),
            tail: Vec::new(),
            limit: collect_limit,
            light: false,
            dialect: Dialect::Chat,
            verdict: Verdict::Open,
            reply: Reply::default(),
        }
    }

    /// Tells the length that upstream announced.
    #[must_use]
    pub fn with_content_length(mut self, bytes: Option<u64>) -> Self {
        self.content_length = bytes;
        self
    }

    /// Reads the copy for usage, finish reasons and errors only: nobody wants the text.
    #[must_use]
    pub fn without_text(mut self) -> Self {
        self.light = true;
        self
    }

    /// Tells how the body is written; without, it is of chat.
    #[must_use]
    pub fn in_dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Takes a frame and returns the bytes to pass on now.
    pub fn push(&mut self, mut frame: Bytes) -> Vec<Bytes> {
        if frame.is_empty() {
            return Vec::new();
        }
        self.keep(&frame);
        self.passed += frame.len() as u64;
        if !self.hold_end {
            return vec![frame];
        }
        let held = match self.content_length {
            Some(length) if self.passed < length => Bytes::new(),
            Some(_) => std::mem::take(&mut frame),
            None => frame.split_off(frame.len() - 1),
        };
        let before = std::mem::replace(&mut self.held, held);
        [before, frame].into_iter().filter(|b| !b.is_empty()).collect()
    }

    /// Says that upstream's body ended. Nothing can be added to a JSON body: the caller breaks the connection after a cut.
    pub fn end(&mut self, how: StreamEnd) -> Vec<Bytes> {
        if self.verdict != Verdict::Open {
            return Vec::new();
        }
        let whole = how == StreamEnd::Clean || self.content_length.is_some_and(|length| self.passed >= length);
        let copy = self.copy.take();
        self.verdict = if whole { Verdict::Complete } else { Verdict::Cut };
        if let Some(copy) = copy {
            let books = if self.light { Accumulator::light() } else { Accumulator::new() };
            let mut books = books.in_dialect(self.dialect);
            let seen = books.body(&copy);
            self.reply = books.into_reply();
            if seen.error {
                self.verdict = Verdict::Error;
            } else if seen.malformed {
                self.verdict = Verdict::Cut;
            }
        } else {
            self.reply.truncated = true;
            self.reply.usage = last_usage(&std::mem::take(&mut self.tail));
        }
        Vec::new()
    }

    /// Whether all that upstream announced has passed, with nothing held back: nobody may ask for more.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        !self.hold_end && self.content_length.is_some_and(|length| self.passed >= length)
    }

    /// Takes the end of the body, to be passed when the exchange is recorded; empty when nothing is held.
    pub fn take_held(&mut self) -> Bytes {
        std::mem::take(&mut self.held)
    }

    /// Whether the reply is complete; [`Verdict::Open`] until [`end`](Self::end).
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// The reply; empty until [`end`](Self::end), and `truncated` with nothing but usage when the body was over the limit.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }

    /// How many bytes came.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// The usage that upstream reported.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.reply.usage
    }

    fn keep(&mut self, frame: &[u8]) {
        match &mut self.copy {
            Some(copy) if copy.len() + frame.len() <= self.limit => copy.extend_from_slice(frame),
            // Nobody wants to know anything.
            _ if self.limit == 0 => self.copy = None,
            copy => {
                if let Some(copy) = copy.take() {
                    self.tail.extend_from_slice(&copy[copy.len().saturating_sub(TAIL_BYTES)..]);
                }
                self.tail.extend_from_slice(&frame[frame.len().saturating_sub(TAIL_BYTES)..]);
                // Not for each frame, however small: it moves what is kept.
                if self.tail.len() > 4 * TAIL_BYTES {
                    self.tail.drain(..self.tail.len() - TAIL_BYTES);
                }
            }
        }
    }
}

/// The usage that the end of a body tells, where that is all that is left of it. Inside a string the name would be escaped.
fn last_usage(tail: &[u8]) -> Option<Usage> {
    const NAME: &[u8] = b"\"usage\"";
    let at = memmem::rfind(tail, NAME)? + NAME.len();
    let text = std::str::from_utf8(&tail[at..]).ok()?;
    let value = text.trim_ascii_start().strip_prefix(':')?.trim_ascii_start();
    // What stands behind the object does not belong to it.
    let object = serde_json::Deserializer::from_str(value).into_iter::<&RawValue>().next()?.ok()?;
    Usage::read(object.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relayed(body: &str, limit: usize, frame: usize) -> Reply {
        let mut relay = JsonRelay::new(false, limit).without_text();
        for frame in body.as_bytes().chunks(frame) {
            relay.push(Bytes::copy_from_slice(frame));
        }
        relay.end(StreamEnd::Clean);
        relay.reply().clone()
    }

    #[test]
    fn of_a_body_that_is_too_long_to_keep_the_usage_is_read_all_the_same() {
        let numbers = "0.123,".repeat(100_000);
        let vectors = format!(
            r#"{{"data":[{{"embedding":[{numbers}0]}}],"usage": {{"prompt_tokens":70000,"total_tokens":70000}},"model":"e"}}"#
        );
        for frame in [1_000, 16_384, 1_000_000] {
            let reply = relayed(&vectors, 10_000, frame);
            assert!(reply.truncated);
            assert_eq!(reply.usage.unwrap().prompt_tokens, 70_000, "in frames of {frame}");
            assert!(relayed(&vectors, 0, frame).usage.is_none());
        }
        let said = format!(
            r#"{{"usage":{{"prompt_tokens":1}},"data":["{numbers}","\"usage\":{{\"prompt_tokens\":9}}","usage"]}}"#
        );
        assert!(relayed(&said, 10_000, 1_000).usage.is_none());
    }
}
