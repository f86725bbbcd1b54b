//! What one request is at each step through the stack.
//!
//! Each stage takes the value of the step before and gives the next, so a stack in the wrong order does not compile:
//! `http::Request` → [`Authenticated`] → [`Decoded`] → [`Call`] → [`Funded`] → [`Recalled`] → [`Routed`] → `http::Response`.

mod limits;
mod progress;

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;

pub use limits::{Limits, Reserved, ReservedTokens};
pub use progress::{Progress, Sent};

use crate::base::{ExchangeId, FactId, RequestId, Secret, Time, TraceParent};
use crate::context::{Fitted, Notes, Policy, PolicyChanges};
use crate::conversation::Chain;
use crate::memory::{Namespace, Scope, Sensitivity};
use crate::wire::{ChatRequest, Dialect, Patches, Span, encode_string};

/// Names and times that a request has from the first moment on.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Names the request.
    pub id: RequestId,
    /// Names the exchange.
    pub exchange: ExchangeId,
    /// When it arrived, on the wall clock.
    pub at: Time,
    /// When it arrived, on the monotonic clock.
    pub started: Instant,
    /// Its span, where spans are exported: what it leaves to be done points back to it.
    pub trace: Option<TraceParent>,
}

/// Who asks: what a key stands for.
#[derive(Debug)]
pub struct Principal {
    /// The owner of the key.
    pub tenant: Arc<str>,
    /// Its line of business.
    pub namespace: Arc<str>,
    /// Further namespaces that it may read.
    pub read_namespaces: Vec<Arc<str>>,
    /// Whether the request may name any namespace of the tenant (client mode, where the tenant is one client's own).
    pub any_namespace: bool,
    /// How the subject is found.
    pub subject: SubjectRule,
    /// What memory may do.
    pub memory: Switch,
    /// What the memory API allows.
    pub memory_api: MemoryApi,
    /// Whether it may lock, and edit as operator.
    pub may_edit: bool,
    /// Models it may ask for; empty = all.
    pub models: Vec<String>,
    /// Paths under `/v1/` that are passed through for it: prefixes, or `*`.
    pub passthrough: Vec<String>,
    /// The most sensitive thing it may be shown.
    pub max_sensitivity: Sensitivity,
    /// What it changes of the budget policy.
    pub budget: PolicyChanges,
    /// Names the key where what it uses is counted: the first half of its hash, or the id of a stored key.
    pub key: u128,
    /// What people call the key; never the key.
    pub key_name: Arc<str>,
    /// What it may use.
    pub limits: Limits,
    /// What each of its subjects may use.
    pub each_subject: Limits,
}

/// How the subject of a request is found.
#[derive(Clone, Debug)]
pub struct SubjectRule {
    /// Places to look at, in order.
    pub from: Vec<SubjectSource>,
    /// Who it is when none of them names one.
    pub default: Option<Arc<str>>,
    /// Whether requests may name a subject at all.
    pub may_name: bool,
}

/// A place in a request that can name the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectSource {
    /// Header `x-backstory-user`.
    Header,
    /// Body `metadata.user_id`.
    MetadataUserId,
    /// Body `safety_identifier`.
    SafetyIdentifier,
    /// Body `user`.
    User,
}

/// Whether memory is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Recall.
    pub read: bool,
    /// Learn.
    pub write: bool,
}

impl Switch {
    /// Both.
    pub const ON: Self = Self { read: true, write: true };
    /// Neither.
    pub const OFF: Self = Self { read: false, write: false };

    /// What both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { read: self.read && other.read, write: self.write && other.write }
    }
}

/// What a key may do with the memory API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryApi {
    /// Nothing.
    Off,
    /// Read.
    Read,
    /// Read and write.
    Write,
}

/// What the client authenticates with.
#[derive(Clone, Debug)]
pub enum Credential {
    /// One of our keys: never goes upstream.
    Virtual,
    /// The client's own upstream key, if it sent one: goes to the `client` provider only, and is never stored.
    Client(Option<Secret>),
}

/// A request whose key is known.
#[derive(Debug)]
pub struct Authenticated<B> {
    /// Names and times.
    pub stamp: Stamp,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What it authenticates with.
    pub credential: Credential,
    /// The request.
    pub http: http::Request<B>,
}

/// A request whose body is read.
#[derive(Debug)]
pub struct Decoded {
    /// Names and times.
    pub stamp: Stamp,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What it authenticates with.
    pub credential: Credential,
    /// The request headers.
    pub headers: HeaderMap,
    /// What is asked.
    pub payload: Payload,
}

/// What a request is for, as far as its path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The next words of a conversation, asked for in this dialect.
    Chat(Dialect),
    /// Embeddings.
    Embeddings,
}

impl Kind {
    /// `POST /v1/chat/completions`.
    pub const CHAT: Self = Self::Chat(Dialect::Chat);
}

/// What is asked.
#[derive(Debug)]
pub enum Payload {
    /// `POST /v1/chat/completions`, and the other dialects' paths.
    Chat(ChatRequest),
    /// `POST /v1/embeddings`: routed like chat, no memory.
    Embeddings(Embeddings),
}

/// An embeddings request: its bytes and the places of `model` in them.
#[derive(Debug)]
pub struct Embeddings {
    /// The client's own bytes.
    pub body: Bytes,
    /// The model asked for.
    pub model: String,
    /// Every `model` member's value.
    pub model_spans: Vec<Span>,
}

impl Embeddings {
    /// The body with another model written in.
    #[must_use]
    pub fn with_model(&self, model: &str) -> Bytes {
        let mut patches = Patches::default();
        for span in &self.model_spans {
            patches.replace(*span, encode_string(model));
        }
        patches.apply(&self.body)
    }
}

impl Payload {
    /// What it is for.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Chat(request) => Kind::Chat(request.dialect()),
            Self::Embeddings(_) => Kind::Embeddings,
        }
    }

    /// The model that the client asks for.
    #[must_use]
    pub fn model(&self) -> &str {
        match self {
            Self::Chat(request) => request.model(),
            Self::Embeddings(request) => &request.model,
        }
    }

    /// Whether the client wants a stream.
    #[must_use]
    pub fn stream(&self) -> bool {
        matches!(self, Self::Chat(request) if request.stream())
    }

    /// The operation, as OpenTelemetry names it.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        match self {
            Self::Chat(_) => "chat",
            Self::Embeddings(_) => "embeddings",
        }
    }

    /// The chat request, if it is one.
    #[must_use]
    pub fn chat(&self) -> Option<&ChatRequest> {
        match self {
            Self::Chat(request) => Some(request),
            Self::Embeddings(_) => None,
        }
    }
}

/// Whose memory a request touches, and how.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The namespace in force.
    pub namespace: Arc<str>,
    /// The scope; `None` = no subject, no long-term memory.
    pub scope: Option<Scope>,
    /// The place that named the subject; `None` = the key's default, or no subject.
    pub named_by: Option<SubjectSource>,
    /// Further scopes to read: the same subject in granted namespaces.
    pub also_read: Vec<Scope>,
    /// Namespaces whose documents may be shown, whoever asks; none where nothing is read.
    pub knowledge: Vec<Namespace>,
    /// What memory does for this request.
    pub memory: Switch,
    /// Why memory is skipped, when it is.
    pub skipped: Option<&'static str>,
}

/// A request that we know all about; nothing has been spent on it yet.
#[derive(Debug)]
pub struct Call {
    /// Names and times.
    pub stamp: Stamp,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// What it authenticates with.
    pub credential: Credential,
    /// The request headers.
    pub headers: HeaderMap,
    /// What is asked.
    pub payload: Payload,
    /// Whose memory it touches.
    pub identity: Identity,
    /// The budget policy in force: the configured one, with what the model and the key change of it.
    pub policy: Policy,
    /// A lower budget asked for in the request's header, in tokens.
    pub budget_header: Option<usize>,
    /// What it holds of its limits, where tokens are limited.
    pub reserved: ReservedTokens,
    /// What was sent on of it.
    pub progress: Progress,
    /// What was shown with the response that it goes on from, where upstream keeps the conversation.
    pub continues: Option<Continues>,
}

/// What a conversation goes on from that upstream keeps: what was shown with the response before.
#[derive(Clone, Debug)]
pub struct Continues {
    /// The profile block; empty = none.
    pub profile: Arc<str>,
    /// The facts that it rests on.
    pub profile_facts: Vec<FactId>,
    /// Revision of the scope at which it was made.
    pub revision: i64,
}

/// A request that holds a place in the outbox, where it needs one.
#[derive(Debug)]
pub struct Funded<R> {
    /// The request.
    pub call: Arc<Call>,
    /// Its place; given back when dropped.
    pub reservation: R,
}

/// A request with what memory has to say about it.
#[derive(Debug)]
pub struct Recalled<R> {
    /// The request.
    pub call: Arc<Call>,
    /// Its place in the outbox.
    pub reservation: R,
    /// What memory has to say.
    pub recall: Arc<Recall>,
}

/// The result of the recall stage.
#[derive(Debug)]
pub struct Recall {
    /// How it went.
    pub outcome: MemoryOutcome,
    /// The conversation's hashes; `None` where memory is off for this request.
    pub chain: Option<Arc<Chain>>,
    /// What may be shown.
    pub notes: Notes,
    /// Why each thing was recalled, for `explain`.
    pub why: Vec<Why>,
    /// The facts that the profile block rests on, whether it is new or was kept.
    pub profile_facts: Vec<FactId>,
    /// Revision of the scope that was read.
    pub revision: i64,
    /// The scope's epoch when the exchange began.
    pub epoch: i64,
}

/// Why one thing was recalled.
#[derive(Clone, Debug)]
pub struct Why {
    /// Its id, as text.
    pub id: String,
    /// Its score.
    pub score: f64,
    /// In a few words.
    pub reason: String,
}

/// How memory took part in a request; goes into the response header and a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOutcome {
    /// Memory was asked; whether it hit is known when the request has been fitted.
    Asked {
        /// A channel that did not answer in time.
        degraded: Option<&'static str>,
    },
    /// The block fixed for this user turn is shown again.
    Pinned {
        /// The facts in it.
        n_facts: usize,
        /// The episodes in it.
        n_episodes: usize,
        /// The passages of documents in it.
        n_passages: usize,
    },
    /// Nobody is named, so only documents were asked.
    NoSubject {
        /// A channel that did not answer in time.
        degraded: Option<&'static str>,
    },
    /// Memory had no part in it.
    Skipped(&'static str),
    /// The deadline passed.
    Timeout,
    /// The store failed.
    Error,
}

/// Upstream's answer and how it came about.
#[derive(Debug)]
pub struct Routed<B> {
    /// The answer.
    pub response: http::Response<B>,
    /// What was sent; `None` for embeddings.
    pub fitted: Option<Arc<Fitted>>,
    /// The target that answered, as `provider/model`.
    pub target: String,
    /// How many attempts were made.
    pub attempts: u32,
    /// Whether we asked for usage although the client did not: the extra event is withheld.
    pub withhold_usage: bool,
}
