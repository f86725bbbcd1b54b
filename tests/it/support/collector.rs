//! A small OpenTelemetry collector: takes OTLP over HTTP or gRPC, and keeps what it got, decoded and as bytes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// How the collector is spoken to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http,
    Grpc,
}

/// All that came so far.
#[derive(Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<Span>,
    /// The newest of each name.
    pub(crate) metrics: Vec<Metric>,
    /// What the senders said of themselves.
    pub(crate) resource: Vec<KeyValue>,
    /// The headers of the requests.
    pub(crate) headers: Vec<HeaderMap>,
    /// Every message, undecoded.
    pub(crate) bytes: Vec<u8>,
}

/// A running collector.
pub(crate) struct Collector {
    pub(crate) addr: SocketAddr,
    got: Arc<Mutex<Received>>,
    _serving: JoinSet<()>,
}

impl Collector {
    pub(crate) async fn start(speaks: Speaks) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let got = Arc::new(Mutex::new(Received::default()));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, speaks, Arc::clone(&got)));
        Self { addr, got, _serving: serving }
    }

    /// Looks at what came so far.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Received) -> T) -> T {
        look(&self.got.lock().unwrap())
    }

    /// The spans of this name that came so far.
    pub(crate) fn spans(&self, name: &str) -> Vec<Span> {
        self.look(|got| got.spans.iter().filter(|span| span.name == name).cloned().collect())
    }

    /// The only span of this name.
    #[track_caller]
    pub(crate) fn span(&self, name: &str) -> Span {
        let mut found = self.spans(name);
        assert_eq!(found.len(), 1, "spans named {name} among {:?}", self.names());
        found.remove(0)
    }

    /// The names of all spans that came so far.
    pub(crate) fn names(&self) -> Vec<String> {
        self.look(|got| got.spans.iter().map(|span| span.name.clone()).collect())
    }
}

/// An attribute as text; of a list its first element; empty where there is none.
pub(crate) fn attribute(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    found.and_then(|attribute| attribute.value.as_ref()).map(text).unwrap_or_default()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(n)) => n.to_string(),
        Some(Value::BoolValue(flag)) => flag.to_string(),
        Some(Value::DoubleValue(n)) => n.to_string(),
        Some(Value::ArrayValue(list)) => list.values.first().map(text).unwrap_or_default(),
        other => format!("{other:?}"),
    }
}

async fn serve(listener: TcpListener, speaks: Speaks, got: Arc<Mutex<Received>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let got = Arc::clone(&got);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, speaks, Arc::clone(&got)));
            // A client that goes away is no fault.
            let _ = match speaks {
                Speaks::Http => http1::Builder::new().serve_connection(TokioIo::new(stream), service).await,
                Speaks::Grpc => {
                    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await
                }
            };
        });
    }
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(request: Request<Incoming>, speaks: Speaks, got: Arc<Mutex<Received>>) -> Result<Answer, hyper::Error> {
    let (head, body) = request.into_parts();
    let mut message = body.collect().await?.to_bytes();
    if speaks == Speaks::Grpc {
        assert_eq!(message.get_u8(), 0, "not compressed");
        assert_eq!(message.get_u32() as usize, message.len());
        assert_eq!(head.headers["content-type"], "application/grpc");
    }
    let path = head.uri.path();
    let mut got = got.lock().unwrap();
    got.bytes.extend_from_slice(&message);
    got.headers.push(head.headers.clone());
    if path == "/v1/traces" || path == "/opentelemetry.proto.collector.trace.v1.TraceService/Export" {
        for of_resource in ExportTraceServiceRequest::decode(message).unwrap().resource_spans {
            got.resource = of_resource.resource.unwrap_or_default().attributes;
            got.spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else if path == "/v1/metrics" || path == "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" {
        for of_resource in ExportMetricsServiceRequest::decode(message).unwrap().resource_metrics {
            got.resource = of_resource.resource.unwrap_or_default().attributes;
            got.metrics = of_resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics).collect();
        }
    } else {
        return Ok(Response::builder().status(404).body(Empty::new().boxed()).unwrap());
    }
    Ok(match speaks {
        Speaks::Http => Response::new(Empty::new().boxed()),
        Speaks::Grpc => {
            let trailers =
                [("grpc-status", "0")].map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            let frames = [Frame::data(Bytes::from_static(&[0; 5])), Frame::trailers(trailers.into_iter().collect())];
            let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, Infallible>)));
            Response::builder().header("content-type", "application/grpc").body(BodyExt::boxed(body)).unwrap()
        }
    })
}
