//! `Decode`: body → payload, without losing a byte.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::Body;

use super::stage::Stage;
use super::upload::{Patience, read_body};
use crate::base::{ErrorKind, GatewayError};
use crate::exchange::{Authenticated, Decoded, Embeddings, Kind, Payload};
use crate::wire::{self, ChatRequest, DecodeError, Span, decode_lossy, scan};

/// Bodies from this size on are parsed off the async threads, in bytes: parsing runs at about 1 GB/s.
const PARSE_INLINE_BYTES: usize = 512 * 1024;

/// Reads and parses bodies; refuses with 400, 408, 413 and 415.
#[derive(Clone, Copy, Debug)]
pub struct Decode {
    /// What the route expects.
    pub kind: Kind,
    /// Largest body, in bytes.
    pub max_body_bytes: usize,
    /// How long it may take to come.
    pub patience: Patience,
}

impl<B> Stage<Authenticated<B>> for Decode
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Out = Decoded;

    async fn run(&self, input: Authenticated<B>) -> Result<Decoded, GatewayError> {
        let Authenticated { stamp, principal, credential, http } = input;
        let (parts, body) = http.into_parts();
        check_type(&parts.headers)?;
        let body = read_body(&parts.headers, body, self.max_body_bytes, self.patience).await?;
        let kind = self.kind;
        let payload = if body.len() < PARSE_INLINE_BYTES {
            parse(kind, body)
        } else {
            tokio::task::spawn_blocking(move || parse(kind, body)).await.map_err(GatewayError::internal)?
        }?;
        Ok(Decoded { stamp, principal, credential, headers: parts.headers, payload })
    }
}

fn check_type(headers: &HeaderMap) -> Result<(), GatewayError> {
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(GatewayError::new(ErrorKind::UnsupportedMedia, "send the body without Content-Encoding"));
    }
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Ok(());
    };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(GatewayError::new(ErrorKind::UnsupportedMedia, "the body must be of Content-Type application/json"))
}

fn parse(kind: Kind, body: Bytes) -> Result<Payload, GatewayError> {
    match kind {
        Kind::Chat(dialect) => ChatRequest::decode_as(dialect, body).map(Payload::Chat).map_err(|e| refuse(&e)),
        Kind::Embeddings => parse_embeddings(body).map(Payload::Embeddings).map_err(|e| refuse(&e)),
    }
}

fn parse_embeddings(body: Bytes) -> Result<Embeddings, DecodeError> {
    let text = std::str::from_utf8(&body).map_err(|e| DecodeError::Utf8(e.valid_up_to()))?;
    wire::check(text)?;
    let fault = |problem| DecodeError::Member { param: "model".to_owned(), problem };
    let model_spans: Vec<Span> =
        scan::members(text, Span::new(0, text.len())).filter(|m| m.key.of(text) == "model").map(|m| m.value).collect();
    let literal = model_spans.last().ok_or_else(|| fault("is required"))?.of(text);
    if !literal.starts_with('"') {
        return Err(fault("must be a string"));
    }
    let model = decode_lossy(literal).into_owned();
    Ok(Embeddings { model, model_spans, body })
}

fn refuse(error: &DecodeError) -> GatewayError {
    let refusal = GatewayError::new(ErrorKind::BadRequest, error.to_string());
    match error {
        DecodeError::Member { param, .. } => refusal.with_param(param.clone()),
        _ => refusal,
    }
}
