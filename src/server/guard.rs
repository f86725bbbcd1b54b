//! On loopback without keys, everyone who can reach us may use us: so a web page must not (DNS rebinding).

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

use crate::base::{ErrorKind, GatewayError};

/// Refuses a `Host` that does not name loopback and an `Origin` that is not loopback's (design, section 3).
///
/// # Errors
/// 403, on every path.
pub(super) fn check(headers: &HeaderMap, uri: &Uri) -> Result<(), GatewayError> {
    let host = headers.get(HOST).map(|v| v.to_str().unwrap_or("?")).or(uri.authority().map(|a| a.as_str()));
    // HTTP/1.0 has no Host; a browser always sends one.
    if host.is_some_and(|host| !names_loopback(host)) {
        return Err(GatewayError::new(
            ErrorKind::Forbidden,
            "this gateway listens without keys and answers only to localhost, 127.0.0.1 and [::1]; configure [[keys]] to use another name",
        )
        .with_param("host"));
    }
    if let Some(origin) = headers.get(ORIGIN) {
        let authority = origin.to_str().ok().and_then(|o| o.split_once("://")).map_or("", |(_, authority)| authority);
        if !names_loopback(authority) {
            return Err(GatewayError::new(
                ErrorKind::Forbidden,
                "this gateway listens without keys and does not serve web pages of other origins; configure [[keys]]",
            )
            .with_param("origin"));
        }
    }
    Ok(())
}

/// Whether an authority (`host` or `host:port`) names this machine's loopback.
fn names_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(pairs: &[(&'static str, &'static str)]) -> bool {
        let headers: HeaderMap =
            pairs.iter().map(|(n, v)| (http::HeaderName::from_static(n), http::HeaderValue::from_static(v))).collect();
        check(&headers, &Uri::from_static("/v1/models")).is_ok()
    }

    #[test]
    fn only_loopback_names_and_origins_are_served() {
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "LOCALHOST:80", "app.localhost:1"] {
            assert!(verdict(&[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil.example:80"]
        {
            assert!(!verdict(&[("host", host)]), "{host}");
        }
        assert!(verdict(&[("host", "localhost"), ("origin", "http://localhost:3000")]));
        assert!(!verdict(&[("host", "localhost"), ("origin", "https://evil.example")]));
        assert!(!verdict(&[("host", "localhost"), ("origin", "null")]));
    }
}
