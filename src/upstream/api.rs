//! Which API a provider speaks, and what hangs on it: the header of its key, its addresses, the dialects that it takes.

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};

use crate::base::Secret;
use crate::wire::Dialect;
use crate::wire::translate::Untranslatable;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const API_KEY: HeaderName = HeaderName::from_static("api-key");
/// Of Anthropic's API; without it a request is refused.
pub(super) const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// What tokens begin with that a person was given by logging in, as Claude Code's users do; those are no keys to Anthropic.
const OAUTH_TOKEN: &str = "sk-ant-oat";

/// The API of a provider, and what is done with requests that are written for another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// Whose it is.
    pub kind: ApiKind,
    /// The dialects that it takes as they are; a request in another one is translated.
    pub dialects: Dialects,
    /// What is done with what a translation cannot carry over.
    pub untranslatable: Untranslatable,
}

/// Whose API it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKind {
    /// OpenAI's, or compatible with it.
    OpenAi,
    /// OpenAI's as Azure serves it.
    Azure {
        /// `api-version` of each request; with the paths of deployments always there.
        version: Option<String>,
        /// The model is named in the path, as a deployment, and not by the body alone.
        deployments: bool,
    },
    /// Anthropic's.
    Anthropic {
        /// `anthropic-version` of a request that names none itself.
        version: HeaderValue,
    },
}

/// A set of dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialects {
    /// Chat completions.
    pub chat: bool,
    /// Anthropic's messages.
    pub messages: bool,
    /// OpenAI's responses; these are not translated.
    pub responses: bool,
}

impl Default for Api {
    /// OpenAI's own.
    fn default() -> Self {
        Self { kind: ApiKind::OpenAi, dialects: Dialects::OPENAI, untranslatable: Untranslatable::default() }
    }
}

impl Dialects {
    /// Chat completions alone.
    pub const CHAT: Self = Self { chat: true, messages: false, responses: false };
    /// Anthropic's messages alone.
    pub const MESSAGES: Self = Self { chat: false, messages: true, responses: false };
    /// What OpenAI takes.
    pub const OPENAI: Self = Self { responses: true, ..Self::CHAT };

    /// Whether a dialect is among them.
    #[must_use]
    pub fn has(self, dialect: Dialect) -> bool {
        match dialect {
            Dialect::Chat => self.chat,
            Dialect::Messages => self.messages,
            Dialect::Responses => self.responses,
        }
    }
}

impl Api {
    /// The dialect in which a request of a client is sent there: the client's own where that is taken; `None` = there is none that
    /// it could be translated to.
    pub(super) fn speaks(&self, client: Dialect) -> Option<Dialect> {
        let others: &[Dialect] = match client {
            Dialect::Chat => &[Dialect::Messages],
            Dialect::Messages => &[Dialect::Chat],
            Dialect::Responses => &[],
        };
        [client].iter().chain(others).copied().find(|dialect| self.dialects.has(*dialect))
    }

    /// Whether it has embeddings.
    pub(super) fn embeds(&self) -> bool {
        !matches!(self.kind, ApiKind::Anthropic { .. })
    }

    /// The header that carries a key, with the key in it; `None` when the key cannot be a header.
    pub(super) fn credential(&self, key: &Secret) -> Option<(HeaderName, HeaderValue)> {
        let key = key.expose();
        let (name, value) = match self.kind {
            ApiKind::Azure { .. } => (API_KEY, HeaderValue::from_str(key)),
            ApiKind::Anthropic { .. } if !key.starts_with(OAUTH_TOKEN) => (X_API_KEY, HeaderValue::from_str(key)),
            ApiKind::OpenAi | ApiKind::Anthropic { .. } => {
                (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {key}")))
            }
        };
        let mut value = value.ok()?;
        value.set_sensitive(true);
        Some((name, value))
    }

    /// The query of each address.
    pub(super) fn query(&self) -> Option<String> {
        match &self.kind {
            ApiKind::Azure { version: Some(version), .. } => Some(format!("api-version={version}")),
            ApiKind::OpenAi | ApiKind::Azure { .. } | ApiKind::Anthropic { .. } => None,
        }
    }

    /// The part of the path that names a model, below the base, where the API has one.
    pub(super) fn folder(&self, model: &str) -> Option<String> {
        match self.kind {
            ApiKind::Azure { deployments: true, .. } => Some(format!("deployments/{}/", path_segment(model))),
            ApiKind::OpenAi | ApiKind::Azure { .. } | ApiKind::Anthropic { .. } => None,
        }
    }
}

/// A text as one segment of a path. A name of dots alone would lead elsewhere, so it is escaped too.
fn path_segment(text: &str) -> String {
    let only_dots = text.bytes().all(|byte| byte == b'.');
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') || (byte == b'.' && !only_dots) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(kind: ApiKind, dialects: Dialects) -> Api {
        Api { kind, dialects, ..Api::default() }
    }

    #[test]
    fn a_request_stays_in_its_dialect_where_that_is_taken() {
        use Dialect::{Chat, Messages, Responses};
        let all = Dialects { chat: true, messages: true, responses: true };
        let none = Dialects { chat: false, messages: false, responses: false };
        for (dialects, spoken) in [
            (Dialects::CHAT, [Some(Chat), Some(Chat), None]),
            (Dialects::OPENAI, [Some(Chat), Some(Chat), Some(Responses)]),
            (Dialects::MESSAGES, [Some(Messages), Some(Messages), None]),
            (all, [Some(Chat), Some(Messages), Some(Responses)]),
            (none, [None; 3]),
        ] {
            let api = api(ApiKind::OpenAi, dialects);
            assert_eq!([Chat, Messages, Responses].map(|client| api.speaks(client)), spoken);
        }
    }

    #[test]
    fn keys_go_where_each_api_looks_for_them() {
        let anthropic = ApiKind::Anthropic { version: HeaderValue::from_static("2023-06-01") };
        let azure = ApiKind::Azure { version: None, deployments: true };
        for (kind, key, name, value) in [
            (ApiKind::OpenAi, "k-1", "authorization", "Bearer k-1"),
            (azure, "k-1", "api-key", "k-1"),
            (anthropic.clone(), "k-1", "x-api-key", "k-1"),
            (anthropic, "sk-ant-oat01-x", "authorization", "Bearer sk-ant-oat01-x"),
        ] {
            let api = api(kind, Dialects::CHAT);
            let (found, header) = api.credential(&Secret::from(key)).unwrap();
            assert_eq!((found.as_str(), header.to_str().unwrap()), (name, value));
            assert!(header.is_sensitive());
            assert!(api.credential(&Secret::from("a\nb")).is_none());
        }
    }

    #[test]
    fn a_deployment_is_one_segment_whatever_it_is_called() {
        assert_eq!(path_segment("gpt-4o.mini_1"), "gpt-4o.mini_1");
        assert_eq!(path_segment("../a?b#c d"), "..%2Fa%3Fb%23c%20d");
        assert_eq!(path_segment(".."), "%2E%2E");
    }
}
