use super::*;

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
