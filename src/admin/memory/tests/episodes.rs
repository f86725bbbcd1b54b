use super::*;

#[tokio::test]
async fn an_episode_is_added_listed_labelled_and_deleted() {
    let api = Api::new().await;
    let new =
        json!({ "text": " The printer was replaced. ", "said_at": "2023-05-08", "tags": ["device"], "session": "s1" });
    let made = api.call(ANN, "POST", "/episodes", new).await.must_be(201);
    assert_eq!(made.body["text"], "The printer was replaced.");
    assert_eq!((&made.body["kind"], &made.body["role"]), (&json!("event"), &json!("other")));
    assert_eq!(made.body["said_at"], "2023-05-08T00:00:00.000Z");
    let path = format!("/episodes/{}", made.id());
    assert_eq!(api.get(ANN, &path).await.must_be(200).body, made.body);
    assert_eq!(api.get(ANN, "/episodes?session=s1").await.texts("id"), [made.id()]);
    assert_eq!(api.get(ANN, "/episodes?session=s2").await.texts("id"), [""; 0]);
    let labelled = api.call(ANN, "PATCH", &path, json!({ "tags": ["printer"] })).await.must_be(200);
    assert_eq!(labelled.body["tags"], json!(["printer"]));
    api.call(ANN, "PATCH", &path, json!({ "text": "else" })).await.must_be(400);
    api.call(ANN, "DELETE", &path, Value::Null).await.must_be(200);
    api.get(ANN, &path).await.must_be(404);
    assert_eq!(api.changes(), 3);
}

#[tokio::test]
async fn an_episode_without_text_or_too_long_is_refused() {
    let api = Api::new().await;
    for body in [
        json!({ "text": "  " }),
        json!({ "text": "x".repeat(2001) }),
        json!({ "text": "x", "said_at": "yesterday" }),
        json!({ "text": "x", "role": "robot" }),
        json!({ "text": "x", "tags": vec!["t"; 33] }),
    ] {
        api.call(ANN, "POST", "/episodes", body).await.must_be(400);
    }
}
