use super::*;

#[tokio::test]
async fn changes_are_told_in_order_and_go_on_from_a_cursor() {
    let api = Api::new().await;
    assert_eq!(api.get(ANN, "/changes").await.must_be(200).body, json!({ "data": [], "next": null }));
    let id = api.add("location.home", "Oslo").await;
    api.call(ANN, "POST", "/episodes", json!({ "text": "We met." })).await.must_be(201);
    api.call(ANN, "PATCH", &format!("/facts/{id}"), json!({ "value": "Rome" })).await.must_be(200);
    let first = api.get(ANN, "/changes?limit=2").await.must_be(200);
    let next = first.body["next"].as_str().unwrap().to_owned();
    assert_eq!(
        (first.texts("type"), first.texts("action")),
        (vec!["fact".into(), "episode".into()], vec!["insert".into(), "put".into()])
    );
    let second = api.get(ANN, &format!("/changes?cursor={next}")).await.must_be(200);
    assert_eq!(second.texts("action"), ["edit"]);
    let changed = &second.body["data"][0];
    assert_eq!(
        (&changed["fact"]["value"], &changed["previous_value"], &changed["version"]),
        (&json!("Rome"), &json!("Oslo"), &json!(2))
    );
    let at_end = second.body["next"].as_str().unwrap().to_owned();
    assert_eq!(api.get(ANN, &format!("/changes?cursor={at_end}")).await.body, json!({ "data": [], "next": null }));
    api.call(ANN, "DELETE", &format!("/facts/{id}"), Value::Null).await.must_be(200);
    let gone = api.get(ANN, &format!("/changes?cursor={at_end}")).await.must_be(200);
    assert_eq!((gone.texts("id"), gone.texts("action")), (vec![id], vec!["delete".into()]));
    api.call(ANN, "DELETE", "/subject", Value::Null).await.must_be(200);
    let erased = api.get(ANN, &format!("/changes?cursor={next}")).await.must_be(200);
    assert_eq!((erased.texts("type"), erased.texts("action")), (vec!["subject".into()], vec!["erase".into()]));
    for query in ["cursor=1", "cursor=fact_1", "limit=0", "since=1"] {
        api.get(ANN, &format!("/changes?{query}")).await.must_be(400);
    }
}

/// bytedance/deer-flow#2739: changes hold the own scope and nothing else, and nothing too sensitive.
#[tokio::test]
async fn changes_hold_what_the_caller_may_see() {
    let api = Api::new().await;
    for n in 0..3 {
        api.add("health.condition", &format!("asthma {n}")).await;
    }
    api.add("project.tool", "cargo").await;
    for who in [BOB, OTHER_TENANT, OTHER_NAMESPACE] {
        assert_eq!(api.get(who, "/changes").await.must_be(200).body["data"], json!([]));
    }
    let careful = &[("tenant", "t"), ("user", "ann"), ("rights", "normal")];
    let seen = api.get(careful, "/changes?limit=1").await.must_be(200);
    assert_eq!(seen.body["data"][0]["fact"]["key"], "project.tool", "{}", seen.body);
}
