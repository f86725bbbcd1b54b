//! Where under a provider's base each kind of request goes.

use http::Uri;
use reqwest::Url;

use crate::exchange::Kind;
use crate::wire::Dialect;

/// Where the requests of one target go, where its model is a part of the address.
#[derive(Debug)]
pub(super) struct Deployment {
    pub(super) urls: Endpoints<Url>,
    /// For the short way, where there is one.
    pub(super) uris: Option<Endpoints<Uri>>,
}

/// One address for each kind of request; they are always needed, so they are kept and not put together for each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoints<U> {
    chat: U,
    messages: U,
    responses: U,
    embeddings: U,
}

impl<U> Endpoints<U> {
    /// Makes an address of each path under the base.
    pub(super) fn under(address: impl Fn(&str) -> U) -> Self {
        Self {
            chat: address(Dialect::Chat.path()),
            messages: address(Dialect::Messages.path()),
            responses: address(Dialect::Responses.path()),
            embeddings: address("embeddings"),
        }
    }

    /// Writes all of them another way; `None` when one cannot be.
    pub(super) fn try_map<V>(&self, write: impl Fn(&U) -> Option<V>) -> Option<Endpoints<V>> {
        Some(Endpoints {
            chat: write(&self.chat)?,
            messages: write(&self.messages)?,
            responses: write(&self.responses)?,
            embeddings: write(&self.embeddings)?,
        })
    }

    /// Where a kind of request goes.
    pub(super) fn of(&self, kind: Kind) -> &U {
        match kind {
            Kind::Chat(Dialect::Chat) => &self.chat,
            Kind::Chat(Dialect::Messages) => &self.messages,
            Kind::Chat(Dialect::Responses) => &self.responses,
            Kind::Embeddings => &self.embeddings,
        }
    }
}
