//! The relay of a stream of events.

use bytes::{Bytes, BytesMut};

use super::books::{Books, is_done};
use super::watch::{Fate, MAX_HELD_BYTES, UsageWatch};
use super::{StreamEnd, Verdict};
use crate::wire::delta::{Reply, Seen};
use crate::wire::sse::{Event, Pending, Position, SseParser};
use crate::wire::{Dialect, Usage, fault};

/// The most bytes that are held from the end of a stream on; beyond that holding ends and all passes.
pub(super) const MAX_END_BYTES: usize = 1024 * 1024;

/// What a [`StreamRelay`] does beside passing bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayOptions {
    /// Take out the usage event: we asked for it, the client did not.
    pub withhold_usage: bool,
    /// How the stream is written.
    pub dialect: Dialect,
    /// Hold `[DONE]`, or the last event of another dialect, and all behind it for [`StreamRelay::take_held`].
    pub hold_end: bool,
    /// Keep the reply's text.
    pub collect: bool,
}

/// Passes the frames of one stream on; see the module.
#[derive(Debug)]
pub struct StreamRelay {
    options: RelayOptions,
    parser: SseParser,
    books: Books,
    hold: Hold,
    verdict: Verdict,
    /// The event that has begun is known to pass.
    passes: bool,
    /// A withheld event ended in CR: an LF that comes next belongs to it.
    swallow_lf: bool,
    /// `[DONE]`, or the last event of another dialect, came and all from there on is held.
    ending: bool,
    /// More than [`MAX_END_BYTES`] followed `[DONE]`: nothing is looked at any more.
    given_up: bool,
    usage_watch: UsageWatch,
}

/// Bytes that are held back, in one piece of the stream.
#[derive(Debug, Default)]
struct Hold {
    frames: Vec<Bytes>,
    start: u64,
    len: usize,
}

impl Hold {
    fn push(&mut self, at: u64, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        if self.frames.is_empty() {
            self.start = at;
        }
        self.len += bytes.len();
        self.frames.push(bytes);
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn take(&mut self) -> Vec<Bytes> {
        self.len = 0;
        std::mem::take(&mut self.frames)
    }
}

impl StreamRelay {
    /// Makes a relay for one stream.
    #[must_use]
    pub fn new(options: RelayOptions) -> Self {
        Self {
            options,
            parser: SseParser::new(),
            books: Books::new(options.collect, options.dialect),
            hold: Hold::default(),
            verdict: Verdict::Open,
            passes: false,
            swallow_lf: false,
            ending: false,
            given_up: false,
            usage_watch: UsageWatch::default(),
        }
    }

    /// Takes a frame and returns the bytes to pass on now, as slices of what came.
    pub fn push(&mut self, frame: Bytes) -> Vec<Bytes> {
        if frame.is_empty() {
            return Vec::new();
        }
        if self.given_up {
            return vec![frame];
        }
        if self.ending {
            return self.hold_end(frame);
        }
        let base = self.parser.offset();
        let mut out = Out { pieces: Vec::with_capacity(1), at: 0 };
        if std::mem::take(&mut self.swallow_lf) && frame.first() == Some(&b'\n') {
            out.at = 1;
        }
        let mut rest: &[u8] = &frame;
        while let Some(event) = self.parser.next(&mut rest) {
            let seen = match event.data {
                Some(data) if !event.oversized => self.books.data(data),
                // Too large to be read, and the end all the same.
                Some(_) if event.name.as_deref().is_some_and(|name| self.options.dialect.is_last_event(name)) => {
                    self.books.done();
                    Seen::default()
                }
                _ => Seen::default(),
            };
            let fate = if self.passes { Fate::Pass } else { fate(self.options, &event, seen) };
            self.passes = false;
            self.usage_watch = UsageWatch::default();
            match fate {
                Fate::Pass => out.pieces.append(&mut self.hold.take()),
                Fate::Withhold => out.leave_out(&event, &frame, base, &mut self.hold),
                Fate::End => {
                    self.ending = true;
                    let start = relative(event.range.start, base);
                    out.pass(&mut self.hold, &frame, start);
                    self.hold.push(base + start as u64, frame.slice(start.max(out.at)..));
                    return out.pieces;
                }
            }
        }
        self.swallow_lf = self.parser.behind_cr() && out.at == frame.len() && out.at > 0;
        self.unfinished(&frame, base, &mut out);
        out.pieces
    }

    /// Says that upstream's body ended; returns the bytes that are still to be passed on.
    ///
    /// After a cut that is an error event, behind what ends a half event. What `hold_end` holds is not in it.
    pub fn end(&mut self, how: StreamEnd) -> Vec<Bytes> {
        if self.verdict != Verdict::Open {
            return Vec::new();
        }
        let last = match self.parser.pending() {
            Some(Pending { data: Some(data), .. }) if !self.ending => self.books.data(&data),
            _ => Seen::default(),
        };
        self.verdict = self.books.verdict(how);
        if self.ending || self.given_up {
            return Vec::new();
        }
        let held = self.hold.take();
        if self.verdict == Verdict::Cut {
            // A held beginning of an event is of no use to anyone; without it the client stands between two events.
            let position = if held.is_empty() { self.parser.position() } else { Position::Between };
            let close: &'static [u8] = match position {
                Position::Between => b"",
                Position::LineStart => b"\n",
                Position::BehindCr | Position::InLine => b"\n\n",
            };
            let error = fault::interrupted(self.options.dialect, self.books.events);
            return [Bytes::from_static(close), error].into_iter().filter(|b| !b.is_empty()).collect();
        }
        if self.options.withhold_usage && is_usage(last) { Vec::new() } else { held }
    }

    /// Takes what was held from the last event on, to be passed when the exchange is recorded; empty when there is nothing.
    pub fn take_held(&mut self) -> Bytes {
        if !self.ending {
            return Bytes::new();
        }
        join(self.hold.take())
    }

    /// Whether the last event came and is held: upstream has nothing more to say.
    #[must_use]
    pub fn holds_end(&self) -> bool {
        self.ending
    }

    /// The comment that may be passed on now to keep a silent connection alive; `None` within a line, where it would
    /// become part of it, and behind a CR within an event, whose LF may still come and would then end the event.
    ///
    /// It has no blank line of its own, so it may stand within an event that the client has half of.
    #[must_use]
    pub fn keepalive(&self) -> Option<Bytes> {
        const COMMENT: &[u8] = b": keep-alive\n";
        // What is held begins at the start of a line: there the client stands.
        let at_line_start = self.ending
            || !self.hold.is_empty()
            || matches!(self.parser.position(), Position::Between | Position::LineStart);
        (at_line_start && !self.given_up).then_some(Bytes::from_static(COMMENT))
    }

    /// Whether the reply is complete; [`Verdict::Open`] until [`end`](Self::end).
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// What the verdict would be if the stream broke off now: for a client that leaves, and for a stream that said it is over.
    #[must_use]
    pub fn verdict_now(&self) -> Verdict {
        self.books.verdict(StreamEnd::Failed)
    }

    /// The reply up to now; without `collect` it has no text.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        self.books.reply.reply()
    }

    /// The usage that upstream reported, withheld or not.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.reply().usage
    }

    /// The number of events whose data was no JSON object; they passed as they were.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.books.reply.malformed()
    }

    /// Passes or holds what `frame` has behind its last whole event.
    fn unfinished(&mut self, frame: &Bytes, base: u64, out: &mut Out) {
        let pending = if self.passes || !(self.options.withhold_usage || self.options.hold_end) {
            None
        } else {
            self.parser.pending()
        };
        let Some(pending) = pending else {
            return out.pass(&mut self.hold, frame, frame.len());
        };
        let len = (self.parser.offset() - pending.start) as usize;
        let start = relative(pending.start, base).max(out.at);
        match self.usage_watch.fate(self.options, &pending, len) {
            Fate::Pass => {
                self.passes = true;
                out.pass(&mut self.hold, frame, frame.len());
            }
            fate => {
                if fate == Fate::End {
                    self.ending = true;
                    self.books.done();
                }
                out.pass(&mut self.hold, frame, start);
                self.hold.push(base + start as u64, frame.slice(start..));
            }
        }
    }

    fn hold_end(&mut self, frame: Bytes) -> Vec<Bytes> {
        self.hold.push(0, frame);
        if self.hold.len <= MAX_END_BYTES {
            return Vec::new();
        }
        self.ending = false;
        self.given_up = true;
        self.hold.take()
    }
}

/// The pieces to pass on, and how much of the frame is dealt with.
struct Out {
    pieces: Vec<Bytes>,
    at: usize,
}

impl Out {
    /// Passes the frame up to `end`, behind what is held: nothing overtakes.
    fn pass(&mut self, hold: &mut Hold, frame: &Bytes, end: usize) {
        if end > self.at {
            self.pieces.append(&mut hold.take());
            self.pieces.push(frame.slice(self.at..end));
            self.at = end;
        }
    }

    /// Passes what stands before an event and the comments in it, and leaves out the event.
    fn leave_out(&mut self, event: &Event<'_>, frame: &Bytes, base: u64, hold: &mut Hold) {
        let end = relative(event.range.end, base);
        let (source, source_start) = if hold.is_empty() {
            (frame.clone(), base)
        } else {
            let start = hold.start;
            hold.push(base, frame.slice(..end));
            (join(hold.take()), start)
        };
        let mut slice = |from: usize, to: usize| {
            if from < to {
                self.pieces.push(source.slice(from..to));
            }
        };
        let begun = if source_start == base { self.at } else { 0 };
        slice(begun, relative(event.range.start, source_start));
        for comment in event.comments {
            slice(relative(comment.start, source_start), relative(comment.end, source_start));
        }
        self.at = end;
    }
}

fn relative(offset: u64, base: u64) -> usize {
    offset.saturating_sub(base) as usize
}

fn join(frames: Vec<Bytes>) -> Bytes {
    match <[Bytes; 1]>::try_from(frames) {
        Ok([only]) => only,
        Err(frames) => {
            let mut all = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
            frames.iter().for_each(|f| all.extend_from_slice(f));
            all.freeze()
        }
    }
}

fn fate(options: RelayOptions, event: &Event<'_>, seen: Seen) -> Fate {
    let len = event.range.end - event.range.start;
    if options.hold_end && (seen.end || event.data.is_some_and(is_done)) {
        Fate::End
    } else if options.withhold_usage && is_usage(seen) && len <= MAX_HELD_BYTES as u64 {
        Fate::Withhold
    } else {
        Fate::Pass
    }
}

/// The extra event of `stream_options.include_usage`: no choices, and a usage object.
fn is_usage(seen: Seen) -> bool {
    seen.no_choices && seen.usage && !seen.error
}
