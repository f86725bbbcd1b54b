//! A provider: a host, how we authenticate to it, and its connections.

use std::fmt;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use reqwest::Url;

use super::direct::Direct;
use crate::base::{GatewayError, Secret};
use crate::exchange::{Credential, Payload};
use crate::memory::Sensitivity;

/// How long an idle connection is kept.
pub(super) const POOL_IDLE: Duration = Duration::from_secs(60);

/// How we authenticate to a provider.
#[derive(Clone, Debug)]
pub enum Auth {
    /// With the client's own key; at most one provider is of this kind.
    Client,
    /// With a key of ours.
    Key(Secret),
    /// Not at all.
    None,
}

/// What a provider is made of.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its name in config, headers and metrics.
    pub name: String,
    /// Its base URL, as in `https://api.openai.com/v1`.
    pub base_url: String,
    /// How we authenticate to it.
    pub auth: Auth,
    /// Headers added to each request.
    pub headers: HeaderMap,
    /// The most sensitive memory that may be sent there.
    pub max_sensitivity: Sensitivity,
    /// How long a connection may take to come up.
    pub connect_timeout: Duration,
}

/// A provider.
pub struct Provider {
    /// Its name.
    pub name: String,
    /// How we authenticate to it.
    pub auth: Auth,
    /// Headers added to each request.
    pub headers: HeaderMap,
    /// The most sensitive memory that may be sent there.
    pub max_sensitivity: Sensitivity,
    base: Url,
    /// The two that are always needed are kept, not parsed for each request.
    chat: Url,
    embeddings: Url,
    http: reqwest::Client,
    direct: Option<Direct>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

impl Provider {
    /// Opens a provider; connections are made when they are needed.
    ///
    /// # Errors
    /// The base URL is malformed, or TLS cannot be set up.
    pub fn new(config: ProviderConfig) -> Result<Self, GatewayError> {
        let mut base = Url::parse(&config.base_url).map_err(GatewayError::internal)?;
        // `join` replaces what stands behind the last slash.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let connect_timeout = config.connect_timeout;
        let mut http = client()
            // A redirect would carry the credentials to a host that nobody named.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(connect_timeout)
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE);
        if is_loopback(&base) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(GatewayError::internal)?;
        let ProviderConfig { name, auth, headers, max_sensitivity, .. } = config;
        let under = |path: &str| {
            let mut url = base.clone();
            url.set_path(&format!("{}{path}", base.path()));
            url
        };
        let (chat, embeddings) = (under("chat/completions"), under("embeddings"));
        let direct = Direct::new(&chat, &embeddings, connect_timeout);
        Ok(Self { name, auth, headers, max_sensitivity, base, chat, embeddings, http, direct })
    }

    /// The URL for a payload.
    #[must_use]
    pub fn url_for(&self, payload: &Payload) -> Url {
        match payload {
            Payload::Chat(_) => self.chat.clone(),
            Payload::Embeddings(_) => self.embeddings.clone(),
        }
    }

    /// The URL of chat completions.
    pub(super) fn chat_url(&self) -> Url {
        self.chat.clone()
    }

    /// The URL of embeddings.
    pub(super) fn embeddings_url(&self) -> Url {
        self.embeddings.clone()
    }

    /// The URL of a path under the base; `tail` may carry a query.
    #[must_use]
    pub fn url(&self, tail: &str) -> Option<Url> {
        let mut url = self.base.clone();
        let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
        // Appended as text, not joined: `..` or `//host` in a client's path must not leave the base.
        if path.split('/').any(|segment| matches!(segment, ".." | "." | "%2e%2e" | "%2E%2E")) {
            return None;
        }
        url.set_path(&format!("{}{path}", self.base.path()));
        url.set_query(query);
        Some(url)
    }

    /// The client over this provider's connections.
    #[must_use]
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// The short way to this provider, where there is one.
    pub(super) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }

    /// The `Authorization` value for a request, and whether it is the client's own key.
    #[must_use]
    pub fn authorization(&self, credential: &Credential) -> (Option<HeaderValue>, bool) {
        let own = matches!((&self.auth, credential), (Auth::Client, Credential::Client(_)));
        let key = self.key_for(credential);
        let value = key.and_then(|key| HeaderValue::from_str(&format!("Bearer {}", key.expose())).ok());
        (value.map(sensitive), own)
    }

    /// The key that is sent for a request with this credential; it must not show in an error that passes.
    #[must_use]
    pub fn key_for<'a>(&'a self, credential: &'a Credential) -> Option<&'a Secret> {
        match (&self.auth, credential) {
            (Auth::Client, Credential::Client(key)) => key.as_ref(),
            (Auth::Key(key), _) => Some(key),
            (Auth::Client, Credential::Virtual) | (Auth::None, _) => None,
        }
    }
}

/// Starts an HTTP client. rustls wants to be told which cryptography to use; the first call tells it.
pub(super) fn client() -> reqwest::ClientBuilder {
    // Fails when one is installed already, which is all we want.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}
