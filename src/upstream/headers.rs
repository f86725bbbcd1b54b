//! What may pass in either direction: allow lists, so that what we do not know stays where it is.

use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    LAST_MODIFIED, LOCATION, RANGE, RETRY_AFTER, USER_AGENT,
};

use super::provider::Provider;
use crate::exchange::Credential;
use crate::telemetry::trace_context;

/// Request headers that any upstream may see.
const UP: [HeaderName; 9] = [
    ACCEPT,
    CONTENT_TYPE,
    USER_AGENT,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("openai-beta"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
    // A trace goes on behind us; where we take part in it, the attempt's span takes the place of the client's.
    trace_context::TRACEPARENT,
    trace_context::TRACESTATE,
];

/// Request headers that belong to the client's own account: they go only where its own key goes.
const UP_WITH_CLIENT_KEY: [HeaderName; 2] =
    [HeaderName::from_static("openai-organization"), HeaderName::from_static("openai-project")];

/// Reply headers that the client may see.
const DOWN: [HeaderName; 6] =
    [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_DISPOSITION, RETRY_AFTER];

/// What a request that is passed through may say besides: of which version, and which part of it.
const UP_PASSING: [HeaderName; 4] = [RANGE, IF_RANGE, IF_NONE_MATCH, IF_MODIFIED_SINCE];

/// What its answer may say besides: which part of what it is, and where it is instead.
const DOWN_PASSING: [HeaderName; 5] = [CONTENT_RANGE, ACCEPT_RANGES, ETAG, LAST_MODIFIED, LOCATION];

/// Prefixes of reply headers that the client may see.
const DOWN_PREFIXES: [&str; 4] = ["openai-", "anthropic-", "x-ratelimit-", "retry-after"];

/// Where upstream names a request; the second is Anthropic's.
const REQUEST_IDS: [HeaderName; 2] = [HeaderName::from_static("x-request-id"), HeaderName::from_static("request-id")];
const UPSTREAM_REQUEST_ID: HeaderName = HeaderName::from_static("x-upstream-request-id");
/// So many headers of ours come to a reply, about.
const OURS: usize = 8;

/// Builds the headers of an upstream request. `credential` is the target's own, in the header where it looks for it. They name the span that this task is in,
/// where spans are exported.
#[must_use]
pub(super) fn upward(
    client: &HeaderMap,
    own_key: bool,
    credential: Option<(HeaderName, HeaderValue)>,
    extra: &HeaderMap,
) -> HeaderMap {
    let mut out = HeaderMap::with_capacity(UP.len() + extra.len() + 3);
    for name in UP.iter().chain(own_key.then_some(&UP_WITH_CLIENT_KEY).into_iter().flatten()) {
        for value in client.get_all(name) {
            out.append(name.clone(), value.clone());
        }
    }
    // What comes back is to be read by us and passed on as it is.
    out.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some((name, value)) = credential {
        out.insert(name, value);
    }
    trace_context::inject(&mut out);
    for (name, value) in extra {
        out.insert(name.clone(), value.clone());
    }
    out
}

/// The headers of a request of our own: no client stands behind it, so a provider that takes the client's key gets none.
pub(super) fn ours(provider: &Provider) -> HeaderMap {
    let json = HeaderValue::from_static("application/json");
    let own = [(CONTENT_TYPE, json.clone()), (ACCEPT, json)].into_iter().collect();
    let mut sent = provider.headers_for(&own, &Credential::Virtual);
    // Should the provider be a gateway like this one, it is not to learn from it.
    sent.insert(HeaderName::from_static("x-backstory-memory"), HeaderValue::from_static("off"));
    sent
}

/// Picks the reply headers that the client may see; upstream's request id goes under a name of its own.
#[must_use]
pub(super) fn downward(upstream: &HeaderMap) -> HeaderMap {
    // With room for what is said of ourselves.
    let mut out = HeaderMap::with_capacity(upstream.len() + OURS);
    for (name, value) in upstream {
        // What says how to read the body is said once: of two that contradict each other the first holds, for us and for the client.
        if DOWN.contains(name) {
            out.entry(name).or_insert_with(|| value.clone());
        } else if DOWN_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix)) {
            out.append(name.clone(), value.clone());
        }
    }
    if let Some(id) = REQUEST_IDS.iter().find_map(|name| upstream.get(name)) {
        out.insert(UPSTREAM_REQUEST_ID, id.clone());
    }
    out
}

/// Adds to the headers of an upstream request what one that is passed through may say besides.
pub(super) fn add_passing(client: &HeaderMap, sent: &mut HeaderMap) {
    copy(&UP_PASSING, client, sent);
}

/// The reply headers that the client may see of what is passed through.
pub(super) fn downward_passing(upstream: &HeaderMap) -> HeaderMap {
    let mut out = downward(upstream);
    copy(&DOWN_PASSING, upstream, &mut out);
    out
}

fn copy(names: &[HeaderName], from: &HeaderMap, to: &mut HeaderMap) {
    for name in names {
        if let Some(value) = from.get(name) {
            to.insert(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::AUTHORIZATION;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    /// NVIDIA-NeMo/Switchyard#410; agentgateway/agentgateway#3098; BerriAI/litellm PR#37058.
    #[test]
    fn credentials_and_private_headers_stay_with_us() {
        let client = map(&[
            ("authorization", "Bearer vk"),
            ("api-key", "vk"),
            ("cookie", "session=1"),
            ("x-internal-token", "t"),
            ("x-backstory-user", "u"),
            ("x-forwarded-for", "10.0.0.1"),
            ("accept-encoding", "gzip, br"),
            ("openai-organization", "org"),
            ("content-type", "application/json"),
        ]);
        let credential = (AUTHORIZATION, HeaderValue::from_static("Bearer up"));
        let sent = upward(&client, false, Some(credential), &HeaderMap::new());
        assert_eq!(
            sent,
            map(&[
                ("content-type", "application/json"),
                ("accept-encoding", "identity"),
                ("authorization", "Bearer up")
            ])
        );
        assert!(upward(&client, true, None, &HeaderMap::new()).contains_key("openai-organization"));
    }

    #[test]
    fn rate_limits_and_timing_reach_the_client_and_cookies_do_not() {
        let upstream = map(&[
            ("content-type", "application/json"),
            ("x-ratelimit-remaining-requests", "9"),
            ("openai-processing-ms", "12"),
            ("retry-after-ms", "100"),
            ("x-request-id", "req_up"),
            ("set-cookie", "a=b"),
            ("server", "cloud"),
            ("connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
        ]);
        assert_eq!(
            downward(&upstream),
            map(&[
                ("content-type", "application/json"),
                ("x-ratelimit-remaining-requests", "9"),
                ("openai-processing-ms", "12"),
                ("retry-after-ms", "100"),
                ("x-upstream-request-id", "req_up"),
            ])
        );
    }
}
