//! A provider: a host, how we authenticate to it, and its connections.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;

use super::api::{ANTHROPIC_VERSION, Api, ApiKind};
use super::direct::{Direct, uris};
use super::endpoints::{Deployment, Endpoints};
use super::headers::upward;
use super::keyring::Keyring;
use super::mono::{later, now_ms};
use crate::base::{GatewayError, Secret};
use crate::exchange::{Credential, Kind};
use crate::memory::Sensitivity;

/// How long an idle connection is kept.
pub(super) const POOL_IDLE: Duration = Duration::from_secs(60);

/// How we authenticate to a provider.
#[derive(Clone, Debug, PartialEq)]
pub enum Auth {
    /// With the client's own key; at most one provider is of this kind.
    Client,
    /// With keys of ours, taken in turn where there are several.
    Keys(Vec<Secret>),
    /// Not at all.
    None,
}

/// What a provider is made of.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its name in config, headers and metrics.
    pub name: String,
    /// The API that it speaks.
    pub api: Api,
    /// Its base URL, as in `https://api.openai.com/v1`; for Azure's deployments up to and including `/openai`.
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

/// What stands between us and a provider.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// What it is reached through.
    pub proxy: Proxy,
    /// Certificates (PEM) that are trusted beside those of the system; for a private CA.
    pub ca: Option<String>,
}

/// What a provider is reached through.
#[derive(Clone, Default, PartialEq)]
pub enum Proxy {
    /// What `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` say; loopback is reached directly.
    #[default]
    Environment,
    /// Nothing, whatever the environment says.
    None,
    /// This proxy, as in `http://proxy.example:3128`; user and password in the URL are sent to it.
    Url(Secret),
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "Environment",
            Self::None => "None",
            Self::Url(_) => "Url(..)",
        })
    }
}

/// A provider.
pub struct Provider {
    /// Its name.
    pub name: String,
    /// Headers added to each request.
    pub headers: HeaderMap,
    /// The most sensitive memory that may be sent there.
    pub max_sensitivity: Sensitivity,
    /// The API that it speaks.
    pub api: Api,
    base: Url,
    endpoints: Endpoints<Url>,
    http: reqwest::Client,
    direct: Option<Direct>,
    /// It is called with the client's own key; then there are none of ours.
    clients_own: bool,
    keys: Keyring,
    /// When it answered last over `http`, in monotonic milliseconds; 0 = never.
    answered_at: AtomicU64,
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
        Self::through(config, &Reach::default())
    }

    /// Opens a provider that is reached through something.
    ///
    /// # Errors
    /// As [`Provider::new`]; the proxy's URL is malformed, or a certificate cannot be read.
    pub fn through(config: ProviderConfig, reach: &Reach) -> Result<Self, GatewayError> {
        let mut base = Url::parse(&config.base_url).map_err(GatewayError::internal)?;
        // `join` replaces what stands behind the last slash.
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let connect_timeout = config.connect_timeout;
        let http = reach.apply(client(), &base)?;
        let http = http
            // A redirect would carry the credentials to a host that nobody named.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(connect_timeout)
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE)
            .build()
            .map_err(GatewayError::internal)?;
        let ProviderConfig { name, api, auth, headers, max_sensitivity, .. } = config;
        let endpoints = addresses(&base, &api, "");
        let direct = match reach.proxy {
            Proxy::Environment => Direct::new(&endpoints, connect_timeout),
            Proxy::None => Direct::past_proxies(&endpoints, connect_timeout),
            Proxy::Url(_) => None,
        };
        let clients_own = matches!(auth, Auth::Client);
        let keys = match auth {
            Auth::Keys(keys) => keys,
            Auth::Client | Auth::None => Vec::new(),
        };
        let keys = Keyring::new(keys, |key| api.credential(key));
        let answered_at = AtomicU64::new(0);
        Ok(Self { name, headers, max_sensitivity, api, base, endpoints, http, direct, clients_own, keys, answered_at })
    }

    /// The URL for a kind of request to a model.
    #[must_use]
    pub fn url_for(&self, kind: Kind, model: &str) -> Url {
        match self.api.folder(model) {
            Some(folder) => addresses(&self.base, &self.api, &folder).of(kind).clone(),
            None => self.endpoints.of(kind).clone(),
        }
    }

    /// Where requests go that no model has a part in the address of.
    pub(super) fn endpoints(&self) -> &Endpoints<Url> {
        &self.endpoints
    }

    /// Where the requests to a model go, where it has a part in the address.
    pub(super) fn deployment(&self, model: &str) -> Option<Deployment> {
        let urls = addresses(&self.base, &self.api, &self.api.folder(model)?);
        let uris = self.direct.as_ref().and_then(|_| uris(&urls));
        Some(Deployment { urls, uris })
    }

    /// Whether it wants the limit of the output by its newer name: OpenAI's own models refuse the older one, other servers may not know the newer.
    pub(super) fn wants_completion_tokens(&self) -> bool {
        matches!(self.api.kind, ApiKind::Azure { .. }) || self.base.host_str() == Some("api.openai.com")
    }

    /// The URL of a path under the base; `tail` may carry a query.
    #[must_use]
    pub fn url(&self, tail: &str) -> Option<Url> {
        let mut url = self.base.clone();
        let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
        // Appended as text, not joined: `..` or `//host` in a client's path must not leave the base.
        if climbs(path) {
            return None;
        }
        url.set_path(&format!("{}{path}", self.base.path()));
        url.set_query(query);
        if let Some(own) = self.api.query().filter(|_| !query.is_some_and(|query| query.contains("api-version="))) {
            url.set_query(Some(&query.map_or(own.clone(), |query| format!("{query}&{own}"))));
        }
        Some(url)
    }

    /// The client over this provider's connections.
    #[must_use]
    pub fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// What the GenAI conventions call it: by the API that it speaks, whoever runs it.
    pub(super) fn system(&self) -> &'static str {
        match self.api.kind {
            ApiKind::OpenAi => "openai",
            ApiKind::Azure { .. } => "azure.ai.openai",
            ApiKind::Anthropic { .. } => "anthropic",
        }
    }

    /// Its host and port.
    pub(super) fn address(&self) -> (&str, u16) {
        (self.base.host_str().unwrap_or_default(), self.base.port_or_known_default().unwrap_or_default())
    }

    /// Notes that it answered over [`Provider::http`].
    pub(super) fn answered(&self) {
        self.answered_at.store(now_ms().max(1), Ordering::Relaxed);
    }

    /// Whether a connection may be kept there: it answered within the time for which one is.
    pub(super) fn may_keep_a_connection(&self) -> bool {
        let answered_at = self.answered_at.load(Ordering::Relaxed);
        answered_at != 0 && now_ms() < later(answered_at, POOL_IDLE)
    }

    /// The short way to this provider, where there is one.
    pub(super) fn direct(&self) -> Option<&Direct> {
        self.direct.as_ref()
    }

    /// Whether it is called with the client's own key.
    pub(super) fn is_clients_own(&self) -> bool {
        self.clients_own
    }

    /// Its keys, where it is called with keys of ours.
    pub(super) fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// The headers of a request that goes past routing: what of the client's may pass, and what is ours. Of several keys the next one in turn.
    #[must_use]
    pub fn headers_for(&self, client: &HeaderMap, credential: &Credential) -> HeaderMap {
        self.headers_with(client, credential, self.keys.any(now_ms()).unwrap_or(0))
    }

    /// The headers of a request with the key at this place of the ring.
    pub(super) fn headers_with(&self, client: &HeaderMap, credential: &Credential, key: usize) -> HeaderMap {
        let (own, credential) = match credential {
            Credential::Client(own) if self.clients_own => {
                (true, own.as_ref().and_then(|own| self.api.credential(own)))
            }
            _ => (false, self.keys.header(key).cloned()),
        };
        let mut headers = upward(client, own, credential, &self.headers);
        if let ApiKind::Anthropic { version } = &self.api.kind {
            headers.entry(ANTHROPIC_VERSION).or_insert_with(|| version.clone());
        }
        headers
    }

    /// The keys that may have been sent for a request with this credential, in headers of their own too; they must not show in an error that passes.
    pub(super) fn secrets<'a>(&'a self, credential: &'a Credential) -> Vec<&'a str> {
        let own = match credential {
            Credential::Client(key) if self.clients_own => key.as_ref(),
            _ => None,
        };
        let configured =
            self.headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
        let configured = configured.flat_map(|value| [Some(value), bare_key(value)].into_iter().flatten());
        own.into_iter().chain(self.keys.secrets()).map(Secret::expose).chain(configured).collect()
    }
}

/// The addresses under a base and a folder of it.
fn addresses(base: &Url, api: &Api, folder: &str) -> Endpoints<Url> {
    let query = api.query();
    Endpoints::under(|path| {
        let mut url = base.clone();
        url.set_path(&format!("{}{folder}{path}", base.path()));
        url.set_query(query.as_deref());
        url
    })
}

/// The key behind the name of a scheme, as in `Bearer …`.
fn bare_key(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    ["bearer", "basic", "token", "key", "apikey"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known))
        .then(|| key.trim())
}

impl Reach {
    /// Has a client go that way. Loopback is never reached through a proxy that nobody configured for it.
    pub(super) fn apply(
        &self,
        client: reqwest::ClientBuilder,
        base: &Url,
    ) -> Result<reqwest::ClientBuilder, GatewayError> {
        let mut client = match &self.proxy {
            Proxy::Environment if !is_loopback(base) => client,
            Proxy::Environment | Proxy::None => client.no_proxy(),
            Proxy::Url(url) => {
                // Its errors may quote the URL, and with it a password.
                let proxy = reqwest::Proxy::all(url.expose())
                    .map_err(|_| GatewayError::internal("the proxy's URL is malformed"))?;
                client.no_proxy().proxy(proxy)
            }
        };
        if let Some(ca) = &self.ca {
            let certificates = reqwest::Certificate::from_pem_bundle(ca.as_bytes()).map_err(GatewayError::internal)?;
            if certificates.is_empty() {
                return Err(GatewayError::internal("ca_file holds no certificate"));
            }
            client = client.tls_certs_merge(certificates);
        }
        Ok(client)
    }
}

/// Starts an HTTP client. rustls wants to be told which cryptography to use; the first call tells it.
pub(super) fn client() -> reqwest::ClientBuilder {
    // Fails when one is installed already, which is all we want.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
}

pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

/// Whether a part of a path is `.` or `..`, however it is written: URLs know each dot by its escape too, and `\` as a slash, and who serves
/// a path may read escaped slashes as such.
fn climbs(path: &str) -> bool {
    let mut plain = path.replace('\\', "/");
    if plain.contains('%') {
        plain = plain.to_ascii_lowercase().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/");
    }
    plain.split('/').any(|part| matches!(part, "." | ".."))
}
