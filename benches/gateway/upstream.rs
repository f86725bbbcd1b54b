//! The fast fixed upstream: it reads the request to its end and answers at once, with a fixed body or a paced stream.
//!
//! The model's name says what is wanted: `fixed`, `stream-CHUNKS-MILLISECONDS` (chunks in that distance, each carrying the
//! time at which it was written), or `hold` (one chunk, then silence until the client leaves).

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::{Result, process};

pub(crate) const ROLE: &str = "upstream";

/// A reply of about 600 bytes, as a short chat answer is.
const REPLY: &str = r#"{"id":"chatcmpl-9fQ2","object":"chat.completion","created":1764450000,"model":"fixed","choices":[{"index":0,"message":{"role":"assistant","content":"The train to the coast leaves twice an hour from the central station. Tickets are cheaper in advance, and the ride takes about fifty minutes when there are no works on the line. A seat by the left window has the better view.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":112,"completion_tokens":48,"total_tokens":160},"service_tier":"default","system_fingerprint":"fp_1"}"#;

type Body = BoxBody<Bytes, Infallible>;

/// What the model's name asks for.
#[derive(Clone, Copy, Debug)]
enum Script {
    Fixed,
    Stream { chunks: u32, distance: Duration },
    Hold,
}

/// Serves until the parent is gone.
pub(crate) fn serve() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        process::announce(listener.local_addr()?);
        let connections = TaskTracker::new();
        tokio::select! {
            outcome = accept(&listener, &connections) => outcome,
            () = process::parent_gone() => Ok(()),
        }
    })
}

async fn accept(listener: &TcpListener, connections: &TaskTracker) -> Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service_fn(answer));
        connections.spawn(async move {
            // A client that leaves is part of the measurement.
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> std::result::Result<Response<Body>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let (kind, body) = match script(&body) {
        Script::Fixed => ("application/json", Full::from(REPLY).boxed()),
        Script::Stream { chunks, distance } => ("text/event-stream", paced(chunks, distance)),
        Script::Hold => ("text/event-stream", held()),
    };
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(kind));
    Ok(response)
}

/// Our own load generator writes the model first; gateways that write the request anew do so wherever they like.
fn model(body: &[u8]) -> Option<&str> {
    const MEMBER: &[u8] = br#""model":"#;
    let value = body[memmem::find(body, MEMBER)? + MEMBER.len()..].trim_ascii_start().strip_prefix(b"\"")?;
    std::str::from_utf8(value.split(|byte| *byte == b'"').next()?).ok()
}

fn script(body: &[u8]) -> Script {
    let model = model(body).unwrap_or_default();
    if model == "hold" {
        return Script::Hold;
    }
    let Some((chunks, distance)) = model.strip_prefix("stream-").and_then(|rest| rest.split_once('-')) else {
        return Script::Fixed;
    };
    let distance = Duration::from_millis(distance.parse().unwrap_or(10));
    Script::Stream { chunks: chunks.parse().unwrap_or(10), distance }
}

fn paced(chunks: u32, distance: Duration) -> Body {
    let events = stream::unfold(0, move |sent| async move {
        let event = match sent {
            0 => content_event(),
            _ if sent < chunks => {
                tokio::time::sleep(distance).await;
                content_event()
            }
            _ if sent == chunks => last_event(),
            _ => return None,
        };
        Some((Ok(Frame::data(event)), sent + 1))
    });
    StreamBody::new(events).boxed()
}

fn held() -> Body {
    let events = stream::unfold(true, |first| async move {
        if !first {
            std::future::pending::<()>().await;
        }
        Some((Ok(Frame::data(content_event())), false))
    });
    StreamBody::new(events).boxed()
}

/// A chunk whose text is the time at which it was made, in nanoseconds: the reader sees how long it was under way.
fn content_event() -> Bytes {
    Bytes::from(format!(
        "data: {{\"id\":\"chatcmpl-9fQ2\",\"object\":\"chat.completion.chunk\",\"created\":1764450000,\"model\":\"fixed\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{}\"}},\"finish_reason\":null}}]}}\n\n",
        crate::client::wall_clock_nanos()
    ))
}

fn last_event() -> Bytes {
    Bytes::from_static(
        b"data: {\"id\":\"chatcmpl-9fQ2\",\"object\":\"chat.completion.chunk\",\"created\":1764450000,\"model\":\"fixed\",\
          \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    )
}
