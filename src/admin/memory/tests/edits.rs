use super::*;

#[tokio::test]
async fn an_earlier_value_is_restored_in_one_call() {
    let api = Api::new().await;
    let oslo = api.add("location.home", "Oslo").await;
    let rome = api.add("location.home", "Rome").await;
    let path = format!("/facts/{oslo}/restore");
    api.call(ANN, "POST", &path, json!({ "version": 9 })).await.must_be(400);
    api.call(ANN, "POST", &path, json!({})).await.must_be(400);
    let late = [("tenant", "t"), ("user", "ann"), ("if-match", "\"1\"")];
    let conflict = api.call(&late, "POST", &path, json!({ "version": 1 })).await.must_be(409);
    assert_eq!(conflict.body["versions"], json!({ "expected": 1, "current": 2 }));
    let back = api.call(ANN, "POST", &path, json!({ "version": 1 })).await.must_be(200);
    assert_eq!((&back.body["value"], &back.body["status"]), (&json!("Oslo"), &json!("active")));
    assert_eq!(api.get(ANN, "/facts?current=true").await.texts("value"), ["Oslo"]);
    let history = api.get(ANN, &format!("/facts/{oslo}/history")).await;
    assert_eq!(history.texts("action"), ["insert", "supersede", "restore"]);
    let of_rome = api.get(ANN, &format!("/facts/{rome}/history")).await;
    assert_eq!(of_rome.texts("action"), ["supersede", "supersede"]);
    // Once more changes nothing.
    api.call(ANN, "POST", &path, json!({ "version": 1 })).await.must_be(400);
    // A value that was patched away.
    api.call(ANN, "PATCH", &format!("/facts/{oslo}"), json!({ "value": "Bern" })).await.must_be(200);
    let back = api.call(ANN, "POST", &path, json!({ "version": 3 })).await.must_be(200);
    assert_eq!(back.body["value"], "Oslo");
    // What is locked is for editors.
    api.call(EDITOR, "POST", &format!("/facts/{oslo}/lock"), Value::Null).await.must_be(200);
    api.call(ANN, "POST", &path, json!({ "version": 4 })).await.must_be(403);
    let edited = api.call(EDITOR, "POST", &path, json!({ "version": 4 })).await.must_be(200);
    assert_eq!((&edited.body["value"], &edited.body["source_type"]), (&json!("Bern"), &json!("operator")));
}

#[tokio::test]
async fn two_facts_that_are_one_are_merged() {
    let api = Api::new().await;
    let food = api
        .call(ANN, "POST", "/facts", json!({ "key": "preference.food", "value": "Sushi", "tags": ["a"] }))
        .await
        .id();
    let dish = api
        .call(ANN, "POST", "/facts", json!({ "key": "preference.dish", "value": "sushi", "tags": ["b"] }))
        .await
        .id();
    let path = format!("/facts/{dish}/merge");
    api.call(ANN, "POST", &path, json!({ "into": dish })).await.must_be(400);
    api.call(ANN, "POST", &path, json!({ "into": "fact_00000000000000000000000007" })).await.must_be(404);
    api.call(ANN, "POST", &path, json!({ "into": food, "version": 4 })).await.must_be(409);
    let merged = api.call(ANN, "POST", &path, json!({ "into": food, "version": 1 })).await.must_be(200);
    assert_eq!((merged.id(), &merged.body["seen"]), (food.clone(), &json!(2)));
    assert_eq!(merged.body["tags"], json!(["a", "b"]));
    assert_eq!(merged.body["evidence"].as_array().unwrap().len(), 2);
    assert_eq!(api.get(ANN, "/facts?current=true").await.texts("id"), std::slice::from_ref(&food));
    let history = api.get(ANN, &format!("/facts/{dish}/history")).await;
    assert_eq!(history.texts("action"), ["insert", "merge"]);
    assert!(history.texts("reason")[1].contains(&food));
    // Others' facts are not there, and what is critical is not lost by a merge.
    let nut = api.add("diet.allergy", "peanuts").await;
    api.call(ANN, "POST", &format!("/facts/{nut}/merge"), json!({ "into": food })).await.must_be(403);
    api.call(BOB, "POST", &path, json!({ "into": food })).await.must_be(404);
    let about = api
        .call(ANN, "POST", "/facts", json!({ "key": "preference.food", "value": "sushi", "about": "Bob" }))
        .await
        .id();
    api.call(ANN, "POST", &format!("/facts/{about}/merge"), json!({ "into": food })).await.must_be(400);
}

#[tokio::test]
async fn a_fact_is_moved_to_another_key() {
    let api = Api::new().await;
    let id = api.add("note.food", "vegetarian").await;
    let moved =
        api.call(ANN, "PATCH", &format!("/facts/{id}"), json!({ "key": "diet.restriction" })).await.must_be(200);
    assert_eq!((&moved.body["key"], &moved.body["kind"]), (&json!("diet.restriction"), &json!("constraint")));
    api.call(ANN, "PATCH", &format!("/facts/{id}"), json!({ "key": "diet.restrction" })).await.must_be(400);
    // A key that holds one value gives it to the newcomer.
    let role = api.add("work.role", "nurse").await;
    let note = api.add("note.job", "doctor").await;
    api.call(ANN, "PATCH", &format!("/facts/{note}"), json!({ "key": "work.role" })).await.must_be(200);
    assert_eq!(api.get(ANN, &format!("/facts/{role}")).await.body["status"], "superseded");
}
