//! Asks a provider's `/embeddings` for vectors, with a key of our own.
//!
//! As [`super::ModelAsker`] it goes to the provider itself, past our own stack. `batch` cuts the texts into requests, `answer` reads what
//! comes, `refusal` says what an error means: of those only the code and the number are told, since the sentence may quote a memory.

mod answer;
mod batch;
mod refusal;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::json;

use super::attempt::{self, AttemptError};
use super::body::BodyLimits;
use super::headers;
use super::health::{Failed, Health, State};
use super::mono::now_ms;
use super::provider::Provider;
use crate::ask::estimate_tokens;
use crate::base::{Clock, Random};
use crate::embed::{Embed, EmbedError, Generation, Side};
use crate::exchange::Credential;
use refusal::Failure;

/// Of a text no more is sent, in estimated tokens: what OpenAI's models read, less a margin for the estimate. A smaller limit is learned.
const LONGEST_TEXT: u64 = 8_000;
/// A text that is too long is shortened so many times, to a half each.
const SHORTENINGS: u32 = 5;
/// After so many refused texts without one that is taken, it is not about the texts.
const REFUSED_IN_A_ROW: usize = 3;
/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// How long one request for stored texts may take.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a question may take at most; who asks has a deadline far below.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Tries of one request for stored texts; a question is asked once, since its deadline leaves no time for a second.
const TRIES: u32 = 4;
/// The pause before the second try; it doubles, and half of it is random.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A server that asks for more is not waited for: the caller hears of it.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// After failures in a row questions are not asked for so long, so that none waits in vain for its deadline.
const COOLDOWN: Duration = Duration::from_secs(5);

/// Which vectors are asked for.
#[derive(Clone, Debug)]
pub struct EmbedderConfig {
    /// Upstream's name of the model.
    pub model: String,
    /// How many numbers a vector must have; none = what the first answer has.
    pub dimension: Option<u32>,
    /// Put before every question.
    pub query_prefix: String,
    /// Put before every stored text.
    pub document_prefix: String,
}

/// Asks one embedding model of one provider.
pub struct ModelEmbedder {
    provider: Arc<Provider>,
    model: String,
    generation: Generation,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    /// As configured or learned; 0 = not known yet.
    dimension: AtomicU32,
    /// What is sent of a text at most, in estimated tokens.
    longest: AtomicU64,
    /// Members that the server refused by name, and gets no more.
    no_dimensions: AtomicBool,
    no_encoding: AtomicBool,
    /// How questions fare.
    health: Health,
}

impl fmt::Debug for ModelEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelEmbedder")
            .field("provider", &self.provider.name)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl ModelEmbedder {
    /// Asks a model of `provider`, whose key must be ours or none: there is no client whose key could be used.
    #[must_use]
    pub fn new(
        provider: Arc<Provider>,
        config: EmbedderConfig,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let EmbedderConfig { model, dimension, query_prefix, document_prefix } = config;
        let generation = Generation { model: format!("openai/{model}"), dimension, query_prefix, document_prefix };
        Self {
            provider,
            model,
            dimension: AtomicU32::new(dimension.unwrap_or_default()),
            generation,
            clock,
            random,
            longest: AtomicU64::new(LONGEST_TEXT),
            no_dimensions: AtomicBool::new(false),
            no_encoding: AtomicBool::new(false),
            health: Health::default(),
        }
    }

    fn prepared(&self, side: Side, text: &str) -> String {
        let prefix = self.generation.prefix(side);
        let longest = self.longest.load(Ordering::Relaxed).saturating_sub(estimate_tokens(prefix));
        let text = batch::beginning(text, longest);
        // OpenAI refuses an empty text; a space is none.
        if prefix.is_empty() && text.is_empty() { " ".to_owned() } else { format!("{prefix}{text}") }
    }

    /// Asks for all texts, in requests of bounded size. A request that is refused for one of its texts is asked anew by halves.
    async fn all(&self, side: Side, mut texts: Vec<String>) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let mut out = vec![None; texts.len()];
        let mut todo: Vec<Range<usize>> = batch::batches(&texts);
        todo.reverse();
        let (mut taken, mut refused, mut shortened) = (false, 0, 0);
        while let Some(range) = todo.pop() {
            match self.persist(side, &texts[range.clone()]).await {
                Ok(vectors) => {
                    self.check_dimension(&vectors)?;
                    out[range].iter_mut().zip(vectors).for_each(|(slot, vector)| *slot = Some(vector));
                    (taken, refused, shortened) = (true, 0, 0);
                }
                Err(Failure::Whole(error)) => return Err(error),
                Err(Failure::TooLong(_) | Failure::Text(_)) if range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    todo.extend([middle..range.end, range.start..middle]);
                }
                Err(Failure::TooLong(window)) if shortened < SHORTENINGS => {
                    shortened += 1;
                    self.shorten(&mut texts[range.start], window);
                    todo.push(range);
                }
                Err(Failure::TooLong(_)) => (refused, shortened) = (refused + 1, 0),
                Err(Failure::Text(reason)) => {
                    (refused, shortened) = (refused + 1, 0);
                    if !taken && refused >= REFUSED_IN_A_ROW {
                        return Err(EmbedError::Refused(format!("one text after the other, {reason}")));
                    }
                }
            }
        }
        Ok(out)
    }

    /// Takes the beginning of a text that was too long, and remembers how much of any may be sent.
    fn shorten(&self, text: &mut String, window: Option<usize>) {
        let size = estimate_tokens(text);
        // The estimate may be off by a quarter; if it still was too long, half of it is tried.
        let told = window.map(|window| (window as u64).saturating_mul(3) / 4).filter(|told| *told < size);
        let longest = told.unwrap_or(size / 2);
        text.truncate(batch::beginning(text, longest).len());
        self.longest.fetch_min(longest.max(16), Ordering::Relaxed);
    }

    /// One request; for stored texts a few times, where that may help.
    async fn persist(&self, side: Side, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let mut pause = FIRST_PAUSE;
        for _ in 1..TRIES {
            let wait = match self.spoken(side, texts).await {
                Err(Failure::Whole(EmbedError::Later { retry_after, .. }))
                    if side == Side::Document && retry_after.is_none_or(|wait| wait <= LONGEST_PAUSE) =>
                {
                    retry_after.unwrap_or_default().max(self.jittered(pause))
                }
                other => return other,
            };
            tokio::time::sleep(wait).await;
            pause *= 2;
        }
        self.spoken(side, texts).await
    }

    /// Between a half of `pause` and all of it, so that many processes do not come back at once.
    fn jittered(&self, pause: Duration) -> Duration {
        let half = pause / 2;
        let random = u32::try_from(self.random.next_u64() >> 32).unwrap_or_default();
        half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
    }

    /// Asks, and where the server names a member that it does not take, once more without it.
    async fn spoken(&self, side: Side, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        for _ in 0..2 {
            match self.once(side, texts).await {
                Err(Unheard { failure: Failure::Text(_), said }) if self.learn(&said) => {}
                other => return other.map_err(|unheard| unheard.failure),
            }
        }
        self.once(side, texts).await.map_err(|unheard| unheard.failure)
    }

    fn learn(&self, said: &str) -> bool {
        let sends_dimensions = self.generation.dimension.is_some();
        let first = |known: &AtomicBool| !known.swap(true, Ordering::Relaxed);
        said.contains("dimension") && sends_dimensions && first(&self.no_dimensions)
            || said.contains("encoding_format") && first(&self.no_encoding)
    }

    async fn once(&self, side: Side, texts: &[String]) -> Result<Vec<Vec<f32>>, Unheard> {
        let within = if side == Side::Query { QUERY_TIMEOUT } else { DOCUMENT_TIMEOUT };
        let mut attempt = Attempt { embedder: self, side, failed: Some(Failed::Otherwise) };
        let answer = tokio::time::timeout(within, self.request(texts)).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} ms", within.as_millis());
            Err(EmbedError::Later { reason, retry_after: None }.into())
        });
        attempt.failed = match &answer {
            Err(Unheard { failure: Failure::Whole(EmbedError::Later { reason, .. }), .. }) => {
                Some(if reason.starts_with("status 429") { Failed::Limited } else { Failed::Otherwise })
            }
            _ => None,
        };
        answer
    }

    async fn request(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Unheard> {
        let url = self.provider.embeddings_url();
        let body = self.body(texts);
        let limits = BodyLimits::default();
        let sent =
            attempt::send(&self.provider, Method::POST, url, self.headers(), body.into(), Duration::ZERO, limits);
        let (head, mut body) = sent.await.map_err(|error| later(&error))?.into_parts();
        if !head.status.is_success() {
            let said = body.read_error().await;
            let failure = refusal::refusal(head.status, &head.headers, &said, self.clock.now());
            return Err(Unheard { failure, said: String::from_utf8_lossy(&said).into_owned() });
        }
        let read = body.read_up_to(MAX_ANSWER_BYTES + 1).await;
        if read.len() > MAX_ANSWER_BYTES {
            return Err(EmbedError::Unusable("an answer of more than 32 MB".to_owned()).into());
        }
        answer::vectors(&read, texts.len()).map_err(Unheard::from)
    }

    fn body(&self, texts: &[String]) -> Vec<u8> {
        let mut body = json!({"model": self.model, "input": texts});
        if !self.no_encoding.load(Ordering::Relaxed) {
            body["encoding_format"] = "float".into();
        }
        if let Some(dimension) = self.generation.dimension
            && !self.no_dimensions.load(Ordering::Relaxed)
        {
            body["dimensions"] = dimension.into();
        }
        body.to_string().into_bytes()
    }

    fn headers(&self) -> HeaderMap {
        // No client stands behind it, so a provider that takes the client's key gets none.
        let (authorization, _) = self.provider.authorization(&Credential::Virtual);
        let mut own = HeaderMap::new();
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        own.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let mut sent = headers::upward(&own, false, authorization, &self.provider.headers);
        sent.insert(HeaderName::from_static("x-backstory-memory"), HeaderValue::from_static("off"));
        sent
    }

    /// The first answer fixes the dimension, where the configuration has not: vectors of another are never mixed in.
    fn check_dimension(&self, vectors: &[Vec<f32>]) -> Result<(), EmbedError> {
        let Some(found) = vectors.first().and_then(|vector| u32::try_from(vector.len()).ok()) else { return Ok(()) };
        match self.dimension.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
            Err(known) if known != found => {
                let whence = if self.generation.dimension.is_some() { "are configured" } else { "came before" };
                Err(EmbedError::Unusable(format!("vectors of {found} numbers, where {known} {whence}")))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Embed for ModelEmbedder {
    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn embed(&self, side: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let vectors = self.embed_each(side, texts).await?.into_iter().collect::<Option<Vec<_>>>();
        vectors.ok_or_else(|| EmbedError::Refused("a text that it does not take".to_owned()))
    }

    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        if side == Side::Query
            && let State::Cooling { left, .. } = self.health.state(now_ms())
        {
            let reason = "it failed a moment ago, and is left alone".to_owned();
            return Err(EmbedError::Later { reason, retry_after: Some(left) });
        }
        self.all(side, texts.iter().map(|text| self.prepared(side, text)).collect()).await
    }
}

/// Tells the health how a question fared; one that was dropped at its deadline has failed.
struct Attempt<'e> {
    embedder: &'e ModelEmbedder,
    side: Side,
    failed: Option<Failed>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Self { embedder, side, failed } = self;
        match failed {
            None => embedder.health.succeeded(),
            // Large requests fail for reasons of their own, and have their retries.
            Some(_) if *side == Side::Document => {}
            Some(why) => embedder.health.failed(*why, None, COOLDOWN, now_ms()),
        }
    }
}

/// No vectors; and what upstream said, where it may name a member that it does not take. That text is never logged.
struct Unheard {
    failure: Failure,
    said: String,
}

impl From<EmbedError> for Unheard {
    fn from(error: EmbedError) -> Self {
        Self { failure: Failure::Whole(error), said: String::new() }
    }
}

fn later(error: &AttemptError) -> Unheard {
    EmbedError::Later { reason: error.to_string(), retry_after: None }.into()
}
