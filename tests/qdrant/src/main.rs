//! Qdrant's gRPC interface over Qdrant's real engine, for tests. It is not Qdrant's server: see README.md.

mod collections;
mod config;
mod convert;
mod points;
mod refuse;
mod shelf;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use qdrant_client::qdrant::collections_server::CollectionsServer;
use qdrant_client::qdrant::points_server::PointsServer;
use qdrant_client::qdrant::qdrant_server::{Qdrant, QdrantServer};
use qdrant_client::qdrant::{HealthCheckReply, HealthCheckRequest};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::shelf::Shelf;

/// A test server: Qdrant's gRPC interface over Qdrant's real engine (qdrant-edge 0.7.2). It is NOT Qdrant's server, and not for data that matters.
#[derive(Debug, Parser)]
#[command(name = "qdrant-test-server")]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The folder to keep collections in; left out: a temporary one, in memory.
    #[arg(long)]
    data: Option<PathBuf>,
    /// A file to write the port to, once it answers.
    #[arg(long)]
    port_file: Option<PathBuf>,
    /// The key that clients must send; left out: none is asked for.
    #[arg(long)]
    api_key: Option<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("qdrant-test-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let temporary = temporary()?;
    let shelf = Arc::new(Shelf::open(arguments.data.as_deref().unwrap_or(temporary.path()))?);
    let listener = TcpListener::bind(arguments.listen).await?;
    let address = listener.local_addr()?;
    if let Some(file) = &arguments.port_file {
        std::fs::write(file, address.port().to_string())?;
    }
    println!("listening on {address}");
    let key = arguments.api_key;
    let check = move |request| check_key(key.as_deref(), request);
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stopped = async {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    // As Qdrant's server: a request may be of any size.
    let points = PointsServer::new(points::Service(Arc::clone(&shelf))).max_decoding_message_size(usize::MAX);
    let collections = CollectionsServer::new(collections::Service(Arc::clone(&shelf)));
    // Else an answer in two pieces waits 40 ms for the client's delayed acknowledgement of the first.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .layer(tonic::service::InterceptorLayer::new(check))
        .add_service(points)
        .add_service(collections)
        .add_service(QdrantServer::new(Health))
        .serve_with_incoming_shutdown(incoming, stopped)
        .await?;
    Ok(())
}

/// In memory where the machine has a folder there: what is temporary need not be waited for.
fn temporary() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// As Qdrant's server says it.
fn check_key(key: Option<&str>, request: Request<()>) -> Result<Request<()>, Status> {
    let Some(key) = key else { return Ok(request) };
    match request.metadata().get("api-key") {
        None => Err(Status::unauthenticated("Must provide an API key or an Authorization bearer token")),
        Some(sent) if sent.as_bytes() == key.as_bytes() => Ok(request),
        Some(_) => Err(Status::permission_denied("Invalid API key or JWT")),
    }
}

struct Health;

#[tonic::async_trait]
impl Qdrant for Health {
    async fn health_check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckReply>, Status> {
        Ok(Response::new(HealthCheckReply {
            title: "test server over qdrant-edge 0.7.2; not Qdrant's server".to_owned(),
            // Of the interface that it speaks: what a client compares itself with.
            version: "1.20.0".to_owned(),
            commit: None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        use clap::CommandFactory as _;
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_key_is_asked_for_only_when_there_is_one() {
        let with = |sent: &'static str| {
            let mut request = Request::new(());
            request.metadata_mut().insert("api-key", sent.parse().expect("a header"));
            request
        };
        assert!(check_key(None, Request::new(())).is_ok());
        assert!(check_key(Some("right"), with("right")).is_ok());
        assert_eq!(check_key(Some("right"), with("wrong")).expect_err("refused").code(), tonic::Code::PermissionDenied);
        assert!(check_key(Some("right"), Request::new(())).is_err());
    }
}
