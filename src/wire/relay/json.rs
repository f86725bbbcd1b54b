//! The relay of a body that is not streamed.

use bytes::Bytes;

use super::{StreamEnd, Verdict};
use crate::wire::Usage;
use crate::wire::delta::{Accumulator, Reply};

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
    limit: usize,
    light: bool,
    verdict: Verdict,
    reply: Reply,
}

impl JsonRelay {
    /// Makes a relay that keeps a copy of at most `collect_limit` bytes; of a longer body it keeps none.
    #[must_use]
    pub fn new(hold_end: bool, collect_limit: usize) -> Self {
        Self {
            hold_end,
            content_length: None,
            passed: 0,
            held: Bytes::new(),
            copy: Some(Vec::new()),
            limit: collect_limit,
            light: false,
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
            let mut books = if self.light { Accumulator::light() } else { Accumulator::new() };
            let seen = books.body(&copy);
            self.reply = books.into_reply();
            if seen.error {
                self.verdict = Verdict::Error;
            } else if seen.malformed {
                self.verdict = Verdict::Cut;
            }
        } else {
            self.reply.truncated = true;
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

    /// The reply; empty until [`end`](Self::end), and `truncated` when the body was over the limit.
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
        if let Some(copy) = &mut self.copy {
            if copy.len() + frame.len() > self.limit {
                self.copy = None;
            } else {
                copy.extend_from_slice(frame);
            }
        }
    }
}
