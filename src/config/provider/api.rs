//! `kind` of a provider, and the keys that belong to it.

use http::HeaderValue;

use crate::config::reader::Section;
use crate::upstream::{Api, ApiKind, Dialects};
use crate::wire::Dialect;
use crate::wire::translate::Untranslatable;

/// The newest version of Azure's API that is no preview (November 2026: the dated ones ended here; what came since is at `/openai/v1`).
const AZURE_VERSION: &str = "2024-10-21";
/// The only version of Anthropic's API that is in use.
const ANTHROPIC_VERSION: &str = "2023-06-01";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    OpenAi,
    Azure,
    Anthropic,
}

/// Reads the API of a provider, and its base URL in the form in which paths are put behind it.
pub(super) fn read(s: &mut Section<'_>, url: String) -> (Api, String) {
    let words = [("openai", Word::OpenAi), ("azure", Word::Azure), ("anthropic", Word::Anthropic)];
    let word = s.choice("kind", Word::OpenAi, &words);
    let azure = s.parsed("api_version", "a version of Azure's API, as in \"2024-10-21\" or \"preview\"", azure_version);
    let anthropic = s.parsed("anthropic_version", "a date, as in \"2023-06-01\"", date);
    if s.has("api_version") && word != Word::Azure {
        s.wrong("api_version", "belongs to kind = \"azure\" alone");
    }
    if s.has("anthropic_version") && word != Word::Anthropic {
        s.wrong("anthropic_version", "belongs to kind = \"anthropic\" alone");
    }
    let (kind, url) = match word {
        Word::OpenAi => (ApiKind::OpenAi, url),
        Word::Azure => azure_kind(s, url, azure),
        Word::Anthropic => {
            let version = anthropic.and_then(|version| HeaderValue::from_str(&version).ok());
            let version = version.unwrap_or(HeaderValue::from_static(ANTHROPIC_VERSION));
            if url.ends_with("/messages") {
                s.wrong("base_url", "must end before `/messages`, as in \"https://api.anthropic.com/v1\"");
            }
            (ApiKind::Anthropic { version }, url)
        }
    };
    let own = match &kind {
        ApiKind::Anthropic { .. } => Dialects::MESSAGES,
        // A deployment's address is one of chat completions.
        ApiKind::Azure { deployments: true, .. } => Dialects::CHAT,
        ApiKind::OpenAi | ApiKind::Azure { .. } => Dialects::OPENAI,
    };
    let policies = [("drop", Untranslatable::Drop), ("refuse", Untranslatable::Refuse)];
    let untranslatable = s.choice("untranslatable", Untranslatable::default(), &policies);
    (Api { kind, dialects: dialects(s, own), untranslatable }, url)
}

/// Azure has two kinds of address: `/openai/v1`, as OpenAI's own, and one for each deployment.
fn azure_kind(s: &Section<'_>, mut url: String, version: Option<String>) -> (ApiKind, String) {
    let path = url.parse::<http::Uri>().map(|uri| uri.path().trim_end_matches('/').to_owned()).unwrap_or_default();
    if path.ends_with("/openai/v1") {
        return (ApiKind::Azure { version, deployments: false }, url);
    }
    if path.contains("/deployments") {
        s.wrong("base_url", "must end before `/deployments`: the deployment is the `model` of a target");
    } else if path.is_empty() {
        url.push_str("/openai");
    } else if !path.ends_with("/openai") {
        let problem = "has a path that Azure does not have: it must end with the host, with \"/openai\" (deployments) or with \"/openai/v1\"";
        s.wrong("base_url", problem);
    }
    (ApiKind::Azure { version: Some(version.unwrap_or_else(|| AZURE_VERSION.to_owned())), deployments: true }, url)
}

fn dialects(s: &mut Section<'_>, own: Dialects) -> Dialects {
    let words = [("chat", Dialect::Chat), ("messages", Dialect::Messages), ("responses", Dialect::Responses)];
    let Some(taken) = s.choices("dialects", &words) else { return own };
    if taken.is_empty() {
        s.wrong("dialects", "must name at least one: \"chat\", \"messages\" or \"responses\"");
    }
    let has = |dialect| taken.contains(&dialect);
    Dialects { chat: has(Dialect::Chat), messages: has(Dialect::Messages), responses: has(Dialect::Responses) }
}

/// The API of a host that is named on the command line alone.
pub(in crate::config) fn of_host(url: &str) -> Option<Api> {
    let uri: http::Uri = url.parse().ok()?;
    let kind = ApiKind::Anthropic { version: HeaderValue::from_static(ANTHROPIC_VERSION) };
    (uri.host()? == "api.anthropic.com").then(|| Api { kind, dialects: Dialects::MESSAGES, ..Api::default() })
}

fn date(text: &str) -> Option<String> {
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = text.splitn(3, '-');
    let is_date = digits(parts.next()?, 4) && digits(parts.next()?, 2) && digits(parts.next()?, 2);
    is_date.then(|| text.to_owned())
}

fn azure_version(text: &str) -> Option<String> {
    let is_known = matches!(text, "v1" | "latest" | "preview");
    let dated = date(text.strip_suffix("-preview").unwrap_or(text));
    (is_known || dated.is_some()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_dates_or_words() {
        for text in ["2024-10-21", "2025-04-01-preview", "preview", "latest", "v1"] {
            assert_eq!(azure_version(text).as_deref(), Some(text));
        }
        for text in ["", "2024", "2024-1-1", "24-10-21", "2024-10-21&x=1", "2024-10-21-beta", "v2"] {
            assert_eq!(azure_version(text), None, "{text}");
        }
        assert_eq!(date("2023-06-01-preview"), None);
    }

    #[test]
    fn a_host_that_is_named_alone_tells_its_api() {
        assert_eq!(of_host("https://api.anthropic.com/v1").map(|api| api.dialects), Some(Dialects::MESSAGES));
        assert_eq!(of_host("https://api.openai.com/v1"), None);
        assert_eq!(of_host("not a url"), None);
    }
}
