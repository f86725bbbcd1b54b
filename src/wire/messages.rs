//! Anthropic's messages as a conversation.
//!
//! Source: Anthropic's API reference, "Messages" (version 2023-06-01).

use super::chat::{DecodeError, View, fault};
use super::message::{Content, Message, Role};
use super::scan::Span;

/// Reads the messages. What the client has in `system` (a text, blocks, or `null`) is the first of them.
pub(super) fn view(text: &str, system: Option<Span>, array: Option<Span>) -> Result<View, DecodeError> {
    let mut view = View::of_array(text, array)?;
    if let Some(span) = system {
        let content = Content::read(text, span);
        if matches!(content, Content::Other(_)) {
            return Err(fault("system", "must be a string or an array of blocks"));
        }
        view.messages.insert(0, Message::new(span, Role::System, content));
    }
    Ok(view)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::wire::{ChatRequest, Dialect};

    fn decode(text: &str) -> Result<ChatRequest, DecodeError> {
        ChatRequest::decode_as(Dialect::Messages, Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn what_stands_in_system_is_the_first_message() {
        let request = decode(
            r#"{"messages":[{"role":"user","content":"hi"}],"model":"m","system":[{"type":"text","text":"be kind"}]}"#,
        )
        .unwrap();
        let roles: Vec<_> = request.messages().iter().map(|m| m.role).collect();
        assert_eq!((request.dialect(), roles), (Dialect::Messages, vec![Role::System, Role::User]));
        assert_eq!(request.message_text(&request.messages()[0]), "be kind");
        let none = decode(r#"{"model":"m","system":null,"messages":[{"role":"user","content":"hi"}]}"#).unwrap();
        assert!(matches!(none.messages()[0].content, Content::Null(_)));
    }

    #[test]
    fn faults_name_the_place() {
        let text = |body: &str| decode(body).unwrap_err().to_string();
        assert_eq!(text(r#"{"model":"m","system":"s"}"#), "`messages` is required");
        assert_eq!(text(r#"{"model":"m","system":"s","messages":[]}"#), "`messages` must not be empty");
        assert_eq!(
            text(r#"{"model":"m","system":7,"messages":[{}]}"#),
            "`system` must be a string or an array of blocks"
        );
    }
}
