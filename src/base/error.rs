//! The error of everything below `Respond`: what may be told to a client, and what may not.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http::HeaderMap;

/// What went wrong, as far as a client can act on it. It decides status, `type` and `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is malformed or asks for something that makes no sense.
    BadRequest,
    /// The input does not fit the model's window or the budget, even when cut.
    ContextLength,
    /// No key, or a key that we do not know.
    Unauthenticated,
    /// A known key that may not do this.
    Forbidden,
    /// No such path or object, or one of another scope.
    NotFound,
    /// No such model, or one that this key may not use.
    ModelNotFound,
    /// No response, or item of one, of this name that this key may go on from.
    NoSuchResponse,
    /// The path exists, the method does not.
    MethodNotAllowed,
    /// The object was changed by someone else in between.
    Conflict,
    /// The body came too slowly.
    UploadTimeout,
    /// The body is larger than the limit.
    TooLarge,
    /// Path and query are longer than the limit.
    UrlTooLong,
    /// The header is larger than the limit.
    HeaderTooLarge,
    /// The body is not `application/json`.
    UnsupportedMedia,
    /// The key's own limit is used up.
    RateLimited,
    /// We are full or shutting down, or every target is cooling.
    Overloaded,
    /// A part of the API that we do not offer.
    NotImplemented,
    /// A path that is served, but not over a WebSocket.
    NoWebSocket,
    /// No upstream answered.
    UpstreamFailed,
    /// Upstream did not answer in time.
    UpstreamTimeout,
    /// Our own fault.
    Internal,
}

impl ErrorKind {
    /// The HTTP status of an answer of this kind.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            // As OpenAI answers; clients go by the code.
            Self::BadRequest | Self::ContextLength | Self::NoSuchResponse => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound | Self::ModelNotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::UploadTimeout => 408,
            Self::Conflict => 409,
            Self::TooLarge => 413,
            Self::UrlTooLong => 414,
            Self::UnsupportedMedia => 415,
            Self::NoWebSocket => 426,
            Self::RateLimited => 429,
            Self::HeaderTooLarge => 431,
            Self::Internal => 500,
            Self::NotImplemented => 501,
            Self::UpstreamFailed => 502,
            Self::Overloaded => 503,
            Self::UpstreamTimeout => 504,
        }
    }

    /// The `type` member of OpenAI's error envelope.
    #[must_use]
    pub fn openai_type(self) -> &'static str {
        match self {
            Self::BadRequest
            | Self::ContextLength
            | Self::NotFound
            | Self::ModelNotFound
            | Self::NoSuchResponse
            | Self::MethodNotAllowed
            | Self::Conflict
            | Self::UploadTimeout
            | Self::TooLarge
            | Self::UrlTooLong
            | Self::HeaderTooLarge
            | Self::UnsupportedMedia
            | Self::NotImplemented
            | Self::NoWebSocket => "invalid_request_error",
            Self::Unauthenticated => "authentication_error",
            Self::Forbidden => "permission_error",
            Self::RateLimited => "rate_limit_error",
            Self::Overloaded => "overloaded_error",
            Self::UpstreamFailed | Self::UpstreamTimeout => "upstream_error",
            Self::Internal => "server_error",
        }
    }

    /// The `code` member of OpenAI's error envelope.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::BadRequest => "invalid_request",
            Self::ContextLength => "context_length_exceeded",
            Self::Unauthenticated => "invalid_api_key",
            Self::Forbidden => "permission_denied",
            Self::NotFound => "not_found",
            Self::ModelNotFound => "model_not_found",
            Self::NoSuchResponse => "previous_response_not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Conflict => "conflict",
            Self::UploadTimeout => "request_timeout",
            Self::TooLarge => "request_too_large",
            Self::UrlTooLong => "uri_too_long",
            Self::HeaderTooLarge => "request_header_too_large",
            Self::UnsupportedMedia => "unsupported_media_type",
            Self::RateLimited => "rate_limit_exceeded",
            Self::Overloaded => "overloaded",
            Self::NotImplemented => "not_implemented",
            Self::NoWebSocket => "websocket_not_supported",
            Self::UpstreamFailed => "upstream_unreachable",
            Self::UpstreamTimeout => "upstream_timeout",
            Self::Internal => "internal_error",
        }
    }
}

/// An error with two faces: `public` may be sent to the client, `source` is only logged.
pub struct GatewayError {
    /// What went wrong, as far as a client can act on it.
    pub kind: ErrorKind,
    /// A sentence for the client. It holds no key, no memory and no internal detail.
    pub public: String,
    /// The request member or header at fault, for the envelope's `param`.
    pub param: Option<String>,
    /// When it is worth trying again, for `Retry-After`.
    pub retry_after: Option<Duration>,
    told: Option<Box<Told>>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// What is told of an error beside what its kind says.
#[derive(Default)]
struct Told {
    words: Option<(&'static str, &'static str)>,
    headers: HeaderMap,
}

impl GatewayError {
    /// Makes an error of a kind with a text that the client may read.
    pub fn new(kind: ErrorKind, public: impl Into<String>) -> Self {
        Self { kind, public: public.into(), param: None, retry_after: None, told: None, source: None }
    }

    /// Names the request member or header at fault.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn with_retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Says `type` and `code` of the envelope, where they are not those of the kind.
    #[must_use]
    pub fn with_words(mut self, openai_type: &'static str, code: &'static str) -> Self {
        self.told.get_or_insert_default().words = Some((openai_type, code));
        self
    }

    /// Adds headers to the answer, in place of those of the same name.
    #[must_use]
    pub fn with_headers(mut self, headers: HeaderMap) -> Self {
        if !headers.is_empty() {
            self.told.get_or_insert_default().headers.extend(headers);
        }
        self
    }

    /// The `type` member of OpenAI's error envelope.
    #[must_use]
    pub fn openai_type(&self) -> &'static str {
        self.words().map_or_else(|| self.kind.openai_type(), |(openai_type, _)| openai_type)
    }

    /// The `code` member of OpenAI's error envelope.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.words().map_or_else(|| self.kind.code(), |(_, code)| code)
    }

    /// The headers that belong to the answer, beside those of every error.
    #[must_use]
    pub fn headers(&self) -> Option<&HeaderMap> {
        self.told.as_ref().map(|told| &told.headers)
    }

    fn words(&self) -> Option<(&'static str, &'static str)> {
        self.told.as_ref().and_then(|told| told.words)
    }

    /// Adds the cause, which is logged and never sent.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Our own fault: the client learns only that, the log learns the cause.
    pub fn internal(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Internal, "internal error; the log has the details under this request id")
            .with_source(source)
    }

    /// Returns the chain of causes as one line, for the log.
    #[must_use]
    pub fn causes(&self) -> Option<String> {
        let mut text = String::new();
        let mut next: Option<&dyn Error> = self.source.as_deref().map(|e| e as &dyn Error);
        while let Some(error) = next {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&error.to_string());
            next = error.source();
        }
        (!text.is_empty()).then_some(text)
    }
}

impl fmt::Debug for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayError")
            .field("kind", &self.kind)
            .field("public", &self.public)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.public)
    }
}

impl Error for GatewayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}
