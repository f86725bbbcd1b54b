//! `[[providers]]` and `[[models]]`: where requests go.

use super::limit_rules::read_limits;
use super::limits::BudgetChanges;
use super::reader::Section;
use crate::base::Secret;
use crate::exchange::Limits;
use crate::memory::Sensitivity;
use crate::tokens::{PriceChanges, Rate};

/// One `[[providers]]`: an upstream API.
#[derive(Clone, Debug)]
pub struct Provider {
    /// `name`: as targets and response headers name it.
    pub name: String,
    /// `kind`: which API it speaks.
    pub kind: ProviderKind,
    /// `base_url`: up to and including the version, without a slash at the end, as in `https://api.openai.com/v1`.
    pub base_url: String,
    /// `api_key`.
    pub api_key: ProviderKey,
    /// `default`: it gets the models that no `[[models]]` names, under the client's own name for them.
    pub default: bool,
    /// `max_sensitivity`: memories above it are not sent to it.
    pub max_sensitivity: Sensitivity,
    /// `headers`: sent with every request; values are secrets, since some providers take keys there.
    pub headers: Vec<(String, Secret)>,
}

/// Which API a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// OpenAI's, or compatible with it.
    OpenAi,
    /// Azure's form of it.
    Azure,
    /// Anthropic's.
    Anthropic,
}

/// The key that a provider is called with.
#[derive(Clone, Debug)]
pub enum ProviderKey {
    /// `"client"`: the client's own key is passed on.
    Client,
    /// A key of ours.
    Own(Secret),
    /// None at all, as for a local model.
    None,
}

impl Default for Provider {
    /// The OpenAI API, called with the client's own key.
    fn default() -> Self {
        Self {
            name: "upstream".to_owned(),
            kind: ProviderKind::OpenAi,
            base_url: "https://api.openai.com/v1".to_owned(),
            api_key: ProviderKey::Client,
            default: true,
            max_sensitivity: Sensitivity::Sensitive,
            headers: Vec::new(),
        }
    }
}

pub(super) const SENSITIVITIES: &[(&str, Sensitivity)] =
    &[("normal", Sensitivity::Normal), ("personal", Sensitivity::Personal), ("sensitive", Sensitivity::Sensitive)];

impl Provider {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let kinds =
            [("openai", ProviderKind::OpenAi), ("azure", ProviderKind::Azure), ("anthropic", ProviderKind::Anthropic)];
        if !s.has("base_url") {
            s.wrong("base_url", "is missing: it must be an http or https URL, as in \"https://api.openai.com/v1\"");
        }
        Self {
            name: s.required("name"),
            kind: s.choice("kind", ProviderKind::OpenAi, &kinds),
            base_url: http_url(s, "base_url").unwrap_or_default(),
            api_key: match s.secret("api_key") {
                // Reported already; it must not be reported once more as missing.
                None if s.has("api_key") => ProviderKey::Own(Secret::from("")),
                None => ProviderKey::None,
                Some(key) if key.expose() == "client" => ProviderKey::Client,
                Some(key) => ProviderKey::Own(key),
            },
            default: s.flag("default", false),
            max_sensitivity: s.choice("max_sensitivity", Sensitivity::Sensitive, SENSITIVITIES),
            headers: s.secrets("headers", header_problem),
        }
    }
}

fn header_problem(name: &str, value: &str) -> Result<(), &'static str> {
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

/// One `[[models]]`: a name that clients ask for, and what is behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// `name`.
    pub name: String,
    /// `[[models.targets]]`; never empty.
    pub targets: Vec<Target>,
    /// `[models.budget]`: what it changes of `[budget]`.
    pub budget: BudgetChanges,
    /// `[models.limits]`: of all who ask for it together.
    pub limits: Limits,
}

/// One `[[models.targets]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `provider`: by name.
    pub provider: String,
    /// `model`: upstream's name for it.
    pub model: String,
    /// `weight`: its share among targets of the same order; 0 = only as a fallback.
    pub weight: u32,
    /// `order`: lower ones are tried first.
    pub order: u32,
    /// `window`: tokens that input and output may take together; none = from the table of known models.
    pub window: Option<u32>,
    /// `max_output`: the most output tokens; none = from the table of known models.
    pub max_output: Option<u32>,
    /// `price_…_per_million`: what tokens cost, in US dollars; none = from the table of known models.
    pub price: PriceChanges,
    /// `price_date`: when the prices were read, for people.
    pub price_date: Option<String>,
}

impl Model {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let name = s.required("name");
        let targets = s.tables("targets", Target::read);
        if targets.is_empty() {
            s.wrong_secret("targets", "at least one [[models.targets]] is needed");
        } else if targets.iter().all(|target| target.weight == 0) {
            s.wrong_secret("targets", "all weights are 0: at least one must be larger");
        }
        let limits = s.table("limits", read_limits);
        Self { name, targets, budget: s.table("budget", BudgetChanges::read), limits }
    }
}

impl Target {
    fn read(s: &mut Section<'_>) -> Self {
        Self {
            provider: s.required("provider"),
            model: s.required("model"),
            weight: s.count("weight", 0..=1_000_000).unwrap_or(1),
            order: s.count("order", 0..=1_000).unwrap_or(0),
            window: s.count("window", 1..=100_000_000),
            max_output: s.count("max_output", 1..=100_000_000),
            price: PriceChanges {
                input: rate(s, "price_input_per_million"),
                cached: rate(s, "price_cached_per_million"),
                cache_write: rate(s, "price_cache_write_per_million"),
                output: rate(s, "price_output_per_million"),
                reasoning: rate(s, "price_reasoning_per_million"),
            },
            price_date: s.name("price_date"),
        }
    }
}

/// A price; what is absent or wrong (which was reported) is none.
fn rate(s: &mut Section<'_>, key: &'static str) -> Option<Rate> {
    Rate::per_million(s.number(key, f64::NAN, 0.0..=Rate::MAX_DOLLARS)).ok()
}
