//! Server-sent events, read as they come in.
//!
//! The grammar is that of the HTML standard, section "Server-sent events": lines end in LF, CR or CRLF,
//! a leading byte order mark is dropped, a line that begins with a colon is a comment, one space after
//! the colon of a field is dropped, `data` lines join with LF, a blank line ends the event.
//! Besides the event, the parser tells which bytes of the stream it took.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

/// The most bytes of data that are collected for one event; beyond it the event is flagged, its data is cut off.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// What a buffer may keep between events, so that one large event does not hold its memory for the rest of a stream.
const IDLE_BYTES: usize = 64 * 1024;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// One event, borrowed from the frame it ended in or from the parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// The bytes it takes in the stream, from its first field to the end of its blank line. Comments before it are
    /// not in it. When its last CR is the last byte of a frame, an LF that begins the next frame still belongs to it.
    pub range: Range<u64>,
    /// The `event` field.
    pub name: Option<Cow<'a, str>>,
    /// The data lines, joined by LF; `None` when the event has no `data` field (browsers ignore such an event).
    pub data: Option<&'a [u8]>,
    /// Ranges of comment lines within `range`.
    pub comments: &'a [Range<u64>],
    /// Whether there was more data than [`MAX_EVENT_BYTES`].
    pub oversized: bool,
}

/// What is known of the event that has begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending<'a> {
    /// Where it begins in the stream.
    pub start: u64,
    /// The `event` field, once its line has ended.
    pub name: Option<&'a str>,
    /// Its data up to now, an unfinished line included; `None` before any data.
    pub data: Option<Cow<'a, [u8]>>,
}

/// Where the stream stands between its lines and events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// At the beginning of a line, with no field read since the last event.
    Between,
    /// At the beginning of a line, within an event.
    LineStart,
    /// At the beginning of a line, within an event, right behind a CR whose LF may still come.
    BehindCr,
    /// Within a line.
    InLine,
}

/// An incremental parser; it takes any split of a stream and gives the same events.
#[derive(Debug, Default)]
pub struct SseParser {
    /// Bytes consumed.
    offset: u64,
    /// The beginning of the current line, from earlier frames, at most [`MAX_EVENT_BYTES`].
    line: Vec<u8>,
    /// The line was longer than what is kept of it.
    line_cut: bool,
    line_start: u64,
    in_line: bool,
    after_cr: bool,
    /// First field of the current event.
    start: Option<u64>,
    name: Option<String>,
    data: Vec<u8>,
    has_data: bool,
    oversized: bool,
    comments: Vec<Range<u64>>,
    /// The event in the buffers has been handed out.
    spent: bool,
}

impl SseParser {
    /// Makes a parser at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of bytes consumed.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Consumes bytes from the front of `rest` up to the end of the next event, and returns that event; `None` when
    /// `rest` ends before one does, and all of it is consumed.
    pub fn next<'a, 'f: 'a>(&'a mut self, rest: &mut &'f [u8]) -> Option<Event<'a>> {
        if self.spent {
            self.reset();
        }
        // Data of one line within this frame is not copied; it moves to `self.data` only when the frame ends first.
        let mut whole: Option<&'f [u8]> = None;
        loop {
            if self.after_cr && !rest.is_empty() {
                self.after_cr = false;
                if rest[0] == b'\n' {
                    self.take(rest, 1);
                    if let Some(comment) = self.comments.last_mut().filter(|c| c.end + 1 == self.offset) {
                        comment.end = self.offset;
                    }
                }
            }
            if rest.is_empty() {
                break;
            }
            if !self.in_line {
                self.in_line = true;
                self.line_start = self.offset;
            }
            let Some(len) = memchr2(b'\n', b'\r', rest) else {
                let tail = self.take(rest, rest.len());
                self.keep_line(tail);
                break;
            };
            let piece = self.take(rest, len);
            let cr = self.take(rest, 1) == b"\r";
            if cr && rest.first() == Some(&b'\n') {
                self.take(rest, 1);
            } else {
                self.after_cr = cr && rest.is_empty();
            }
            self.in_line = false;
            if self.line_ends(piece, &mut whole) {
                self.spent = true;
                let start = self.start.expect("an event that ends has begun");
                return Some(Event {
                    range: start..self.offset,
                    name: self.name.as_deref().map(Cow::Borrowed),
                    data: whole.or_else(|| self.has_data.then_some(self.data.as_slice())),
                    comments: &self.comments,
                    oversized: self.oversized,
                });
            }
        }
        if let Some(data) = whole {
            self.keep_data(data);
        }
        None
    }

    /// The event that has begun and not ended, if any.
    #[must_use]
    pub fn pending(&self) -> Option<Pending<'_>> {
        if self.spent {
            return None;
        }
        let (line_start, line) = self.stripped(&self.line);
        let in_field = self.in_line && !line.is_empty() && line[0] != b':';
        let start = self.start.or(in_field.then_some(line_start))?;
        let value = if in_field { data_value(line) } else { None };
        let data = match (self.has_data, value) {
            (false, None) => None,
            (false, Some(value)) => Some(Cow::Borrowed(value)),
            (true, None) => Some(Cow::Borrowed(self.data.as_slice())),
            (true, Some(value)) => Some(Cow::Owned([&self.data, value].join(&b'\n'))),
        };
        Some(Pending { start, name: self.name.as_deref(), data })
    }

    /// Where the stream stands.
    #[must_use]
    pub fn position(&self) -> Position {
        if self.in_line {
            Position::InLine
        } else if self.spent || self.start.is_none() {
            Position::Between
        } else if self.after_cr {
            Position::BehindCr
        } else {
            Position::LineStart
        }
    }

    /// Whether the last byte was a CR, so that an LF next belongs to the same line end.
    #[must_use]
    pub fn behind_cr(&self) -> bool {
        self.after_cr
    }

    fn take<'a>(&mut self, rest: &mut &'a [u8], len: usize) -> &'a [u8] {
        let (piece, after) = rest.split_at(len);
        *rest = after;
        self.offset += len as u64;
        piece
    }

    fn reset(&mut self) {
        self.spent = false;
        self.start = None;
        self.name = None;
        self.data.clear();
        self.data.shrink_to(IDLE_BYTES);
        self.has_data = false;
        self.oversized = false;
        self.comments.clear();
    }

    /// Handles the line that `piece` completes; returns whether it ends an event.
    fn line_ends<'a>(&mut self, piece: &'a [u8], whole: &mut Option<&'a [u8]>) -> bool {
        if self.line.is_empty() {
            let (start, line) = self.stripped(piece);
            return match read_line(line) {
                Line::Blank => self.start.is_some(),
                Line::Data(value) if whole.is_none() && !self.has_data && value.len() <= MAX_EVENT_BYTES => {
                    self.start.get_or_insert(start);
                    *whole = Some(value);
                    false
                }
                line => {
                    if let Line::Data(_) = line
                        && let Some(first) = whole.take()
                    {
                        self.keep_data(first);
                    }
                    self.field(start, line);
                    false
                }
            };
        }
        self.keep_line(piece);
        let kept = std::mem::take(&mut self.line);
        let (start, line) = self.stripped(&kept);
        let line = read_line(line);
        let ends = matches!(line, Line::Blank) && self.start.is_some();
        let cut = std::mem::take(&mut self.line_cut);
        if let Line::Data(_) = line {
            self.oversized |= cut;
            if let Some(first) = whole.take() {
                self.keep_data(first);
            }
        }
        self.field(start, line);
        self.line = kept;
        self.line.clear();
        self.line.shrink_to(IDLE_BYTES);
        ends
    }

    fn field(&mut self, start: u64, line: Line<'_>) {
        match line {
            Line::Blank => return,
            Line::Comment => {
                if self.start.is_some() {
                    self.comments.push(start..self.offset);
                }
                return;
            }
            Line::Data(value) => self.keep_data(value),
            Line::Name(value) => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            Line::Other => {}
        }
        self.start.get_or_insert(start);
    }

    fn keep_data(&mut self, value: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        let room = MAX_EVENT_BYTES.saturating_sub(self.data.len());
        self.oversized |= value.len() > room;
        self.data.extend_from_slice(&value[..value.len().min(room)]);
    }

    fn keep_line(&mut self, piece: &[u8]) {
        let room = MAX_EVENT_BYTES.saturating_sub(self.line.len());
        self.line_cut |= piece.len() > room;
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// The current line without the byte order mark that may begin the stream, and where it begins.
    fn stripped<'a>(&self, line: &'a [u8]) -> (u64, &'a [u8]) {
        match line.strip_prefix(BOM) {
            Some(line) if self.line_start == 0 => (BOM.len() as u64, line),
            _ => (self.line_start, line),
        }
    }
}

enum Line<'a> {
    Blank,
    Comment,
    Data(&'a [u8]),
    Name(&'a [u8]),
    /// `id`, `retry`, or a field that the grammar does not know.
    Other,
}

fn read_line(line: &[u8]) -> Line<'_> {
    if let Some(value) = data_value(line) {
        return Line::Data(value);
    }
    match line {
        [] => Line::Blank,
        [b':', ..] => Line::Comment,
        b"data" => Line::Data(&[]),
        b"event" => Line::Name(&[]),
        _ => match line.strip_prefix(b"event:") {
            Some(value) => Line::Name(value.strip_prefix(b" ").unwrap_or(value)),
            None => Line::Other,
        },
    }
}

fn data_value(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_prefix(b"data:")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event without its borrow: range, name, data.
    type Owned = (Range<u64>, Option<String>, Option<String>);

    fn read(frames: &[&[u8]]) -> Vec<Owned> {
        let mut parser = SseParser::new();
        let mut events = Vec::new();
        for frame in frames {
            let mut rest = *frame;
            while let Some(event) = parser.next(&mut rest) {
                events.push((
                    event.range,
                    event.name.map(Cow::into_owned),
                    event.data.map(|d| String::from_utf8_lossy(d).into_owned()),
                ));
            }
            assert!(rest.is_empty());
        }
        events
    }

    fn data(stream: &str) -> Vec<String> {
        read(&[stream.as_bytes()]).into_iter().filter_map(|(_, _, data)| data).collect()
    }

    /// alibaba/higress#4146, envoyproxy/ai-gateway PR#2177, Portkey-AI/gateway#1035 and #722.
    #[test]
    fn the_whole_grammar_is_read() {
        assert_eq!(data("data: a\n\ndata:b\r\n\r\ndata: c\r\rdata\n\n"), ["a", "b", "c", ""]);
        assert_eq!(data("data: one\ndata:  two\ndata\ndata:three\n\n"), ["one\n two\n\nthree"]);
        assert_eq!(data(": hi\n\n:\ndata: x\n: in between\nid: 7\nretry: 5\nfoo: bar\nfoo\n\n"), ["x"]);
        assert_eq!(data("\u{feff}data: x\n\n\u{feff}data: y\n\n"), ["x"]);
        assert_eq!(data("data: unfinished\n"), Vec::<String>::new());
        assert_eq!(data("datax: no\ndat: no\n data: no\n\n"), Vec::<String>::new());
    }

    #[test]
    fn names_and_events_without_data_are_told() {
        let events = read(&[b"event: ping\n\nevent:x\nevent: y\ndata: 1\n\n"]);
        assert_eq!(events[0], (0..13, Some("ping".to_owned()), None));
        assert_eq!(events[1], (13..39, Some("y".to_owned()), Some("1".to_owned())));
    }

    #[test]
    fn a_range_leaves_out_the_comments_before_and_the_mark() {
        let stream = "\u{feff}: c\n\ndata: 1\r\n: in\r\n\r\n\n";
        let mut parser = SseParser::new();
        let mut rest = stream.as_bytes();
        let event = parser.next(&mut rest).unwrap();
        assert_eq!(&stream[event.range.start as usize..event.range.end as usize], "data: 1\r\n: in\r\n\r\n");
        assert_eq!(&stream[event.comments[0].start as usize..event.comments[0].end as usize], ": in\r\n");
        assert_eq!(rest, b"\n");
    }

    #[test]
    fn pending_tells_the_data_so_far() {
        let mut parser = SseParser::new();
        let mut rest: &[u8] = b": c\ndata: 1\ndata: 2";
        assert_eq!(parser.next(&mut rest), None);
        assert_eq!(parser.pending(), Some(Pending { start: 4, name: None, data: Some(Cow::Borrowed(b"1\n2")) }));
        assert_eq!(parser.position(), Position::InLine);
        let mut rest: &[u8] = b"\r";
        assert_eq!(parser.next(&mut rest), None);
        assert_eq!((parser.position(), parser.behind_cr()), (Position::BehindCr, true));
        let mut rest: &[u8] = b"\n\n: x";
        assert!(parser.next(&mut rest).is_some());
        assert_eq!(parser.pending(), None);
        assert_eq!(parser.next(&mut rest), None);
        assert_eq!(parser.pending(), None, "a comment begins no event");
    }

    #[test]
    fn an_event_that_is_too_large_is_cut_off_and_flagged() {
        let mut parser = SseParser::new();
        let block = vec![b'x'; 1024 * 1024];
        let mut first: &[u8] = b"data: ";
        assert_eq!(parser.next(&mut first), None);
        for _ in 0..20 {
            let mut rest: &[u8] = &block;
            assert_eq!(parser.next(&mut rest), None);
        }
        let mut rest: &[u8] = b"\n\ndata: small\n\n";
        let event = parser.next(&mut rest).unwrap();
        assert!(event.oversized && event.data.unwrap().len() <= MAX_EVENT_BYTES);
        assert_eq!(event.range, 0..6 + 20 * 1024 * 1024 + 2);
        let event = parser.next(&mut rest).unwrap();
        assert_eq!((event.oversized, event.data), (false, Some(&b"small"[..])));
    }

    /// Cuts `bytes` at every place that a seed says.
    fn split(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let mut places: Vec<usize> = cuts.iter().map(|c| c % (bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        places.windows(2).map(|w| bytes[w[0]..w[1]].to_vec()).collect()
    }

    /// The grammar, written down a second time without any thought of speed or frames.
    fn naive(stream: &str) -> Vec<String> {
        let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream).replace("\r\n", "\n").replace('\r', "\n");
        let mut events = Vec::new();
        let mut data: Option<String> = None;
        let lines: Vec<&str> = stream.split('\n').collect();
        for line in &lines[..lines.len() - 1] {
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            if line.is_empty() {
                events.extend(data.take());
            } else if field == "data" {
                match &mut data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => data = Some(value.to_owned()),
                }
            }
        }
        events
    }

    fn stream() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            Just("data"),
            Just("data:"),
            Just("data: "),
            Just("event: "),
            Just("id"),
            Just(":"),
            Just(" "),
            Just("\n"),
            Just("\r"),
            Just("\r\n"),
            Just("\n\n"),
            Just("\r\n\r\n"),
            Just("\u{feff}"),
            Just("你好"),
            Just("x")
        ];
        prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_grammar(stream in stream()) {
            prop_assert_eq!(data(&stream), naive(&stream));
        }

        /// envoyproxy/ai-gateway#2162, BerriAI/litellm#18842.
        #[test]
        fn any_split_gives_the_same_events(stream in stream(), cuts in prop::collection::vec(0_usize..400, 0..20)) {
            let whole = read(&[stream.as_bytes()]);
            let frames = split(stream.as_bytes(), &cuts);
            let mut found = read(&frames.iter().map(Vec::as_slice).collect::<Vec<_>>());
            // Between CR and LF a cut moves the end of an event by that LF; nothing else may differ.
            for ((range, ..), (expected, ..)) in found.iter_mut().zip(&whole) {
                let end = range.end as usize;
                if stream.as_bytes().get(end) == Some(&b'\n') && stream.as_bytes()[end - 1] == b'\r' {
                    range.end += 1;
                }
                prop_assert_eq!(&*range, expected);
            }
            prop_assert_eq!(found, whole);
        }

        #[test]
        fn any_bytes_are_taken_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1_usize..9) {
            let mut parser = SseParser::new();
            for frame in bytes.chunks(size) {
                let mut rest = frame;
                while parser.next(&mut rest).is_some() {}
                let _ = parser.pending();
            }
            prop_assert_eq!(parser.offset(), bytes.len() as u64);
        }
    }
}
