//! A request in the dialect of its provider, and the way back for the answer.

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};

use super::api::Api;
use super::body::UpstreamBody;
use super::retry::is_error;
use crate::base::{ErrorKind, GatewayError};
use crate::exchange::Kind;
use crate::wire::translate::{
    AnswerForm, Back, Refusal, ToChat, ToMessages, Translated, Translator, Untranslatable, to_chat, to_messages,
};
use crate::wire::{ChatRequest, Dialect};

/// The `code` of an error that is about the target, not about the request: another target may do better.
pub(super) const UNSUPPORTED: &str = "unsupported_by_target";

/// A request as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) body: Bytes,
    /// What decides its address.
    pub(super) kind: Kind,
    /// The way back for the answer; `None` where nothing was translated.
    pub(super) back: Option<Back>,
    /// Members that were left out.
    pub(super) dropped: Vec<String>,
}

impl Put {
    /// A body that its provider takes as it is.
    pub(super) fn as_it_is(body: Bytes, client: Dialect) -> Self {
        Self { body, kind: Kind::Chat(client), back: None, dropped: Vec::new() }
    }
}

/// What a translation depends on beside request and provider.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// What is done with what cannot be carried over.
    pub(super) untranslatable: Untranslatable,
    /// `max_tokens` where the request names none and the API wants it.
    pub(super) max_tokens: u64,
    /// The limit of the output by its newer name.
    pub(super) completion_tokens: bool,
    /// A stream is asked to tell its usage.
    pub(super) ask_usage: bool,
    /// When the reply is made, in seconds since 1970.
    pub(super) created: u64,
}

/// Puts the body of a request, which is written in `client`'s dialect, into one that the provider takes.
///
/// # Errors
/// What cannot be carried over, as 400 with [`UNSUPPORTED`].
pub(super) fn put(api: &Api, client: Dialect, body: &Bytes, how: How) -> Result<Put, GatewayError> {
    let Some(spoken) = api.speaks(client) else {
        return Err(unsupported(format!("this target does not take requests to /v1/{}", client.path())));
    };
    if spoken == client {
        return Ok(Put::as_it_is(body.clone(), client));
    }
    // It was read before, and every change since left it readable.
    let read = || ChatRequest::decode_as(client, body.clone()).map_err(GatewayError::internal);
    let (translated, back) = match spoken {
        Dialect::Messages => {
            let request = read()?;
            let back = Back::ToChat { created: how.created, include_usage: request.include_usage() == Some(true) };
            let how = ToMessages { untranslatable: how.untranslatable, max_tokens: how.max_tokens };
            (to_messages(&request, how), back)
        }
        Dialect::Chat => {
            let How { untranslatable, completion_tokens, ask_usage, .. } = how;
            (to_chat(&read()?, ToChat { untranslatable, completion_tokens, ask_usage }), Back::ToMessages)
        }
        Dialect::Responses => return Err(unsupported("nothing is translated to responses")),
    };
    let Translated { body, dropped } = translated.map_err(refused)?;
    Ok(Put { body, kind: Kind::Chat(spoken), back: Some(back), dropped })
}

/// The answer in the client's dialect, translated as it comes.
pub(super) fn back(answer: Response<UpstreamBody>, back: Option<Back>) -> Response<UpstreamBody> {
    let Some(back) = back else { return answer };
    let (mut parts, body) = answer.into_parts();
    let is_sse = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let form = match (is_error(parts.status), is_sse) {
        (true, _) => AnswerForm::Error,
        (false, true) => AnswerForm::Stream,
        (false, false) => AnswerForm::Reply,
    };
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, body.translated(Translator::new(form, back)))
}

/// What a client is told that asks a target for what it does not do.
pub(super) fn unsupported(public: impl Into<String>) -> GatewayError {
    GatewayError::new(ErrorKind::BadRequest, public).with_words("invalid_request_error", UNSUPPORTED)
}

/// Whether another target may do better with a request that was refused here.
pub(super) fn is_about_the_target(error: &GatewayError) -> bool {
    error.code() == UNSUPPORTED
}

fn refused(refusal: Refusal) -> GatewayError {
    unsupported(refusal.to_string()).with_param(refusal.param)
}
