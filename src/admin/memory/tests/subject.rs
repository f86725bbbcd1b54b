use std::sync::atomic::Ordering;

use super::*;
use crate::store::contract::index::point;
use crate::store::{Faulty, IndexPoint};

#[tokio::test]
async fn namespaces_are_those_of_the_key_with_the_subjects_revision() {
    let api = Api::new().await;
    api.add("location.home", "Oslo").await;
    let got = api.get(ANN, "/namespaces").await.must_be(200);
    let expected = json!([
        { "namespace": "support", "access": "write", "revision": 1 },
        { "namespace": "sales", "access": "read", "revision": 0 },
    ]);
    assert_eq!(got.body["data"], expected);
}

/// mem0ai/mem0#3746: erasure of one subject leaves all others as they were, and says what went.
#[tokio::test]
async fn an_erased_subject_leaves_a_receipt_and_nothing_else() {
    let api = Api::new().await;
    let id = api.add("location.home", "Oslo").await;
    api.call(ANN, "POST", "/episodes", json!({ "text": "We met." })).await.must_be(201);
    api.call(BOB, "POST", "/facts", json!({ "key": "location.home", "value": "Rome" })).await.must_be(201);
    let receipt = api.call(ANN, "DELETE", "/subject", Value::Null).await.must_be(200).body;
    assert_eq!((&receipt["subject"], &receipt["complete"]), (&json!("ann"), &json!(true)));
    assert_eq!((&receipt["counts"]["facts"], &receipt["counts"]["episodes"]), (&json!(1), &json!(1)));
    assert!(Time::parse(receipt["erased_at"].as_str().unwrap()).is_some());
    assert_eq!(api.noted.0.lock().unwrap().last(), Some(&ann()));
    assert_eq!(api.get(ANN, "/facts").await.body["data"], json!([]));
    api.get(ANN, &format!("/facts/{id}")).await.must_be(404);
    assert_eq!(api.get(BOB, "/facts").await.texts("value"), ["Rome"]);
}

async fn index_of_ann() -> Arc<Faulty> {
    let index = Arc::new(Faulty::default());
    index.prepare("one", 0).await.unwrap();
    let point = |n| IndexPoint { vector: Vec::new(), ..point(&ann(), n, [0.0; 3]) };
    index.put("one", &[point(1), point(2)]).await.unwrap();
    index
}

#[tokio::test]
async fn an_erasure_reaches_the_index_and_says_what_remains_there() {
    let index = index_of_ann().await;
    let api = Api::with_index(Some(Arc::clone(&index) as Arc<_>)).await;
    api.add("location.home", "Oslo").await;
    let receipt = api.call(ANN, "DELETE", "/subject", Value::Null).await.must_be(200).body;
    assert_eq!((&receipt["counts"]["index"], &receipt["complete"]), (&json!(2), &json!(true)));
    assert_eq!(receipt["index"], json!({ "engine": "memory", "remains": "nothing" }));
    assert_eq!(index.index.count("one").await.unwrap(), 0);
}

/// Design, promise 10: it is told, and made up for by the job that follows the changes.
#[tokio::test]
async fn an_index_that_is_away_leaves_the_erasure_incomplete_and_says_so() {
    let index = index_of_ann().await;
    index.is_away.store(true, Ordering::SeqCst);
    let api = Api::with_index(Some(Arc::clone(&index) as Arc<_>)).await;
    api.add("location.home", "Oslo").await;
    let receipt = api.call(ANN, "DELETE", "/subject", Value::Null).await.must_be(200).body;
    assert_eq!((&receipt["counts"]["facts"], &receipt["complete"]), (&json!(1), &json!(false)));
    assert!(receipt["index"]["remains"].as_str().unwrap().contains("could not be asked"), "{receipt}");
    assert_eq!(api.noted.0.lock().unwrap().last(), Some(&ann()), "no cache shows it");
}
