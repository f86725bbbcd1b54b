//! The short way to a provider: hyper's own client, for `http://` hosts that no proxy stands before.
//!
//! Inference servers of one's own are reached like that, and there the general machinery of `reqwest` (redirects, retries, URLs parsed anew, boxed
//! bodies) costs as much as all else that we do for a request. TLS and proxies stay with `reqwest`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderValue};
use http::{Method, Request, Uri};
use http_body_util::Full;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector, capture_connection};
use hyper_util::client::legacy::{Client, ResponseFuture};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reqwest::Url;
use tokio::net::TcpStream;
use tower::ServiceExt;
use tower::util::MapResponse;

use super::endpoints::Endpoints;
use super::line::Noted;
use super::provider::{POOL_IDLE, is_loopback};
use crate::exchange::Kind;

type Connector = MapResponse<HttpConnector, fn(TokioIo<TcpStream>) -> TokioIo<Noted>>;

/// A provider's plain connections, and where each kind of request goes.
pub(super) struct Direct {
    client: Client<Connector, Full<Bytes>>,
    endpoints: Endpoints<Uri>,
    host: HeaderValue,
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Direct").field("host", &self.host).finish_non_exhaustive()
    }
}

impl Direct {
    /// The short way to these URLs; `None` where it cannot be taken.
    pub(super) fn new(endpoints: &Endpoints<Url>, connect_timeout: Duration) -> Option<Self> {
        let chat = endpoints.of(Kind::CHAT);
        let proxied = || Matcher::from_env().intercept(&chat.as_str().parse().ok()?);
        if !is_loopback(chat) && proxied().is_some() {
            return None;
        }
        Self::past_proxies(endpoints, connect_timeout)
    }

    /// The same, whatever proxies the environment names.
    pub(super) fn past_proxies(endpoints: &Endpoints<Url>, connect_timeout: Duration) -> Option<Self> {
        // All stand under one base, so any of them tells the host.
        let chat = endpoints.of(Kind::CHAT);
        // What stands before the host becomes a header of its own, which `reqwest` knows how to make.
        if chat.scheme() != "http" || !chat.username().is_empty() || chat.password().is_some() {
            return None;
        }
        let endpoints = uris(endpoints)?;
        let host = match (chat.host_str()?, chat.port()) {
            (host, Some(port)) => HeaderValue::from_str(&format!("{host}:{port}")),
            (host, None) => HeaderValue::from_str(host),
        };
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout).filter(|timeout| !timeout.is_zero()));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .build(connector.map_response(Noted::new as fn(_) -> _));
        Some(Self { client, endpoints, host: host.ok()? })
    }

    /// Where each kind of request goes.
    pub(super) fn endpoints(&self) -> &Endpoints<Uri> {
        &self.endpoints
    }

    /// Posts a body to an address on the host; the future is ready when the header of the answer is here. Beside it is which connection it goes to.
    pub(super) fn post(&self, uri: Uri, mut headers: HeaderMap, body: Bytes) -> (ResponseFuture, CaptureConnection) {
        headers.insert(HOST, self.host.clone());
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let connection = capture_connection(&mut request);
        (self.client.request(request), connection)
    }
}

/// The same addresses for the short way; `None` when one cannot be written so.
pub(super) fn uris(urls: &Endpoints<Url>) -> Option<Endpoints<Uri>> {
    urls.try_map(|url| url.as_str().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Dialect;

    fn direct(base: &str) -> Option<Direct> {
        let endpoints = Endpoints::under(|path| Url::parse(&format!("{base}{path}")).unwrap());
        Direct::new(&endpoints, Duration::from_secs(1))
    }

    #[tokio::test]
    async fn only_plain_hosts_are_reached_directly() {
        let plain = direct("http://127.0.0.1:8000/v1/").unwrap();
        assert_eq!(plain.host, "127.0.0.1:8000");
        let of = |kind| plain.endpoints.of(kind).to_string();
        assert_eq!(of(Kind::CHAT), "http://127.0.0.1:8000/v1/chat/completions");
        assert_eq!(of(Kind::Chat(Dialect::Messages)), "http://127.0.0.1:8000/v1/messages");
        assert_eq!(of(Kind::Embeddings), "http://127.0.0.1:8000/v1/embeddings");
        assert_eq!(direct("http://[::1]/v1/").unwrap().host, "[::1]");
        assert!(direct("https://api.openai.com/v1/").is_none());
        assert!(direct("http://user:word@127.0.0.1/v1/").is_none());
    }
}
