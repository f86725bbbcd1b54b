//! A bare HTTP client: what it sends and gets is seen to the byte.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{PATIENCE, eventually};

/// A request that is being put together.
#[derive(Clone)]
pub(crate) struct Ask {
    addr: SocketAddr,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    /// The body goes out in chunks of this size, without a length.
    chunks: Option<usize>,
}

impl Ask {
    pub(crate) fn new(addr: SocketAddr, method: &str, target: &str) -> Self {
        let headers = vec![("host".to_owned(), addr.to_string())];
        Self { addr, method: method.to_owned(), target: target.to_owned(), headers, body: Bytes::new(), chunks: None }
    }

    /// Sets a header, in place of one of the same name.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(n, _)| n != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a header out.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(n, _)| n != name);
        self
    }

    /// Authenticates with another key.
    pub(crate) fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// Names the subject.
    pub(crate) fn user(self, name: &str) -> Self {
        self.header("x-backstory-user", name)
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Sends the body in chunks, without saying how long it is.
    pub(crate) fn chunked(mut self, size: usize) -> Self {
        self.chunks = Some(size);
        self
    }

    /// Sends it and returns as soon as the header is there.
    pub(crate) async fn open(self) -> Opened {
        let mut connection = JoinSet::new();
        // A busy machine may turn a connection away; nothing was sent on it yet.
        let stream = eventually("a connection", || async { TcpStream::connect(self.addr).await.ok() }).await;
        let (mut sender, running) =
            http1::handshake::<_, BoxBody<Bytes, Infallible>>(TokioIo::new(stream)).await.unwrap();
        connection.spawn(running);
        let mut request = Request::builder().method(self.method.as_str()).uri(&self.target);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = match self.chunks {
            None => Full::new(self.body).boxed(),
            Some(size) => {
                let pieces: Vec<_> = self.body.chunks(size).map(Bytes::copy_from_slice).collect();
                let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
                BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)))
            }
        };
        let answer = tokio::time::timeout(PATIENCE, sender.send_request(request.body(body).unwrap()));
        let (head, body) = answer.await.expect("an answer in time").unwrap().into_parts();
        Opened { status: head.status, headers: head.headers, body, _connection: connection }
    }

    /// Sends it and reads the reply to its end.
    pub(crate) async fn send(self) -> Got {
        self.open().await.rest().await
    }
}

/// A reply whose body is still to come. Dropping it is a client that leaves.
pub(crate) struct Opened {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    _connection: JoinSet<hyper::Result<()>>,
}

impl Opened {
    /// The next piece of the body as it came off the wire; `None` at the end, clean or not.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        self.frame().await?.ok()
    }

    async fn frame(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("the body goes on or ends")?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }

    /// Reads on until this text has come, and returns everything up to there.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(text) {
            let piece = self.next().await.unwrap_or_else(|| panic!("no {text:?} in {seen:?}"));
            seen.push_str(std::str::from_utf8(&piece).unwrap());
        }
        seen
    }

    /// Reads the reply to its end.
    pub(crate) async fn rest(mut self) -> Got {
        let mut pieces = Vec::new();
        let mut broken = false;
        while let Some(frame) = self.frame().await {
            match frame {
                Ok(piece) => pieces.push(piece),
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        Got { status: self.status, headers: self.headers, body: Bytes::from(pieces.concat()), broken }
    }
}

/// A reply that was read to its end.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The connection broke before the end.
    pub(crate) broken: bool,
}

impl Got {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {:?}", self.body))
    }

    /// A header's text; empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The outcome of memory, as the header tells it.
    pub(crate) fn memory(&self) -> &str {
        self.header("x-backstory-memory")
    }

    /// One figure of `x-backstory-context`.
    #[track_caller]
    pub(crate) fn context(&self, name: &str) -> usize {
        let header = self.header("x-backstory-context");
        let mut pairs = header.split("; ").filter_map(|pair| pair.split_once('='));
        let figure = pairs.find(|(key, _)| *key == name).unwrap_or_else(|| panic!("no {name} in {header:?}"));
        figure.1.parse().unwrap()
    }

    /// Asserts a status, with the body in the message.
    #[track_caller]
    pub(crate) fn must_be(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.body));
        self
    }

    /// Asserts an error of our own in OpenAI's envelope and returns its `error` member.
    #[track_caller]
    pub(crate) fn must_be_error(self, status: u16) -> Value {
        let got = self.must_be(status);
        assert_eq!(got.header("content-type"), "application/json");
        let error = got.json()["error"].clone();
        for member in ["message", "type"] {
            assert!(error[member].is_string(), "{member} in {error}");
        }
        for member in ["param", "code"] {
            assert!(error[member].is_string() || error[member].is_null(), "{member} in {error}");
            assert!(error.get(member).is_some(), "{member} in {error}");
        }
        error
    }
}
