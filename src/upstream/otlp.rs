//! Sends to an OpenTelemetry collector: OTLP over HTTP, and over gRPC.
//!
//! A call of gRPC that has one message each way is a request of HTTP/2 with a frame around its body and its outcome in the trailers
//! (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>): the client that is there can do that, so that proxies, TLS and
//! trust are the same for all that leaves us. Nothing is compressed.

mod grpc;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use http_body_util::{BodyExt, Limited};
use reqwest::Url;

use super::attempt::root_cause;
use super::provider::{self, Reach};
use super::wait::retry_after;
use crate::base::{Clock, Secret};
use crate::telemetry::Signal;
use crate::telemetry::otlp::{Collector, SendError};

/// How long a connection may take to come up.
const CONNECT: Duration = Duration::from_secs(5);
/// So much of an answer is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// gRPC, usually on port 4317.
    Grpc,
    /// Protobuf over HTTP, usually on port 4318.
    Http,
}

/// A collector that is reached over the network.
pub struct HttpCollector {
    client: reqwest::Client,
    protocol: OtlpProtocol,
    base: Url,
    headers: HeaderMap,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for HttpCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpCollector")
            .field("protocol", &self.protocol)
            .field("base", &self.base.as_str())
            .finish_non_exhaustive()
    }
}

impl HttpCollector {
    /// Sends to `endpoint` (without `/v1/traces`), with these headers. A collector on this machine is reached without a proxy.
    ///
    /// # Errors
    /// A sentence: the endpoint is no URL, a header cannot be sent, or TLS cannot be set up.
    pub fn new(
        endpoint: &str,
        protocol: OtlpProtocol,
        headers: &[(String, Secret)],
        reach: &Reach,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, String> {
        let mut base = Url::parse(endpoint).map_err(|error| format!("{endpoint} is no address: {error}"))?;
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        let client = reach.apply(provider::client(), &base);
        let mut client = client
            .map_err(|error| error.causes().unwrap_or_else(|| error.to_string()))?
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true);
        if protocol == OtlpProtocol::Grpc {
            client = client.http2_prior_knowledge();
        }
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let cannot = || format!("the header {name} cannot be sent");
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| cannot())?;
            let mut value = HeaderValue::from_bytes(value.expose().as_bytes()).map_err(|_| cannot())?;
            value.set_sensitive(true);
            all.append(key, value);
        }
        let kind = match protocol {
            OtlpProtocol::Http => "application/x-protobuf",
            OtlpProtocol::Grpc => {
                all.insert(http::header::TE, HeaderValue::from_static("trailers"));
                "application/grpc"
            }
        };
        all.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let client = client.build().map_err(root_cause)?;
        Ok(Self { client, protocol, base, headers: all, clock })
    }

    fn url(&self, signal: Signal) -> Url {
        let path = match (self.protocol, signal) {
            (OtlpProtocol::Http, Signal::Traces) => "v1/traces",
            (OtlpProtocol::Http, Signal::Metrics) => "v1/metrics",
            (OtlpProtocol::Grpc, Signal::Traces) => "opentelemetry.proto.collector.trace.v1.TraceService/Export",
            (OtlpProtocol::Grpc, Signal::Metrics) => "opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        };
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }

    /// What the specification of OTLP says of statuses: these may be tried again, all others not.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap) -> SendError {
        let reason = format!("it answers {}", status.as_u16());
        match status.as_u16() {
            429 | 502 | 503 | 504 => SendError::Later { reason, after: retry_after(headers, self.clock.now()) },
            _ => SendError::Refused(reason),
        }
    }
}

#[async_trait]
impl Collector for HttpCollector {
    async fn send(&self, signal: Signal, message: Bytes) -> Result<Bytes, SendError> {
        let body = match self.protocol {
            OtlpProtocol::Http => message,
            OtlpProtocol::Grpc => grpc::framed(&message),
        };
        let request = self.client.post(self.url(signal)).headers(self.headers.clone()).body(body);
        let answer = request.send().await.map_err(|error| later(root_cause(error)))?;
        let (head, body) = http::Response::<reqwest::Body>::from(answer).into_parts();
        let read = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let read = read.map_err(|_| later("its answer broke off, or is none of a collector".to_owned()))?;
        if head.status != StatusCode::OK {
            return Err(self.refusal(head.status, &head.headers));
        }
        let trailers = read.trailers().cloned();
        let bytes = read.to_bytes();
        match self.protocol {
            OtlpProtocol::Http => Ok(bytes),
            OtlpProtocol::Grpc => grpc::answer(&head.headers, trailers.as_ref(), bytes),
        }
    }
}

fn later(reason: String) -> SendError {
    SendError::Later { reason, after: None }
}
