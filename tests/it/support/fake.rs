//! An upstream that answers what a test says, on any path, and remembers what it was asked.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use backstory::mock::Recorded;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// An answer: status, content type, body.
pub(crate) type Answer = (u16, &'static str, String);

/// A running upstream. It ends when it is dropped.
pub(crate) struct Fake {
    /// Its address, as in `http://127.0.0.1:1234`.
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Recorded>>>,
    _task: JoinSet<()>,
}

struct Shared {
    asked: Arc<Mutex<Vec<Recorded>>>,
    answer: Box<dyn Fn(&Recorded) -> Answer + Send + Sync>,
}

impl Fake {
    pub(crate) async fn start(answer: impl Fn(&Recorded) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::default();
        let shared = Arc::new(Shared { asked: Arc::clone(&asked), answer: Box::new(answer) });
        let router = Router::new().fallback(answered).with_state(shared);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, asked, _task: task }
    }

    /// All that it was asked.
    pub(crate) fn asked(&self) -> Vec<Recorded> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it was asked last.
    #[track_caller]
    pub(crate) fn last(&self) -> Recorded {
        self.asked().pop().expect("it was asked")
    }
}

async fn answered(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_else(|_| Bytes::new());
    let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let recorded = Recorded { method: parts.method, target, headers: parts.headers, body };
    let (status, kind, text) = (shared.answer)(&recorded);
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(recorded);
    let answer = Response::builder().status(status).header("content-type", kind);
    let answer = answer.header("anthropic-ratelimit-requests-remaining", "7").header("request-id", "req_up");
    answer.body(Body::from(text)).unwrap()
}
