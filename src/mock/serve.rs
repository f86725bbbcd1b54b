//! The server: takes connections, records requests, sends replies.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::chat;
use super::embed;
use super::messages;
use super::record::{Log, Recorded};
use super::reply::{Afterwards, End, Raw};
use super::rerank;
use super::responses::{self, Kept};
use super::script::Script;
use super::socket::Socket;
use super::write::CREATED;

/// The largest request body that is read.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// How long to wait when no connection can be accepted, as when file handles ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running mock. It runs until its token is cancelled, not until this is dropped.
#[derive(Clone)]
pub struct MockHandle {
    /// Where it listens.
    pub addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    log: Log,
    script: Mutex<Script>,
    responses: Kept,
}

impl MockHandle {
    /// The base URL that a client is given.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.addr)
    }

    /// The last 1,000 requests, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.state.log.requests()
    }

    /// The newest request.
    #[must_use]
    pub fn last_request(&self) -> Option<Recorded> {
        self.requests().pop()
    }

    /// Forgets the requests; counts stay.
    pub fn clear(&self) {
        self.state.log.clear();
    }

    /// How many requests came since the start.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.state.log.accepted.load(Ordering::Relaxed)
    }

    /// How many connections came since the start.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.state.log.connections.load(Ordering::Relaxed)
    }

    /// How many replies were not read to their end, because the client went away.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.state.log.cancelled.load(Ordering::Relaxed)
    }

    /// Answers from now on by another script.
    pub fn set_script(&self, script: Script) {
        *self.state.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }
}

impl fmt::Debug for MockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockHandle").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// Starts to serve on `listener`, until `stop` is cancelled: then replies that have begun are broken off.
///
/// # Panics
/// When the listener has no local address, which a bound one has.
pub async fn start(
    listener: TcpListener,
    script: Script,
    tracker: &TaskTracker,
    stop: CancellationToken,
) -> MockHandle {
    let addr = listener.local_addr().expect("a bound listener has an address");
    let state = Arc::new(State { log: Log::default(), script: Mutex::new(script), responses: Kept::default() });
    let handle = MockHandle { addr, state: Arc::clone(&state) };
    let connections = tracker.clone();
    tracker.spawn(async move {
        let accept = async {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        state.log.connections.fetch_add(1, Ordering::Relaxed);
                        connections.spawn(stop.clone().run_until_cancelled_owned(serve(stream, Arc::clone(&state))));
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        };
        stop.run_until_cancelled(accept).await
    });
    handle
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    // Small writes are the point of a mock; a socket that does not take the option still works.
    let _ = stream.set_nodelay(true);
    let connection = Arc::new(Connection::default());
    let reset = Arc::clone(&connection.reset);
    let io = TokioIo::new(Socket { stream, reset });
    let close = Arc::clone(&connection);
    let service = service_fn(move |request| answer(request, Arc::clone(&state), Arc::clone(&connection)));
    let serving = http1::Builder::new().serve_connection(io, service);
    tokio::pin!(serving);
    // A client that leaves is an error here; it was counted.
    tokio::select! {
        _ = serving.as_mut() => return,
        () = close.close.notified() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

/// What one connection is to do.
#[derive(Default)]
struct Connection {
    reset: Arc<AtomicBool>,
    /// Of the newest reply.
    afterwards: Mutex<Afterwards>,
    close: Notify,
}

impl Connection {
    fn afterwards(&self) -> Afterwards {
        *self.afterwards.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cancel safe: a request that is dropped half way is counted by its guard.
async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
    connection: Arc<Connection>,
) -> Result<Response<ReplyBody>, Cut> {
    match connection.afterwards() {
        Afterwards::Keep | Afterwards::Close => {}
        Afterwards::HangUp => return Err(Cut),
        Afterwards::Dead => std::future::pending().await,
    }
    let guard = Guard { state: Arc::clone(&state), connection: Arc::clone(&connection), finished: false };
    let (head, body) = request.into_parts();
    let raw = match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Err(_) => Raw::error(413, "the body is too large, or was not sent to its end"),
        Ok(body) => {
            let target = head.uri.path_and_query().map_or("/", |t| t.as_str()).to_owned();
            let recorded = Recorded { method: head.method, target, headers: head.headers, body: body.to_bytes() };
            let number = state.log.add(recorded.clone());
            decide(&state, &recorded, number).await
        }
    };
    if !raw.header_delay.is_zero() {
        tokio::time::sleep(raw.header_delay).await;
    }
    let headers = raw.header_map();
    let length = headers.get("content-length").and_then(|v| v.to_str().ok()?.parse().ok());
    *connection.afterwards.lock().unwrap_or_else(PoisonError::into_inner) = raw.afterwards;
    let reset = Arc::clone(&connection.reset);
    let body = ReplyBody { pieces: raw.pieces.into(), end: raw.end, length, reset, sleep: None, yielded: true, guard };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(raw.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    Ok(response)
}

async fn decide(state: &State, request: &Recorded, number: u64) -> Raw {
    let step = state.script.lock().unwrap_or_else(PoisonError::into_inner).step();
    let (text, model) = match step.resolve(request) {
        Script::Raw(raw) => return raw,
        Script::Fixed(text) => (Some(text), None),
        Script::As(model) => (None, Some(model)),
        Script::Model | Script::Sequence(_) | Script::Fn(_) => (None, None),
    };
    match (&request.method, request.path()) {
        (&Method::POST, "/v1/chat/completions") => chat::reply(request, number, text, model).await,
        (&Method::POST, "/v1/messages") => messages::reply(request, number, text, model).await,
        (&Method::POST, "/v1/responses") => responses::reply(&state.responses, request, number, text, model).await,
        (&Method::POST, "/v1/embeddings") => embed::reply(request, model),
        (&Method::POST, "/v1/rerank") => rerank::reply(request, model),
        (&Method::GET, "/v1/models") => models(None),
        (&Method::GET, path) if path.starts_with("/v1/models/") => models(path.strip_prefix("/v1/models/")),
        (&Method::GET | &Method::DELETE, path) if is_response(path) => {
            state.responses.stored(&request.method, path.trim_start_matches("/v1/responses/"))
        }
        (_, path) if path.starts_with("/v1/") => echo(request),
        _ => Raw::error(404, "the mock answers under /v1/ only"),
    }
}

/// Whether a path is that of one response, and of nothing below it.
fn is_response(path: &str) -> bool {
    path.strip_prefix("/v1/responses/").is_some_and(|id| !id.is_empty() && !id.contains('/'))
}

fn models(only: Option<&str>) -> Raw {
    let model = |id: &str| serde_json::json!({ "id": id, "object": "model", "created": CREATED, "owned_by": "mock" });
    let body = match only {
        Some(id) => model(id),
        None => {
            let all: Vec<_> = ["mock", "mock-echo", "mock-fixed", "mock-embedding"].into_iter().map(model).collect();
            serde_json::json!({ "object": "list", "data": all })
        }
    };
    Raw::json(200, body.to_string())
}

fn echo(request: &Recorded) -> Raw {
    let body = serde_json::json!({
        "method": request.method.as_str(),
        "path": request.path(),
        "query": request.query(),
        "body": String::from_utf8_lossy(&request.body),
    });
    Raw::json(200, body.to_string())
}

/// Counts a reply that was not sent to its end, and closes the connection after one that was, where it is to be closed.
struct Guard {
    state: Arc<State>,
    connection: Arc<Connection>,
    finished: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.connection.afterwards() == Afterwards::Close {
            self.connection.close.notify_one();
        }
        if !self.finished {
            self.state.log.cancelled.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct ReplyBody {
    pieces: VecDeque<(Duration, Bytes)>,
    end: End,
    length: Option<u64>,
    reset: Arc<AtomicBool>,
    sleep: Option<Pin<Box<Sleep>>>,
    yielded: bool,
    guard: Guard,
}

/// The error that breaks a connection.
#[derive(Debug, thiserror::Error)]
#[error("the script cuts here")]
struct Cut;

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        // Between two pieces the server must come to flush, or it would write them as one (or lose them in a reset).
        if !std::mem::replace(&mut this.yielded, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some((delay, _)) = this.pieces.front() {
            if !delay.is_zero() {
                let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(*delay)));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                this.sleep = None;
            }
            let Some((_, piece)) = this.pieces.pop_front() else { return Poll::Ready(None) };
            this.yielded = false;
            this.guard.finished = this.pieces.is_empty() && this.end == End::Polite;
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match this.end {
            End::Stall => Poll::Pending,
            End::Late(wait) => {
                let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
                std::task::ready!(sleep.as_mut().poll(cx));
                this.guard.finished = true;
                Poll::Ready(None)
            }
            End::Polite => {
                this.guard.finished = true;
                Poll::Ready(None)
            }
            End::Reset => {
                this.guard.finished = true;
                this.reset.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(Cut)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.end == End::Polite
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
