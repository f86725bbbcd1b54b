//! A reply as data: status, headers, pieces in time, and how it ends.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

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
}

impl Raw {
    /// A stream of events with these pieces, at once and politely ended.
    #[must_use]
    pub fn stream<B: Into<Bytes>>(pieces: impl IntoIterator<Item = B>) -> Self {
        let headers = vec![("content-type", "text/event-stream; charset=utf-8".to_owned())];
        let pieces = pieces.into_iter().map(|piece| (Duration::ZERO, piece.into())).collect();
        Self { status: 200, headers, header_delay: Duration::ZERO, pieces, end: End::Polite }
    }

    /// A JSON body with its length.
    #[must_use]
    pub fn json(status: u16, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let headers = vec![("content-type", "application/json".to_owned()), ("content-length", body.len().to_string())];
        Self { status, headers, header_delay: Duration::ZERO, pieces: vec![(Duration::ZERO, body)], end: End::Polite }
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

    /// The same reply with a further header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
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
