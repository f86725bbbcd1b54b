//! `[[providers]]`: where requests go.

pub(super) mod api;

use super::reader::Section;
use crate::base::Secret;
use crate::memory::Sensitivity;
use crate::upstream::{Api, Auth, MAX_KEYS, Proxy};

/// One `[[providers]]`: an upstream API. Two that are equal are reached, and paid for, alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// `name`: as targets and response headers name it.
    pub name: String,
    /// `kind`, and what belongs to it: which API it speaks, and which dialects of requests it takes as they are.
    pub api: Api,
    /// `base_url`: up to and including the version, without a slash at the end, as in `https://api.openai.com/v1`; for Azure's
    /// deployments up to and including `/openai`.
    pub base_url: String,
    /// `api_key`, or `api_keys`.
    pub api_key: Auth,
    /// `default`: it gets the models that no `[[models]]` names, under the client's own name for them.
    pub default: bool,
    /// `max_sensitivity`: memories above it are not sent to it.
    pub max_sensitivity: Sensitivity,
    /// `headers`: sent with every request; values are secrets, since some providers take keys there.
    pub headers: Vec<(String, Secret)>,
    /// `proxy`: what it is reached through.
    pub proxy: Proxy,
    /// `ca_file`: the text of a PEM file with certificates that are trusted beside those of the system.
    pub ca: Option<String>,
}

impl Default for Provider {
    /// The OpenAI API, called with the client's own key.
    fn default() -> Self {
        Self {
            name: "upstream".to_owned(),
            api: Api::default(),
            base_url: "https://api.openai.com/v1".to_owned(),
            api_key: Auth::Client,
            default: true,
            max_sensitivity: Sensitivity::Sensitive,
            headers: Vec::new(),
            proxy: Proxy::Environment,
            ca: None,
        }
    }
}

pub(super) const SENSITIVITIES: &[(&str, Sensitivity)] =
    &[("normal", Sensitivity::Normal), ("personal", Sensitivity::Personal), ("sensitive", Sensitivity::Sensitive)];

impl Provider {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        if !s.has("base_url") {
            s.wrong("base_url", "is missing: it must be an http or https URL, as in \"https://api.openai.com/v1\"");
        }
        let name = s.required("name");
        let url = http_url(s, "base_url").unwrap_or_default();
        let (api, base_url) = api::read(s, url);
        Self {
            name,
            api,
            base_url,
            api_key: read_auth(s),
            default: s.flag("default", false),
            max_sensitivity: s.choice("max_sensitivity", Sensitivity::Sensitive, SENSITIVITIES),
            headers: s.secrets("headers", header_problem),
            proxy: read_proxy(s),
            ca: read_ca(s),
        }
    }
}

fn read_auth(s: &mut Section<'_>) -> Auth {
    let (one, several) = (s.secret("api_key"), s.secret_list("api_keys", MAX_KEYS));
    if s.has("api_key") && s.has("api_keys") {
        s.wrong_secret("api_keys", "stands beside `api_key`: write all keys here, or that one alone");
    }
    match (one, several) {
        (_, Some(keys)) => {
            if keys.iter().any(|key| key.expose() == "client") {
                s.wrong_secret("api_keys", "\"client\" cannot be one of several keys: write api_key = \"client\"");
            }
            Auth::Keys(keys)
        }
        (Some(key), None) if key.expose() == "client" => Auth::Client,
        (Some(key), None) => Auth::Keys(vec![key]),
        // Reported already; it must not be reported once more as missing.
        (None, None) if s.has("api_key") || s.has("api_keys") => Auth::Keys(Vec::new()),
        (None, None) => Auth::None,
    }
}

fn read_proxy(s: &mut Section<'_>) -> Proxy {
    let schemes = ["http://", "https://", "socks5://", "socks5h://", "socks4://"];
    match s.secret("proxy") {
        None => Proxy::Environment,
        Some(word) if word.expose() == "none" => Proxy::None,
        Some(url) => {
            let known = schemes.iter().any(|scheme| url.expose().starts_with(scheme));
            if !known || reqwest::Url::parse(url.expose()).is_err() {
                let allowed = "must be \"none\" or a URL with http, https, socks4, socks5 or socks5h, as in \"http://proxy.example:3128\" (the value is not shown)";
                s.wrong_secret("proxy", allowed);
            }
            Proxy::Url(url)
        }
    }
}

fn read_ca(s: &mut Section<'_>) -> Option<String> {
    let text = s.file_text("ca_file")?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        return Some(text);
    }
    s.wrong("ca_file", "holds no certificate: it must be a PEM file with at least one `-----BEGIN CERTIFICATE-----`");
    None
}

pub(super) fn header_problem(name: &str, value: &str) -> Result<(), &'static str> {
    let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| "is not a header name")?;
    if [http::header::HOST, http::header::CONTENT_LENGTH, http::header::TRANSFER_ENCODING, http::header::CONNECTION]
        .contains(&name)
    {
        return Err("is set by the connection itself and cannot be configured");
    }
    http::HeaderValue::from_str(value).map(|_| ()).map_err(|_| "is not a header value (the value is not shown)")
}

/// Reads an `http` or `https` URL, without the slash at its end.
pub(super) fn http_url(s: &mut Section<'_>, key: &'static str) -> Option<String> {
    s.parsed(key, "an http or https URL without user, query and fragment, as in \"https://host.example/v1\"", |text| {
        parse_http_url(text)
    })
}

pub(super) fn parse_http_url(text: &str) -> Option<String> {
    let uri: http::Uri = text.parse().ok()?;
    let scheme_fits = matches!(uri.scheme_str(), Some("http" | "https"));
    let authority = uri.authority()?;
    let plain = !authority.as_str().contains('@') && uri.query().is_none() && !text.contains('#');
    (scheme_fits && plain && !authority.host().is_empty()).then(|| text.trim_end_matches('/').to_owned())
}
