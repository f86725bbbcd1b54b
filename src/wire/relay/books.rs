//! What a relay learns of the stream that passes it.

use super::{StreamEnd, Verdict};
use crate::wire::Dialect;
use crate::wire::delta::{Accumulator, Seen};

/// Follows a stream: its reply, and whether it came to its end.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) reply: Accumulator,
    done: bool,
    /// Events with data that came.
    pub(super) events: u64,
}

impl Books {
    pub(super) fn new(collect: bool, dialect: Dialect) -> Self {
        let reply = if collect { Accumulator::new() } else { Accumulator::light() };
        Self { reply: reply.in_dialect(dialect), done: false, events: 0 }
    }

    /// Books the data of one event.
    pub(super) fn data(&mut self, data: &[u8]) -> Seen {
        if is_done(data) {
            self.done();
            return Seen::default();
        }
        self.events += 1;
        let seen = match std::str::from_utf8(data) {
            Ok(text) => self.reply.chunk(text),
            Err(_) => self.reply.chunk(&String::from_utf8_lossy(data)),
        };
        self.done |= seen.end;
        seen
    }

    /// Books that upstream said the stream is over.
    pub(super) fn done(&mut self) {
        self.done = true;
    }

    pub(super) fn verdict(&self, how: StreamEnd) -> Verdict {
        let no_chat = how == StreamEnd::Clean && !self.reply.is_chat();
        if self.reply.has_error() {
            Verdict::Error
        } else if self.done || self.reply.finished() || no_chat {
            Verdict::Complete
        } else {
            Verdict::Cut
        }
    }
}

/// Whether the data of an event says that the stream is over. Clients only look at how it begins.
pub(super) fn is_done(data: &[u8]) -> bool {
    data.trim_ascii_start().starts_with(DONE)
}

/// Whether data that is still coming may turn out to be [`is_done`].
pub(super) fn may_be_done(data: &[u8]) -> bool {
    DONE.starts_with(data.trim_ascii_start())
}

const DONE: &[u8] = b"[DONE]";
