//! Servers that are away, slow, cut off, or something else.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use super::proxy::Proxy;
use super::{Options, Qdrant, options, server};
use crate::base::Secret;
use crate::store::contract::fixtures::scope;
use crate::store::contract::index::{near, point};
use crate::store::{ScopeKey, StoreError, VectorIndex};

const A: &str = "model-a/3/x";
const X: [f32; 3] = [1.0, 0.0, 0.0];

#[track_caller]
fn assert_unavailable<T: std::fmt::Debug>(result: Result<T, StoreError>, words: &[&str]) {
    match result {
        Err(StoreError::Unavailable(text)) => {
            for word in words {
                assert!(text.contains(word), "{word:?} is not in {text:?}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_no_error_until_it_is_asked() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let index = Qdrant::connect(&options(&format!("http://{free}"))).unwrap();
    assert_unavailable(index.ping().await, &[&free.to_string(), "is it up", "6334"]);
    assert_unavailable(index.prepare(A, 3).await, &["describe a collection"]);
    assert_unavailable(index.search(A, &near(&scope("ann"), &X)).await, &["search"]);
    assert_unavailable(index.erase("t", ScopeKey::of(&scope("ann"))).await, &[]);
}

/// The bound is on the whole call, its repetition included.
#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    TaskTracker::new().spawn(async move {
        let mut held = Vec::new();
        while let Ok((client, _)) = silent.accept().await {
            held.push(client);
        }
    });
    let index = Qdrant::connect(&Options { timeout: Duration::from_millis(100), ..options(&url) }).unwrap();
    let started = Instant::now();
    assert_unavailable(index.search(A, &near(&scope("ann"), &X)).await, &["within 100 ms"]);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_port_that_does_not_speak_grpc_is_named() {
    let rest = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", rest.local_addr().unwrap());
    TaskTracker::new().spawn(async move {
        while let Ok((mut client, _)) = rest.accept().await {
            let _ = client.read(&mut [0; 1024]).await;
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let index = Qdrant::connect(&options(&url)).unwrap();
    assert_unavailable(index.ping().await, &["gRPC port (6334)"]);
}

#[test]
fn a_key_that_cannot_be_sent_is_found_at_once_and_not_shown() {
    let key = Some(Secret::from("qd-secret\n"));
    match Qdrant::connect(&Options { api_key: key, ..options("http://127.0.0.1:6334") }) {
        Err(StoreError::Unusable(text)) => assert!(text.contains("vectors.api_key") && !text.contains("qd-"), "{text}"),
        other => panic!("{other:?}"),
    }
    let index =
        Qdrant::connect(&Options { api_key: Some(Secret::from("qd-secret")), ..options("http://h:1") }).unwrap();
    assert!(!format!("{index:?}").contains("qd-"));
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_again() {
    let Some(url) = server() else { return };
    let proxy = Proxy::to(&url).await;
    proxy.close();
    let index = Qdrant::connect(&options(&proxy.url())).unwrap();
    assert_unavailable(index.prepare(A, 3).await, &[]);
    proxy.open();
    index.prepare(A, 3).await.unwrap();
    proxy.close();
    assert_unavailable(index.count(A).await, &["count points"]);
    proxy.open();
    assert_eq!(index.count(A).await.unwrap(), 0);
    index.drop_generation(A).await.unwrap();
}

/// Every write that returned well is there, however often the line was cut; one that did not is done once more by whoever asked for it.
#[tokio::test]
async fn nothing_that_was_put_is_lost_when_connections_are_cut_under_load() {
    let Some(url) = server() else { return };
    let proxy = Proxy::to(&url).await;
    let index = Qdrant::connect(&options(&proxy.url())).unwrap();
    index.prepare(A, 3).await.unwrap();
    let ann = scope("ann");
    let mut failed = 0;
    for n in 0..60_u128 {
        let points: Vec<_> = (0..50).map(|i| point(&ann, n * 50 + i, X)).collect();
        let (put, ()) = tokio::join!(index.put(A, &points), async {
            if n % 3 == 0 {
                tokio::task::yield_now().await;
                proxy.cut();
            }
        });
        match put {
            Ok(()) => {}
            Err(StoreError::Unavailable(_)) => {
                failed += 1;
                index.put(A, &points).await.unwrap();
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(failed < 30, "a line that was cut once is tried once more by itself");
    assert_eq!(index.count(A).await.unwrap(), 3000);
    index.drop_generation(A).await.unwrap();
}
