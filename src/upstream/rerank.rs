//! Asks a rerank endpoint: one small request beside those of clients, with a key of our own.
//!
//! Waits as long as its caller does, and tries once: who waits for an order is a request that is under way.

mod shape;

use async_trait::async_trait;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use reqwest::Url;

use super::attempt::root_cause;
use super::provider::{POOL_IDLE, client, is_loopback};
use super::wait::passes;
use crate::base::{GatewayError, Secret};
use crate::rerank::{Rerank, RerankError};

pub use shape::RerankKind;

/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 256 * 1024;
/// So much of one text is sent, in characters: models read the beginning.
const MAX_TEXT_CHARS: usize = 2_000;

/// A rerank endpoint.
#[derive(Debug)]
pub struct Reranking {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    kind: RerankKind,
    model: Option<String>,
}

impl Reranking {
    /// Asks at `url`, in the form of `kind`; connections are made when they are needed.
    ///
    /// # Errors
    /// The URL or the key cannot be sent, or TLS cannot be set up.
    pub fn new(url: &str, kind: RerankKind, model: Option<String>, key: Option<&Secret>) -> Result<Self, GatewayError> {
        let url = Url::parse(url).map_err(GatewayError::internal)?;
        let json = HeaderValue::from_static("application/json");
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]);
        if let Some(key) = key {
            let mut value =
                HeaderValue::from_str(&format!("Bearer {}", key.expose())).map_err(GatewayError::internal)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let mut http = client()
            // A redirect would carry the key and the memories to a host that nobody named.
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE);
        if is_loopback(&url) {
            http = http.no_proxy();
        }
        Ok(Self { http: http.build().map_err(GatewayError::internal)?, url, headers, kind, model })
    }
}

#[async_trait]
impl Rerank for Reranking {
    async fn rerank(&self, question: &str, texts: &[String]) -> Result<Vec<f64>, RerankError> {
        let texts: Vec<&str> = texts.iter().map(|text| head(text)).collect();
        let body = self.kind.question(self.model.as_deref(), question, &texts);
        let asked = self.http.post(self.url.clone()).headers(self.headers.clone()).body(body).send().await;
        let mut answer = asked.map_err(|error| RerankError::Later(root_cause(error)))?;
        let status = answer.status();
        if !status.is_success() {
            let said = format!("it answers {}", status.as_u16());
            return Err(if passes(status.as_u16()) { RerankError::Later(said) } else { RerankError::Refused(said) });
        }
        let mut bytes = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(|error| RerankError::Later(root_cause(error)))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > MAX_ANSWER_BYTES {
                return Err(RerankError::Unusable("it is larger than 256 KB".to_owned()));
            }
        }
        shape::scores(&bytes, texts.len()).map_err(RerankError::Unusable)
    }
}

fn head(text: &str) -> &str {
    text.char_indices().nth(MAX_TEXT_CHARS).map_or(text, |(end, _)| &text[..end])
}
