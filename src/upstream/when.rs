//! Which requests a target takes: the conditions of `[[models.targets]] when`.

use crate::exchange::Payload;
use crate::wire::{ChatRequest, Content, PartKind, scan};

/// Conditions of a target; all that are set must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// Requests that offer tools (`true`), or that do not (`false`).
    pub tools: Option<bool>,
    /// Requests with images, or without.
    pub images: Option<bool>,
    /// Streams, or whole replies.
    pub stream: Option<bool>,
    /// Requests of at least so many tokens of input, as we count them.
    pub min_input_tokens: Option<usize>,
    /// Requests of at most so many.
    pub max_input_tokens: Option<usize>,
}

/// What of a request conditions ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// It offers tools.
    pub tools: bool,
    /// It has images.
    pub images: bool,
    /// It wants a stream.
    pub stream: bool,
    /// Its tokens of input, where someone asked for them.
    pub input_tokens: usize,
}

impl Traits {
    /// Reads a request; its tokens are not counted here.
    #[must_use]
    pub fn of(payload: &Payload) -> Self {
        let Some(chat) = payload.chat() else { return Self::default() };
        Self { tools: offers_tools(chat), images: has_images(chat), stream: chat.stream(), input_tokens: 0 }
    }
}

/// An empty list offers nothing.
fn offers_tools(chat: &ChatRequest) -> bool {
    ["tools", "functions"]
        .into_iter()
        .any(|key| chat.get_span(key).is_some_and(|span| scan::elements(chat.text(), span).next().is_some()))
}

fn has_images(chat: &ChatRequest) -> bool {
    let with_parts = chat.messages().iter().filter(|message| matches!(message.content, Content::Parts(_)));
    with_parts
        .flat_map(|message| chat.parts(message))
        .any(|part| matches!(part.kind, PartKind::Image { .. } | PartKind::ImageData(_)))
}

impl When {
    /// Whether every request is taken.
    #[must_use]
    pub fn is_always(&self) -> bool {
        *self == Self::default()
    }

    /// Whether tokens have to be counted to know.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.min_input_tokens.is_some() || self.max_input_tokens.is_some()
    }

    /// Whether a request is taken.
    #[must_use]
    pub fn takes(&self, traits: &Traits) -> bool {
        self.tools.is_none_or(|tools| tools == traits.tools)
            && self.images.is_none_or(|images| images == traits.images)
            && self.stream.is_none_or(|stream| stream == traits.stream)
            && self.min_input_tokens.is_none_or(|min| traits.input_tokens >= min)
            && self.max_input_tokens.is_none_or(|max| traits.input_tokens <= max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn traits(members: &str) -> Traits {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}]{members}}}"#);
        Traits::of(&Payload::Chat(ChatRequest::decode(Bytes::from(body)).unwrap()))
    }

    #[test]
    fn a_request_is_read() {
        assert_eq!(traits(""), Traits::default());
        assert!(traits(r#","stream":true"#).stream);
        assert!(traits(r#","tools":[{"type":"function"}]"#).tools && traits(r#","functions":[{}]"#).tools);
        assert!(!traits(r#","tools":[]"#).tools && !traits(r#","tools":null"#).tools);
        let parts = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"http://i"}}]}]}"#;
        assert!(Traits::of(&Payload::Chat(ChatRequest::decode(Bytes::from(parts)).unwrap())).images);
    }

    #[test]
    fn all_conditions_must_hold() {
        let plain = Traits { input_tokens: 100, ..Traits::default() };
        let tools = Traits { tools: true, ..plain };
        assert!(When::default().takes(&plain) && When::default().is_always());
        let when = When { tools: Some(true), max_input_tokens: Some(100), ..When::default() };
        assert!(when.takes(&tools) && !when.takes(&plain) && when.counts());
        assert!(!when.takes(&Traits { input_tokens: 101, ..tools }));
        let when = When { images: Some(false), stream: Some(false), min_input_tokens: Some(100), ..When::default() };
        assert!(when.takes(&plain) && !when.takes(&Traits { images: true, ..plain }));
        assert!(!when.takes(&Traits { stream: true, ..plain }) && !when.takes(&Traits { input_tokens: 99, ..plain }));
    }
}
