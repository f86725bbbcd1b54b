//! A reply as data: status, headers, pieces in time, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

/// A throttled reply goes on after this.
const BANDWIDTH_STEP: Duration = Duration::from_millis(20);

/// How a reply ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// As HTTP wants it.
    #[default]
    Polite,
    /// The connection is reset (RST).
    Reset,
    /// Never: silence until the client leaves.
    Stall,
    /// As HTTP wants it, so long after the last byte.
    Late(Duration),
}

/// What becomes of the connection after the reply. Nothing of it is announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Afterwards {
    /// It waits for the next request.
    #[default]
    Keep,
    /// It is closed at once.
    Close,
    /// It is closed when the next request comes, which gets no answer.
    HangUp,
    /// It takes the next request and is silent for ever, as a connection is whose other end is gone.
    Dead,
}

/// A reply to the byte.
#[derive(Clone, Debug)]
pub struct Raw {
    /// The status.
    pub status: u16,
    /// The headers; with `content-length` the body is sent as such, otherwise chunked.
    pub headers: Vec<(&'static str, String)>,
    /// How long the header is held back.
    pub header_delay: Duration,
    /// The pieces of the body, each written on its own after its delay.
    pub pieces: Vec<(Duration, Bytes)>,
    /// What comes after the last piece.
    pub end: End,
    /// What becomes of the connection.
    pub afterwards: Afterwards,
}

impl Raw {
    /// A stream of events with these pieces, at once and politely ended.
    #[must_use]
    pub fn stream<B: Into<Bytes>>(pieces: impl IntoIterator<Item = B>) -> Self {
        let headers = vec![("content-type", "text/event-stream; charset=utf-8".to_owned())];
        let pieces = pieces.into_iter().map(|piece| (Duration::ZERO, piece.into())).collect();
        Self {
            status: 200,
            headers,
            header_delay: Duration::ZERO,
            pieces,
            end: End::Polite,
            afterwards: Afterwards::Keep,
        }
    }

    /// A JSON body with its length.
    #[must_use]
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let headers = vec![("content-type", "application/json".to_owned()), ("content-length", body.len().to_string())];
        let pieces = vec![(Duration::ZERO, body)];
        Self { status, headers, header_delay: Duration::ZERO, pieces, end: End::Polite, afterwards: Afterwards::Keep }
    }

    /// An error in OpenAI's shape.
    #[must_use]
    pub fn error(status: u16, message: &str) -> Self {
        let body = serde_json::json!({
            "error": { "message": message, "type": error_type(status), "param": null, "code": format!("mock_{status}") }
        });
        let mut reply = Self::json(status, body.to_string());
        if status == 429 {
            reply.headers.push(("retry-after", "1".to_owned()));
        }
        reply
    }

    /// The same reply with another end.
    #[must_use]
    pub fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The same reply with this header, in place of one of its name.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Every piece cut into pieces of `size` bytes.
    pub(super) fn split(&mut self, size: usize) {
        let pieces = std::mem::take(&mut self.pieces);
        for (delay, mut piece) in pieces {
            let mut delay = delay;
            while !piece.is_empty() {
                let part = piece.split_to(size.min(piece.len()));
                self.pieces.push((delay, part));
                delay = Duration::ZERO;
            }
        }
    }

    /// Every piece at so many bytes a second, in steps of [`BANDWIDTH_STEP`].
    pub(super) fn throttle(&mut self, bytes_a_second: u64) {
        let step = bytes_a_second * u64::try_from(BANDWIDTH_STEP.as_millis()).unwrap_or(1) / 1_000;
        self.split(usize::try_from(step).unwrap_or(usize::MAX).max(1));
        self.pieces.iter_mut().for_each(|(delay, _)| *delay += BANDWIDTH_STEP);
    }

    /// Each piece later by something up to `most`: another time for each, and the same in every run.
    pub(super) fn jitter(&mut self, most: Duration) {
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        for (at, (delay, _)) in self.pieces.iter_mut().enumerate() {
            let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            *delay += Duration::from_millis(mixed % most);
        }
    }

    /// So many bytes of the body, then a reset.
    pub(super) fn reset_after(&mut self, mut bytes: usize) {
        self.pieces.retain_mut(|(_, piece)| {
            piece.truncate(bytes);
            bytes -= piece.len();
            !piece.is_empty()
        });
        self.end = End::Reset;
    }

    /// The headers as HTTP has them; a name or value that HTTP does not allow is left out.
    pub(super) fn header_map(&self) -> HeaderMap {
        self.headers
            .iter()
            .filter_map(|(name, value)| {
                Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?))
            })
            .collect()
    }
}

fn error_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}
