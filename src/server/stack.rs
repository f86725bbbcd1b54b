//! The data plane, in one visible place.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower::{Service, ServiceBuilder};

use crate::app::App;
use crate::base::GatewayError;
use crate::exchange::{Kind, Recalled, Routed};
use crate::layers::{
    Admit, Authenticate, Continued, Decode, Identify, Recall, Record, RecordSettings, ReplyBody, Reserve, Respond,
    StageLayer,
};
use crate::telemetry::Route;
use crate::upstream::UpstreamBody;
use crate::wire::Dialect;

/// The data plane as one function: shared by all requests, and its type is erased once.
pub struct Gateway<B>(Box<dyn Fn(Request<B>) -> Answering + Send + Sync>);

/// What answers one request.
type Answering = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, Infallible>> + Send>>;

impl<B> Gateway<B> {
    /// Answers one request.
    pub async fn answer(&self, request: Request<B>) -> Response<ReplyBody> {
        (self.0)(request).await.unwrap_or_else(|never| match never {})
    }
}

impl<B> fmt::Debug for Gateway<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gateway")
    }
}

/// Composes the data plane for one route, outermost first. This function is the only place that decides order.
pub fn gateway<B, U>(app: &App, kind: Kind, upstream: U) -> Gateway<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    U: Service<Recalled<()>, Response = Routed<UpstreamBody>, Error = GatewayError> + Clone + Send + Sync + 'static,
    U::Future: Send + 'static,
{
    let stages = StageLayer::new(Authenticate(Arc::clone(&app.keys))) // Arrived -> Authenticated
        // After the key is known: strangers cannot make us read a body.
        .then(Decode { kind, max_body_bytes: app.settings.max_body_bytes, patience: app.settings.patience }) // -> Decoded
        .then(Identify {
            policies: Arc::clone(&app.settings.policies),
            learn: app.settings.learn,
            subjects: Some(Arc::clone(&app.subjects)),
        }) // -> Call
        // As soon as it is known who asks: nothing is reserved for what may not be gone on from.
        .then(Continued(Arc::clone(&app.states))) // -> Call
        // The limits that it touches and a place in the outbox, taken before any work is done and spent exactly once.
        .then(Reserve::new(
            app.recording(),
            Arc::clone(&app.limits),
            app.journal.clone(),
            Arc::clone(&app.routes),
            Arc::clone(&app.counter),
        )) // -> Funded
        // Memory is best effort: a failed or slow recall yields none, and is counted.
        .then(app.recall_stage()); // -> Recalled

    let (route, dialect) = match kind {
        Kind::Chat(Dialect::Messages) => (Route::Messages, Dialect::Messages),
        Kind::Chat(Dialect::Responses) => (Route::Responses, Dialect::Responses),
        Kind::Chat(Dialect::Chat) => (Route::Chat, Dialect::Chat),
        Kind::Embeddings => (Route::Embeddings, Dialect::Chat),
    };
    let stack = ServiceBuilder::new()
        // Above this line there are no errors, only replies.
        .layer(Respond::new(Arc::clone(&app.clock), Arc::clone(&app.random), Arc::clone(&app.metrics), route, dialect))
        // The permit is held by the reply's body, not by its future. Above all work, so that a refusal costs nothing.
        .layer(Admit::new(Arc::clone(&app.permits), Arc::clone(&app.metrics)))
        .layer(stages)
        // Below everything that refuses, so that each request it sees has an outcome; it sees every byte of the reply.
        .layer(Record::new(RecordSettings {
            route,
            states: Arc::clone(&app.states),
            tasks: app.tracker.clone(),
            trails: Arc::clone(&app.trails),
            clock: Arc::clone(&app.clock),
            metrics: Arc::clone(&app.metrics),
            learned_of_targets: app.learned_of_targets.clone(),
            commit_wait: app.settings.commit_wait,
            keepalive: app.settings.keepalive,
            trace: app.settings.trace,
            counter: Arc::clone(&app.counter),
            books: app.journal.is_some(),
        })) // Recalled -> Recalled<()>, wraps the body
        // Aliases, attempts, and in each of them Fit and Send.
        .service(upstream);

    Gateway(Box::new(move |request| stack.clone().call(request)))
}

impl App {
    /// The recall stage; `explain` asks the same one.
    #[must_use]
    pub fn recall_stage(&self) -> Recall {
        Recall::new(
            Arc::clone(&self.recall),
            Arc::clone(&self.knowledge),
            Arc::clone(&self.states),
            self.settings.recall_deadline,
            self.tracker.clone(),
            Arc::clone(&self.metrics),
        )
        .with_questions(self.questions.clone())
    }
}
