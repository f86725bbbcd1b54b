use super::*;

#[tokio::test]
async fn a_fact_is_added_read_listed_and_its_caches_dropped() {
    let api = Api::new().await;
    let made = api.call(ANN, "POST", "/facts", json!({ "key": "location.home", "value": "Oslo" })).await.must_be(201);
    assert_eq!(made.body["source_type"], "api_response");
    assert_eq!(made.body["recorded_at"], "2023-11-14T22:13:21.000Z");
    assert_eq!(api.get(ANN, &format!("/facts/{}", made.id())).await.must_be(200).body, made.body);
    let listed = api.get(ANN, "/facts").await.must_be(200);
    assert_eq!(listed.body, json!({ "data": [made.body], "next": null }));
    assert_eq!(*api.noted.0.lock().unwrap(), [ann()]);
}

#[tokio::test]
async fn a_second_value_of_a_single_key_takes_the_place_of_the_first() {
    let api = Api::new().await;
    let oslo = api.add("location.home", "Oslo").await;
    let rome = api.add("location.home", "Rome").await;
    assert_ne!(oslo, rome);
    let current = api.get(ANN, "/facts?current=true&key=location.home").await.must_be(200);
    assert_eq!(current.texts("value"), ["Rome"]);
    assert_eq!(api.get(ANN, "/facts?status=superseded").await.texts("value"), ["Oslo"]);
    let history = api.get(ANN, &format!("/facts/{oslo}/history")).await.must_be(200);
    assert_eq!(history.texts("action"), ["insert", "supersede"]);
    assert_eq!(history.texts("actor"), ["api", "api"]);
    // The same value again is the same fact.
    let again = api.call(ANN, "POST", "/facts", json!({ "key": "location.home", "value": "Rome" })).await.must_be(200);
    assert_eq!(again.id(), rome);
}

#[tokio::test]
async fn two_first_values_of_a_single_key_at_once_leave_one() {
    let api = Api::new().await;
    let add = |value: &'static str| api.call(ANN, "POST", "/facts", json!({ "key": "location.home", "value": value }));
    let (a, b, c) = tokio::join!(add("Oslo"), add("Rome"), add("Bern"));
    for got in [a, b, c] {
        got.must_be(201);
    }
    assert_eq!(api.get(ANN, "/facts?current=true").await.texts("value").len(), 1);
}

#[tokio::test]
async fn lists_come_in_pieces_without_gap_or_double() {
    let api = Api::new().await;
    for n in 0..7 {
        api.add("preference.food", &format!("dish {n}")).await;
    }
    let (mut seen, mut path) = (Vec::new(), "/facts?limit=3".to_owned());
    loop {
        let piece = api.get(ANN, &path).await.must_be(200);
        seen.extend(piece.texts("value"));
        match piece.body["next"].as_str() {
            Some(next) => path = format!("/facts?limit=3&cursor={next}"),
            None => break,
        }
    }
    let all = api.get(ANN, "/facts").await.texts("value");
    assert_eq!(seen, all);
    assert_eq!(seen.len(), 7);
}

#[tokio::test]
async fn wrong_filters_are_refused_instead_of_listing_everything() {
    let api = Api::new().await;
    for query in ["limit=0", "limit=501", "limit=x", "cursor=nonsense", "status=actve", "kye=a", "current=maybe"] {
        api.get(ANN, &format!("/facts?{query}")).await.must_be(400);
    }
    api.get(ANN, "/episodes?kind=event").await.must_be(400);
    api.get(ANN, "/proposals?status=nope").await.must_be(400);
}

#[tokio::test]
async fn a_fact_is_changed_against_the_version_that_was_read() {
    let api = Api::new().await;
    let id = api.add("location.home", "Oslo").await;
    let path = format!("/facts/{id}");
    let changed = api.call(ANN, "PATCH", &path, json!({ "value": "Rome", "version": 1 })).await.must_be(200);
    assert_eq!((&changed.body["value"], &changed.body["version"]), (&json!("Rome"), &json!(2)));
    let late = api.call(ANN, "PATCH", &path, json!({ "value": "Bern", "version": 1 })).await.must_be(409);
    assert_eq!(late.body["versions"], json!({ "expected": 1, "current": 2 }));
    assert_eq!((&late.body["expected"]["value"], &late.body["current"]["value"]), (&json!("Oslo"), &json!("Rome")));
    assert_eq!(late.body["error"]["code"], "conflict");

    let with_header = |version: &'static str| [("tenant", "t"), ("user", "ann"), ("if-match", version)];
    api.call(&with_header("\"1\""), "PATCH", &path, json!({ "value": "Bern" })).await.must_be(409);
    api.call(&with_header("x"), "PATCH", &path, json!({ "value": "Bern" })).await.must_be(400);
    api.call(&with_header("2"), "PATCH", &path, json!({ "value": "Bern", "version": 3 })).await.must_be(400);
    api.call(&with_header("\"2\""), "PATCH", &path, json!({ "value": "Bern" })).await.must_be(200);
    api.call(&with_header("*"), "PATCH", &path, json!({ "tags": ["x"] })).await.must_be(200);
    api.call(&with_header("\"1\""), "DELETE", &path, Value::Null).await.must_be(409);
    // Without a version the last word holds.
    let free = api.call(ANN, "PATCH", &path, json!({ "value": "Lima" })).await.must_be(200);
    assert_eq!(free.body["version"], 5);
}

#[tokio::test]
async fn of_many_changes_of_one_version_one_wins() {
    let api = Api::new().await;
    let path = format!("/facts/{}", api.add("location.home", "Oslo").await);
    let change = |value: &'static str| api.call(ANN, "PATCH", &path, json!({ "value": value, "version": 1 }));
    let (a, b, c) = tokio::join!(change("Rome"), change("Bern"), change("Lima"));
    let mut statuses = [a.status, b.status, c.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
}

#[tokio::test]
async fn a_locked_fact_is_changed_and_deleted_by_editors_only() {
    let api = Api::new().await;
    let path = format!("/facts/{}", api.add("location.home", "Oslo").await);
    let lock = format!("{path}/lock");
    let locked = api.call(EDITOR, "POST", &lock, Value::Null).await.must_be(200);
    assert_eq!((&locked.body["locked"], &locked.body["version"]), (&json!(true), &json!(2)));
    // Once more changes nothing.
    assert_eq!(api.call(EDITOR, "POST", &lock, Value::Null).await.must_be(200).body["version"], 2);
    api.call(ANN, "PATCH", &path, json!({ "value": "Rome" })).await.must_be(403);
    api.call(ANN, "DELETE", &path, Value::Null).await.must_be(403);
    let contested = api.call(ANN, "POST", "/facts", json!({ "key": "location.home", "value": "Rome" })).await;
    assert_ne!(contested.body["status"], "active", "{}", contested.body);
    let edited = api.call(EDITOR, "PATCH", &path, json!({ "value": "Bern" })).await.must_be(200);
    assert_eq!(edited.body["source_type"], "operator");
    assert_eq!(api.call(EDITOR, "DELETE", &lock, Value::Null).await.must_be(200).body["locked"], false);
    api.call(EDITOR, "DELETE", &path, Value::Null).await.must_be(200);
}

#[tokio::test]
async fn a_confirmed_fact_is_the_persons_own_word() {
    let api = Api::new().await;
    let path = format!("/facts/{}", api.add("location.home", "Oslo").await);
    let confirmed = api.call(ANN, "POST", &format!("{path}/confirm"), Value::Null).await.must_be(200);
    assert_eq!(confirmed.body["source_type"], "user_confirmed");
    let history = api.get(ANN, &format!("{path}/history")).await;
    assert_eq!(history.texts("action"), ["insert", "confirm"]);
}

#[tokio::test]
async fn a_deleted_fact_is_gone_with_its_history() {
    let api = Api::new().await;
    let path = format!("/facts/{}", api.add("location.home", "Oslo").await);
    let before = api.changes();
    let gone = api.call(ANN, "DELETE", &path, Value::Null).await.must_be(200);
    assert_eq!(gone.body["deleted"], true);
    assert_eq!(api.changes(), before + 1);
    api.get(ANN, &path).await.must_be(404);
    api.get(ANN, &format!("{path}/history")).await.must_be(404);
    api.call(ANN, "DELETE", &path, Value::Null).await.must_be(404);
}
