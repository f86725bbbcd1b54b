//! Errors on the wire: ours in the envelope of the client's dialect, and upstream's recognised and masked.

mod messages;

use std::borrow::Cow;

use bytes::Bytes;
use memchr::memmem;

use super::dialect::Dialect;
use super::scan::{self, Span};
use super::text::{decode_lossy, encode_string};
use crate::base::GatewayError;

/// Keys shorter than this are not masked: they would hit ordinary words.
const MIN_KEY_BYTES: usize = 8;

const MASK: &[u8] = b"***";

/// Returns `{"error":{"message","type","param","code"}}`, the body of every error of our own.
///
/// The shape is that of the OpenAI API reference; `param` is `null` when no member is at fault.
#[must_use]
pub fn envelope(error: &GatewayError) -> Bytes {
    Bytes::from(object(&error.public, error.openai_type(), error.param.as_deref(), error.code()))
}

/// Returns the body of an error of our own as clients of a dialect read it.
#[must_use]
pub fn body(dialect: Dialect, error: &GatewayError, request_id: &str) -> Bytes {
    match dialect {
        Dialect::Chat | Dialect::Responses => envelope(error),
        Dialect::Messages => Bytes::from(messages::object(error, Some(request_id))),
    }
}

/// Returns the same as one server-sent event, for a stream that has already begun.
#[must_use]
pub fn event(dialect: Dialect, error: &GatewayError) -> Bytes {
    Bytes::from(match dialect {
        Dialect::Chat | Dialect::Responses => {
            let json = object(&error.public, error.openai_type(), error.param.as_deref(), error.code());
            format!("data: {json}\n\n")
        }
        Dialect::Messages => messages::event(&messages::object(error, None)),
    })
}

/// Returns the event that ends a stream which upstream did not finish, as its dialect has errors; what it ends with otherwise does not follow.
/// `number` is how many events came before it.
#[must_use]
pub fn interrupted(dialect: Dialect, number: u64) -> Bytes {
    const MESSAGE: &str = "upstream ended the stream before it was complete";
    const CODE: &str = "stream_interrupted";
    let json = object(MESSAGE, "upstream_error", None, CODE);
    Bytes::from(match dialect {
        Dialect::Chat => format!("data: {json}\n\n"),
        Dialect::Messages => messages::event(&messages::write("api_error", MESSAGE, None)),
        // OpenAI's own event has its members at the top. Its SDKs take it for an event like others, and raise what has an `error` in it.
        Dialect::Responses => {
            let inner = json.strip_prefix(r#"{"error":"#).and_then(|json| json.strip_suffix('}')).unwrap_or("null");
            let head = format!(r#""type":"error","code":"{CODE}","message":"{MESSAGE}","param":null"#);
            format!("event: error\ndata: {{{head},\"sequence_number\":{number},\"error\":{inner}}}\n\n")
        }
    })
}

fn object(message: &str, kind: &str, param: Option<&str>, code: &str) -> String {
    let message = encode_string(message);
    let param = param.map_or_else(|| "null".to_owned(), encode_string);
    format!(r#"{{"error":{{"message":{message},"type":"{kind}","param":{param},"code":"{code}"}}}}"#)
}

/// What upstream says of an error inside a body or a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamError {
    /// The sentence, if there is one. It is upstream's text: it may be sent on, never logged.
    pub message: String,
    /// `type`, as in `server_error`.
    pub kind: Option<String>,
    /// `code`: a word or a number, as text.
    pub code: Option<String>,
}

/// Recognises an error object: a member `error` at the top that is an object or a text, or the form
/// `{"object":"error","message":…}` of some servers. `"error":null` is none.
#[must_use]
pub fn upstream_error(text: &str) -> Option<UpstreamError> {
    // Nearly every body and chunk ends here.
    memmem::find(text.as_bytes(), br#""error""#)?;
    let whole = Span::new(0, text.len());
    let found = match scan::member(text, whole, "error") {
        Some(span) => Found::of(text, span),
        None if string(text, whole, "object").as_deref() == Some("error") => Found::Object(whole),
        None => Found::Nothing,
    };
    match found {
        Found::Nothing => None,
        Found::Text(message) => Some(UpstreamError { message, ..UpstreamError::default() }),
        Found::Object(span) => Some(UpstreamError {
            message: string(text, span, "message").unwrap_or_default().into_owned(),
            kind: string(text, span, "type").map(Cow::into_owned),
            code: scalar(text, span, "code"),
        }),
    }
}

enum Found {
    Nothing,
    Text(String),
    Object(Span),
}

impl Found {
    fn of(text: &str, span: Span) -> Self {
        match span.of(text) {
            literal if literal.starts_with('{') => Self::Object(span),
            literal if literal.len() > 2 && literal.starts_with('"') => Self::Text(decode_lossy(literal).into_owned()),
            _ => Self::Nothing,
        }
    }
}

fn string<'a>(text: &'a str, span: Span, key: &str) -> Option<Cow<'a, str>> {
    let literal = scan::member(text, span, key)?.of(text);
    literal.starts_with('"').then(|| decode_lossy(literal))
}

fn scalar(text: &str, span: Span, key: &str) -> Option<String> {
    let literal = scan::member(text, span, key)?.of(text);
    match literal.as_bytes().first()? {
        b'"' | b'0'..=b'9' | b'-' => Some(decode_lossy(literal).into_owned()),
        _ => None,
    }
}

/// Replaces every occurrence of `keys` by `***`; `None` when none occurs and the body can pass as it is.
///
/// Keys under 8 bytes are left: they would hit ordinary words. Doubt 22 of the design.
#[must_use]
pub fn mask_keys(body: &[u8], keys: &[&str]) -> Option<Bytes> {
    let mut keys: Vec<&[u8]> = keys.iter().map(|k| k.as_bytes()).filter(|k| k.len() >= MIN_KEY_BYTES).collect();
    // A key that begins another one must not leave that one's tail behind.
    keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
    let mut masked: Option<Vec<u8>> = None;
    for key in keys {
        let text = masked.as_deref().unwrap_or(body);
        if let Some(replaced) = replace(text, key) {
            masked = Some(replaced);
        }
    }
    masked.map(Bytes::from)
}

fn replace(text: &[u8], key: &[u8]) -> Option<Vec<u8>> {
    let mut found = memmem::find_iter(text, key).peekable();
    found.peek()?;
    let mut out = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in found {
        out.extend_from_slice(&text[from..at]);
        out.extend_from_slice(MASK);
        from = at + key.len();
    }
    out.extend_from_slice(&text[from..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ErrorKind;

    #[test]
    fn an_error_of_ours_is_in_openai_shape() {
        let error = GatewayError::new(ErrorKind::ModelNotFound, "no model \"x\"").with_param("model");
        let expected = r#"{"error":{"message":"no model \"x\"","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#;
        assert_eq!(envelope(&error), expected);
        assert_eq!(event(Dialect::Chat, &error), format!("data: {expected}\n\n"));
    }

    #[test]
    fn clients_of_anthropics_dialect_read_errors_in_its_shape() {
        let error = GatewayError::new(ErrorKind::Overloaded, "too \"many\"");
        let expected =
            r#"{"type":"error","error":{"type":"overloaded_error","message":"too \"many\""},"request_id":"req_1"}"#;
        assert_eq!(body(Dialect::Messages, &error, "req_1"), expected);
        let at_fault = GatewayError::new(ErrorKind::BadRequest, "must be an array").with_param("messages");
        let expected = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages: must be an array\"}}\n\n";
        assert_eq!(event(Dialect::Messages, &at_fault), expected);
        assert!(interrupted(Dialect::Messages, 3).starts_with(b"event: error\ndata: {\"type\":\"error\""));
    }

    #[test]
    fn an_interrupted_stream_is_an_upstream_error() {
        let text = String::from_utf8(interrupted(Dialect::Chat, 7).to_vec()).unwrap();
        let json: serde_json::Value = serde_json::from_str(text.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(json["error"]["type"], "upstream_error");
        assert_eq!(json["error"]["code"], "stream_interrupted");
        assert!(json["error"]["param"].is_null());
    }

    /// Portkey-AI/gateway#1047: an error may come with status 200.
    #[test]
    fn an_error_inside_a_200_is_recognised() {
        let found = upstream_error(r#"{"error":{"message":"over\nloaded","type":"server_error","code":529}}"#).unwrap();
        assert_eq!(found.message, "over\nloaded");
        assert_eq!((found.kind.as_deref(), found.code.as_deref()), (Some("server_error"), Some("529")));
        assert_eq!(upstream_error(r#"{"error":"no such model"}"#).unwrap().message, "no such model");
        let flat = upstream_error(r#"{"object":"error","message":"bad","code":"x"}"#).unwrap();
        assert_eq!((flat.message.as_str(), flat.code.as_deref()), ("bad", Some("x")));
    }

    #[test]
    fn what_is_no_error_is_not_taken_for_one() {
        for text in [
            r#"{"error":null,"choices":[]}"#,
            r#"{"error":""}"#,
            r#"{"choices":[{"delta":{"content":"say \"error\""}}]}"#,
            r#"{"choices":[{"error":{"message":"nested"}}]}"#,
            "[DONE]",
            "",
        ] {
            assert_eq!(upstream_error(text), None, "{text}");
        }
    }

    /// BerriAI/litellm#18731: no key in an error that passes.
    #[test]
    fn known_keys_are_masked_and_all_else_stays() {
        let body = br#"{"error":{"message":"bad key sk-abcdefgh-long, not sk-abcdefgh"}}"#;
        let masked = mask_keys(body, &["sk-abcdefgh", "sk-abcdefgh-long", "bad", ""]).unwrap();
        assert_eq!(masked, r#"{"error":{"message":"bad key ***, not ***"}}"#);
        assert_eq!(mask_keys(body, &["sk-other-key"]), None);
    }
}
