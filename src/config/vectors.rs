//! `[vectors]`: where embeddings are searched.

use std::time::Duration;

use super::provider::http_url;
use super::reader::Section;
use crate::base::Secret;
use crate::store::qdrant::{self, Isolation, Quantization};

/// `[vectors]`: the index of embeddings.
#[derive(Clone, Debug)]
pub struct Vectors {
    /// `engine`.
    pub engine: VectorsEngine,
    /// `url`: of the Qdrant server's gRPC port.
    pub url: Option<String>,
    /// `api_key`: of the Qdrant server.
    pub api_key: Option<Secret>,
    /// `tenant_isolation`: how tenants are kept apart in it.
    pub tenant_isolation: Isolation,
    /// `collection_prefix`: what the names of collections begin with.
    pub collection_prefix: String,
    /// `quantization`: how vectors are made smaller in the server's memory.
    pub quantization: Quantization,
    /// `timeout_ms`: how long an answer of the server may take. A recall waits no longer than its own deadline.
    pub timeout: Duration,
    /// `hnsw_ef`: how many candidates a search through a graph looks at; 0 = as the server thinks.
    pub hnsw_ef: u32,
}

/// Where embeddings are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorsEngine {
    /// In the process, exact within a scope.
    Embedded,
    /// In PostgreSQL.
    Pgvector,
    /// In a Qdrant server.
    Qdrant,
}

impl Default for Vectors {
    fn default() -> Self {
        Self {
            engine: VectorsEngine::Embedded,
            url: None,
            api_key: None,
            tenant_isolation: Isolation::Payload,
            collection_prefix: "backstory".to_owned(),
            quantization: Quantization::Off,
            timeout: Duration::from_secs(5),
            hnsw_ef: 0,
        }
    }
}

/// Qdrant takes names of up to 255 characters, of which hashes and what parts them take 50.
const LONGEST_PREFIX: usize = 64;

impl Vectors {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        let engine = s.choice(
            "engine",
            default.engine,
            &[
                ("embedded", VectorsEngine::Embedded),
                ("pgvector", VectorsEngine::Pgvector),
                ("qdrant", VectorsEngine::Qdrant),
            ],
        );
        if engine == VectorsEngine::Qdrant && !s.has("url") {
            s.wrong("engine", "needs `url` beside it");
        }
        if engine != VectorsEngine::Qdrant {
            for key in ["url", "api_key"].into_iter().filter(|key| s.has(key)) {
                s.wrong_secret(key, "goes with engine = \"qdrant\" only");
            }
        }
        let url = http_url(s, "url");
        if url.as_deref().is_some_and(|url| port(url).is_none()) {
            s.wrong("url", "names no port: give that of gRPC, as in \"http://127.0.0.1:6334\"");
        }
        let prefix =
            s.parsed("collection_prefix", "a name of at most 64 letters of ASCII, digits, `_` and `-`", |text| {
                is_prefix(text).then(|| text.to_owned())
            });
        Self {
            engine,
            url,
            api_key: s.secret("api_key"),
            tenant_isolation: s.choice(
                "tenant_isolation",
                default.tenant_isolation,
                &[("payload", Isolation::Payload), ("collection", Isolation::Collection)],
            ),
            collection_prefix: prefix.unwrap_or(default.collection_prefix),
            quantization: s.choice(
                "quantization",
                default.quantization,
                &[("none", Quantization::Off), ("scalar", Quantization::Scalar), ("binary", Quantization::Binary)],
            ),
            timeout: s.millis("timeout_ms", 1).unwrap_or(default.timeout),
            hnsw_ef: s.count("hnsw_ef", 0..=100_000).unwrap_or(default.hnsw_ef),
        }
    }

    /// Where the Qdrant server is and how it is used; none: another engine.
    #[must_use]
    pub fn qdrant(&self) -> Option<qdrant::Options> {
        let url = self.url.clone().filter(|_| self.engine == VectorsEngine::Qdrant)?;
        Some(qdrant::Options {
            url,
            api_key: self.api_key.clone(),
            collection_prefix: self.collection_prefix.clone(),
            isolation: self.tenant_isolation,
            quantization: self.quantization,
            timeout: self.timeout,
            hnsw_ef: (self.hnsw_ef > 0).then_some(self.hnsw_ef),
        })
    }
}

fn port(url: &str) -> Option<u16> {
    url.parse::<http::Uri>().ok()?.port_u16()
}

fn is_prefix(text: &str) -> bool {
    (1..=LONGEST_PREFIX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
