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

use crate::prompts::MESSAGES_PATH;
use crate::{Result, process};

pub(crate) const ROLE: &str = "upstream";

/// A reply of about 600 bytes, as a short chat answer is.
const REPLY: &str = r#"{"id":"chatcmpl-9fQ2","object":"chat.completion","created":1764450000,"model":"fixed","choices":[{"index":0,"message":{"role":"assistant","content":"The train to the coast leaves twice an hour from the central station. Tickets are cheaper in advance, and the ride takes about fifty minutes when there are no works on the line. A seat by the left window has the better view.","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":112,"completion_tokens":48,"total_tokens":160},"service_tier":"default","system_fingerprint":"fp_1"}"#;

/// The same in Anthropic's dialect.
const MESSAGE: &str = r#"{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"fixed","content":[{"type":"text","text":"The train to the coast leaves twice an hour from the central station. Tickets are cheaper in advance, and the ride takes about fifty minutes when there are no works on the line. A seat by the left window has the better view."}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":112,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":48}}"#;

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
    let events = if request.uri().path() == MESSAGES_PATH { &ANTHROPIC } else { &OPENAI };
    let body = request.into_body().collect().await?.to_bytes();
    let (kind, body) = match script(&body) {
        Script::Fixed => ("application/json", Full::from(events.reply).boxed()),
        Script::Stream { chunks, distance } => ("text/event-stream", paced(events, chunks, distance)),
        Script::Hold => ("text/event-stream", held(events)),
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

fn paced(events: &'static Events, chunks: u32, distance: Duration) -> Body {
    let frames = stream::unfold(0, move |sent| async move {
        let event = match sent {
            0 => events.first(),
            _ if sent < chunks => {
                tokio::time::sleep(distance).await;
                events.content()
            }
            _ if sent == chunks => Bytes::from_static(events.last),
            _ => return None,
        };
        Some((Ok(Frame::data(event)), sent + 1))
    });
    StreamBody::new(frames).boxed()
}

fn held(events: &'static Events) -> Body {
    let frames = stream::unfold(true, move |first| async move {
        if !first {
            std::future::pending::<()>().await;
        }
        Some((Ok(Frame::data(events.first())), false))
    });
    StreamBody::new(frames).boxed()
}

/// What is written of a dialect.
#[derive(Debug)]
struct Events {
    reply: &'static str,
    /// Before the first piece, in the same write.
    opening: &'static str,
    /// What a piece begins and ends with.
    piece: (&'static str, &'static str),
    last: &'static [u8],
}

const OPENAI: Events = Events {
    reply: REPLY,
    opening: "",
    piece: (
        "data: {\"id\":\"chatcmpl-9fQ2\",\"object\":\"chat.completion.chunk\",\"created\":1764450000,\"model\":\"fixed\",\
         \"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
        "\"},\"finish_reason\":null}]}\n\n",
    ),
    last: b"data: {\"id\":\"chatcmpl-9fQ2\",\"object\":\"chat.completion.chunk\",\"created\":1764450000,\"model\":\"fixed\",\
            \"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
};

const ANTHROPIC: Events = Events {
    reply: MESSAGE,
    opening: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_01\",\"type\":\"message\",\"role\":\"assistant\",\
              \"model\":\"fixed\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":112,\"output_tokens\":1}}}\n\n\
              event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    piece: (
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"",
        "\"}}\n\n",
    ),
    last: b"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
            event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":48}}\n\n\
            event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
};

impl Events {
    fn first(&self) -> Bytes {
        Bytes::from(format!("{}{}", self.opening, self.piece()))
    }

    fn content(&self) -> Bytes {
        Bytes::from(self.piece())
    }

    /// A piece whose text is the time at which it was made, in nanoseconds: the reader sees how long it was under way.
    fn piece(&self) -> String {
        format!("{}{}{}", self.piece.0, crate::client::wall_clock_nanos(), self.piece.1)
    }
}
