//! The bare reverse proxy that everything is compared with: hyper's server, hyper-util's pooled client, streaming bodies,
//! TCP_NODELAY on both sides, and nothing else.

use std::sync::Arc;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::{Result, process};

pub(crate) const ROLE: &str = "bare";

type Body = BoxBody<Bytes, hyper::Error>;

#[derive(Debug)]
struct Proxy {
    /// `127.0.0.1:PORT` of the upstream.
    upstream: String,
    client: Client<HttpConnector, Incoming>,
}

/// Serves until the parent is gone. The upstream's address is the first argument.
pub(crate) fn serve() -> Result<()> {
    let upstream = std::env::args().nth(1).ok_or("the upstream's address is missing")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let proxy = Arc::new(Proxy { upstream, client });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        process::announce(listener.local_addr()?);
        let connections = TaskTracker::new();
        tokio::select! {
            outcome = accept(&listener, &proxy, &connections) => outcome,
            () = process::parent_gone() => Ok(()),
        }
    })
}

async fn accept(listener: &TcpListener, proxy: &Arc<Proxy>, connections: &TaskTracker) -> Result<()> {
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let proxy = Arc::clone(proxy);
        connections.spawn(async move {
            let service = service_fn(|request| forward(&proxy, request));
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            let _ = connection.await;
        });
    }
}

async fn forward(proxy: &Proxy, mut request: Request<Incoming>) -> std::result::Result<Response<Body>, http::Error> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let uri = Uri::builder().scheme("http").authority(proxy.upstream.as_str()).path_and_query(path).build()?;
    request.headers_mut().remove(hyper::header::HOST);
    *request.uri_mut() = uri;
    match proxy.client.request(request).await {
        Ok(response) => Ok(response.map(BodyExt::boxed)),
        Err(_) => {
            let body = Empty::new().map_err(|never| match never {}).boxed();
            Response::builder().status(StatusCode::BAD_GATEWAY).body(body)
        }
    }
}
