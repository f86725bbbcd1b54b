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
use http::Method;
use serde_json::json;

use super::attempt::{self, AttemptError};
use super::body::BodyLimits;
use super::headers;
use super::overflow;
use super::provider::Provider;
use super::retry::wait_before;
use crate::ask::estimate_tokens;
use crate::base::{Clock, Random};
use crate::embed::{Embed, EmbedError, Generation, Side, of_all};
use crate::exchange::Kind;
use refusal::Failure;

/// Of a text no more is sent, in estimated tokens: what OpenAI's models read, less a margin for the estimate. A smaller limit is learned.
const LONGEST_TEXT: u64 = 8_000;
/// A text that is too long is shortened so many times, to a half each.
const SHORTENINGS: u32 = 5;
/// What is no longer than this is too long for no model, whatever its server says.
const SHORTEST: u64 = 16;
/// A text that no server has a reason to mind: where it fails as well, it is not about the texts.
const HARMLESS: &str = "hello";
/// The largest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 32 << 20;
/// How long one request for stored texts may take.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a question may take at most; who asks has a deadline far below.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to learn whether a harmless text is taken.
const HARMLESS_TIMEOUT: Duration = Duration::from_secs(20);
/// Tries of one request for stored texts; a question is asked once, since its deadline leaves no time for a second.
const TRIES: u32 = 4;

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
    /// Members that the server takes only requests without.
    no_dimensions: AtomicBool,
    no_encoding: AtomicBool,
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
        }
    }

    fn prepared(&self, side: Side, text: &str) -> String {
        let prefix = self.generation.prefix(side);
        let longest = self.longest.load(Ordering::Relaxed).saturating_sub(estimate_tokens(prefix));
        let text = batch::beginning(text, longest);
        // OpenAI refuses an empty text; a space is none.
        if prefix.is_empty() && text.is_empty() { " ".to_owned() } else { format!("{prefix}{text}") }
    }

    /// Asks for all texts, in requests of bounded size. A request that may have failed for one of its texts is asked anew by halves, once
    /// the server has taken any text at all: a text that fails alone has no vector.
    async fn all(&self, side: Side, mut texts: Vec<String>) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        let mut out = vec![None; texts.len()];
        let mut todo: Vec<Range<usize>> = batch::batches(&texts);
        todo.reverse();
        // Who asks a question has no time for more than that.
        let is_question = side == Side::Query && texts.len() == 1;
        let (mut taken, mut shortened, mut longest) = (is_question, 0, None);
        while let Some(range) = todo.pop() {
            let failure = match self.persist(side, &texts[range.clone()]).await {
                Ok(vectors) => {
                    self.check_dimension(&vectors)?;
                    out[range].iter_mut().zip(vectors).for_each(|(slot, vector)| *slot = Some(vector));
                    if let Some(longest) = longest.take() {
                        self.longest.fetch_min(longest, Ordering::Relaxed);
                    }
                    (taken, shortened) = (true, 0);
                    continue;
                }
                Err(Failure::Whole(error)) => return Err(error),
                Err(failure) => failure,
            };
            if !taken {
                self.try_harmless(side, &failure).await?;
                taken = true;
            }
            match failure {
                _ if range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    todo.extend([middle..range.end, range.start..middle]);
                }
                Failure::TooLong(window)
                    if shortened < SHORTENINGS && estimate_tokens(&texts[range.start]) > SHORTEST =>
                {
                    shortened += 1;
                    longest = Some(shorten(&mut texts[range.start], window));
                    todo.push(range);
                }
                failure if is_question => return Err(failure.into()),
                failure => {
                    // A server that has begun to fail is not asked for each text that is left.
                    taken = !matches!(failure, Failure::Texts(EmbedError::Later { .. }));
                    (shortened, longest) = (0, None);
                }
            }
        }
        Ok(out)
    }

    /// Whether `failure` may be about the texts: the server takes another one. If not, why.
    async fn try_harmless(&self, side: Side, failure: &Failure) -> Result<(), EmbedError> {
        let harmless = [self.prepared(side, HARMLESS)];
        match tokio::time::timeout(HARMLESS_TIMEOUT, self.persist(side, &harmless)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Failure::Whole(error))) => Err(error),
            Ok(Err(_)) | Err(_) => Err(failure.clone().into()),
        }
    }

    /// One request; for stored texts a few times, where that may help.
    async fn persist(&self, side: Side, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let tries = if side == Side::Query { 1 } else { TRIES };
        for repeat in 1..tries {
            let heard = self.spoken(side, texts).await;
            let asked = match &heard {
                Err(Failure::Whole(EmbedError::Later { retry_after, .. })) => *retry_after,
                // Several are asked by halves instead.
                Err(Failure::Texts(EmbedError::Later { retry_after, .. })) if texts.len() == 1 => *retry_after,
                _ => return heard,
            };
            let Some(wait) = wait_before(repeat, asked, self.random.next_u64()) else { return heard };
            tokio::time::sleep(wait).await;
        }
        self.spoken(side, texts).await
    }

    /// Asks, and where the server names a member that it does not take, once more without it. That is remembered when it helps.
    async fn spoken(&self, side: Side, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let mut without = Without {
            dimensions: self.generation.dimension.is_none() || self.no_dimensions.load(Ordering::Relaxed),
            encoding: self.no_encoding.load(Ordering::Relaxed),
        };
        loop {
            match self.once(side, texts, without).await {
                Ok(vectors) => {
                    self.no_dimensions.fetch_or(without.dimensions, Ordering::Relaxed);
                    self.no_encoding.fetch_or(without.encoding, Ordering::Relaxed);
                    return Ok(vectors);
                }
                Err(Unheard { failure: Failure::Texts(EmbedError::Refused(_)), said }) if without.more(&said) => {}
                Err(unheard) => return Err(unheard.failure),
            }
        }
    }

    async fn once(&self, side: Side, texts: &[String], without: Without) -> Result<Vec<Vec<f32>>, Unheard> {
        let within = if side == Side::Query { QUERY_TIMEOUT } else { DOCUMENT_TIMEOUT };
        tokio::time::timeout(within, self.request(side, texts, without)).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} ms", within.as_millis());
            Err(Failure::Texts(EmbedError::Later { reason, retry_after: None }).into())
        })
    }

    async fn request(&self, side: Side, texts: &[String], without: Without) -> Result<Vec<Vec<f32>>, Unheard> {
        let url = self.provider.url_for(Kind::Embeddings, &self.model);
        let body = self.body(texts, without);
        let headers = headers::ours(&self.provider);
        let limits = BodyLimits::default();
        let sent = attempt::send(&self.provider, Method::POST, url, headers, body.into(), Duration::ZERO, limits);
        let (head, mut body) = sent.await.map_err(|error| later(&error))?.into_parts();
        if !head.status.is_success() {
            let said = body.read_error().await;
            let failure = refusal::refusal(head.status, &head.headers, &said, self.clock.now());
            return Err(Unheard { failure, said: overflow::sentences(&said) });
        }
        let read = body.read_up_to(MAX_ANSWER_BYTES + 1).await;
        if read.len() > MAX_ANSWER_BYTES {
            return Err(Failure::Texts(EmbedError::Unusable("an answer of more than 32 MB".to_owned())).into());
        }
        let count = texts.len();
        let vectors = match side {
            Side::Query => answer::vectors(&read, count),
            // Up to megabytes of numbers.
            Side::Document => tokio::task::spawn_blocking(move || answer::vectors(&read, count))
                .await
                .unwrap_or_else(|_| Err(EmbedError::Unusable("reading it broke off".to_owned()))),
        };
        vectors.map_err(|error| Failure::Texts(error).into())
    }

    fn body(&self, texts: &[String], without: Without) -> Vec<u8> {
        let mut body = json!({"model": self.model, "input": texts});
        if !without.encoding {
            body["encoding_format"] = "float".into();
        }
        if let Some(dimension) = self.generation.dimension.filter(|_| !without.dimensions) {
            body["dimensions"] = dimension.into();
        }
        body.to_string().into_bytes()
    }

    /// The first answer fixes the dimension, where the configuration has not: vectors of another are never mixed in. A model that was
    /// exchanged is an error once; the next answer fixes the dimension anew.
    fn check_dimension(&self, vectors: &[Vec<f32>]) -> Result<(), EmbedError> {
        let Some(found) = vectors.first().and_then(|vector| u32::try_from(vector.len()).ok()) else { return Ok(()) };
        match self.dimension.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
            Err(known) if known != found => {
                let is_configured = self.generation.dimension.is_some();
                if !is_configured {
                    self.dimension.store(0, Ordering::Relaxed);
                }
                let whence = if is_configured { "are configured" } else { "came before" };
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
        of_all(self.embed_each(side, texts).await?)
    }

    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        self.all(side, texts.iter().map(|text| self.prepared(side, text)).collect()).await
    }
}

/// Takes the beginning of a text that was too long. Returns how much of any text may be sent if that is taken.
fn shorten(text: &mut String, window: Option<usize>) -> u64 {
    let size = estimate_tokens(text);
    // The estimate may be off by a quarter; if it still was too long, half of it is tried.
    let told = window.map(|window| (window as u64).saturating_mul(3) / 4).filter(|told| *told < size);
    let longest = told.unwrap_or(size / 2).max(SHORTEST);
    text.truncate(batch::beginning(text, longest).len());
    longest
}

/// Members that are left out.
#[derive(Clone, Copy, Debug)]
struct Without {
    dimensions: bool,
    encoding: bool,
}

impl Without {
    /// Leaves out one more that `said` names; `false` when it names none.
    fn more(&mut self, said: &str) -> bool {
        let mut first = |named: bool, out: fn(&mut Self) -> &mut bool| named && !std::mem::replace(out(self), true);
        first(said.contains("dimension"), |without| &mut without.dimensions)
            || first(said.contains("encoding_format"), |without| &mut without.encoding)
    }
}

/// No vectors; and what upstream itself said, where it may name a member that it does not take. That text is never logged.
struct Unheard {
    failure: Failure,
    said: String,
}

impl From<Failure> for Unheard {
    fn from(failure: Failure) -> Self {
        Self { failure, said: String::new() }
    }
}

fn later(error: &AttemptError) -> Unheard {
    Failure::Whole(EmbedError::Later { reason: error.to_string(), retry_after: None }).into()
}
