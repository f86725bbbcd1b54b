//! What a server says in gRPC's status, and what is made of it.

use bytes::Bytes;
use http::{HeaderValue, Response};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::{Options, Qdrant, options};
use crate::base::Secret;
use crate::store::contract::fixtures::scope;
use crate::store::contract::index::near;
use crate::store::{IndexHits, StoreError, VectorIndex};

/// A server that answers everything with one status. Returns its URL.
async fn refusing(code: u8, message: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let tracker = TaskTracker::new();
    tracker.clone().spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tracker.spawn(async move {
                let mut connection = h2::server::handshake(client).await.unwrap();
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let mut response = Response::new(());
                    let headers = response.headers_mut();
                    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
                    headers.insert("grpc-status", HeaderValue::from(u16::from(code)));
                    headers.insert("grpc-message", HeaderValue::from_static(message));
                    let _: Result<h2::SendStream<Bytes>, _> = respond.send_response(response, true);
                }
            });
        }
    });
    url
}

async fn search(url: &str) -> Result<IndexHits, StoreError> {
    let options = Options { api_key: Some(Secret::from("qd-wrong")), ..options(url) };
    Qdrant::connect(&options).unwrap().search("model-a/3/x", &near(&scope("ann"), &[1.0, 0.0, 0.0])).await
}

#[tokio::test]
async fn a_refusal_says_what_to_do_about_it() {
    let unusable: [(u8, &str, &str); 6] = [
        (3, "Wrong input: Vector dimension error: expected dim: 4", "expected dim: 4"),
        (5, "Not found: Collection `x` doesn't exist!", "--reindex"),
        (7, "Invalid API key or JWT", "vectors.api_key"),
        (9, "Bad state", "Bad state"),
        (12, "", "version that fits"),
        (16, "Must provide an API key", "vectors.api_key"),
    ];
    for (code, message, words) in unusable {
        match search(&refusing(code, message).await).await {
            Err(StoreError::Unusable(text)) => assert!(text.contains(words) && !text.contains("qd-"), "{code}: {text}"),
            other => panic!("{code}: {other:?}"),
        }
    }
    let unavailable: [(u8, &str, &str); 4] = [
        (8, "Rate limit exceeded", "at its limit: Rate limit exceeded"),
        (13, "Service internal error: No space left on device", "No space left on device"),
        (14, "", "is it up"),
        (4, "Timeout", "Timeout"),
    ];
    for (code, message, words) in unavailable {
        match search(&refusing(code, message).await).await {
            Err(StoreError::Unavailable(text)) => {
                assert!(text.contains(words) && !text.contains("qd-"), "{code}: {text}")
            }
            other => panic!("{code}: {other:?}"),
        }
    }
}
