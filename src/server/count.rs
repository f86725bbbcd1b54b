//! `POST /v1/messages/count_tokens` and `/v1/responses/input_tokens`: what a request would cost in tokens of input.
//!
//! It is answered here, by the counter that budgets and limits go by, and asks nobody: so it is an estimate, corrected by what the target's
//! answers have taught, and it counts what the client sends, not what memory would add, nor what upstream keeps of a conversation.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};

use crate::access::Asking;
use crate::app::App;
use crate::base::{ErrorKind, GatewayError};
use crate::context;
use crate::exchange::{Authenticated, Kind, Payload, Stamp};
use crate::layers::{Decode, Stage};
use crate::wire::Dialect;

/// Answers `{"input_tokens": N}`, in the dialect that is asked for.
///
/// # Errors
/// As the request itself would be refused; 503 when too many requests are being served.
pub(super) async fn count_tokens(
    app: &App,
    stamp: &Stamp,
    dialect: Dialect,
    request: Request<Body>,
) -> Result<Response<Body>, GatewayError> {
    let (principal, credential) = app.keys.authenticate(request.headers()).await?;
    // Counting is work as any other: it takes a place among the requests that are served at a time.
    let permit = app.permits.clone().try_acquire_owned().map_err(|_| {
        GatewayError::new(ErrorKind::Overloaded, "too many requests are being served; try again in a moment")
    })?;
    let asking = Asking { principal: &principal, subject: None, model: None, now: stamp.started, at: stamp.at };
    let taken = app.limits.take_request(&asking).await?;
    let decode = Decode {
        kind: Kind::Chat(dialect),
        max_body_bytes: app.settings.max_body_bytes,
        patience: app.settings.patience,
    };
    let decoded = decode.run(Authenticated { stamp: *stamp, principal, credential, http: request }).await?;
    let model = app.routes.model(&decoded.principal, decoded.payload.model())?;
    let target = model.targets().next().cloned();
    let target = target.ok_or_else(|| GatewayError::internal("a model has a target at least"))?;
    let known = app.learned_of_targets.known(&target, stamp.at);
    let fit = context::Target {
        correction: known.correction.ratio,
        overhead: known.correction.overhead.round() as usize,
        ..target.fit.clone()
    };
    let counter = app.counter.clone();
    let count = move || {
        let _permit = permit;
        match &decoded.payload {
            Payload::Chat(chat) => fit.real_request(counter.request(fit.rules(), chat).total),
            Payload::Embeddings(_) => 0,
        }
    };
    let tokens = tokio::task::spawn_blocking(count).await.map_err(GatewayError::internal)?;
    let kind = if dialect == Dialect::Responses { r#""object":"response.input_tokens","# } else { "" };
    let mut reply = Response::new(Body::from(format!(r#"{{{kind}"input_tokens":{tokens}}}"#)));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    taken.standing().write(reply.headers_mut());
    Ok(reply)
}
