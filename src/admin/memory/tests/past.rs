use super::*;

/// Design, section 10: both times are asked for apart, and a wrong question is told from "nothing".
#[tokio::test]
async fn facts_of_another_time_are_what_held_and_what_was_known_then() {
    let api = Api::new().await;
    let began = api.clock.now();
    let oslo = api.add("location.home", "Oslo").await;
    let (first, later) = (api.clock.now(), api.clock.now().plus_millis(500));
    api.add("location.home", "Rome").await;
    api.call(ANN, "PATCH", &format!("/facts/{oslo}"), json!({ "tags": ["old"] })).await.must_be(200);
    let ask = async |query: String| api.get(ANN, &format!("/facts?{query}")).await.must_be(200).texts("value");
    assert_eq!(ask(format!("as_of={began}")).await, [""; 0]);
    assert_eq!(ask(format!("as_of={later}")).await, ["Oslo"]);
    assert_eq!(ask(format!("known_at={later}")).await, ["Oslo"]);
    assert_eq!(ask(format!("as_of={}", api.clock.now())).await, ["Rome"]);
    assert_eq!(ask(format!("as_of={}&known_at={first}", api.clock.now())).await, ["Oslo"]);
    assert_eq!(ask(format!("as_of={later}&key=work.role")).await, [""; 0]);
    assert_eq!(ask(format!("as_of={later}&key=location.*")).await, ["Oslo"]);
    assert_eq!(ask("as_of=2020-01-01".to_owned()).await, [""; 0]);
    // An offset whose plus sign was not escaped.
    assert_eq!(ask("as_of=2023-11-14T23:13:21.5+01:00".to_owned()).await, ["Oslo"]);
    for query in [
        "as_of=yesterday",
        "known_at=14.11.2023",
        "known_at=2999-01-01",
        "as_of=",
        "as_of=2023-11-14&status=active",
        "as_of=2023-11-14&current=true",
    ] {
        api.get(ANN, &format!("/facts?{query}")).await.must_be(400);
    }
    let careful = &[("tenant", "t"), ("user", "ann"), ("rights", "normal")];
    assert_eq!(api.get(careful, &format!("/facts?as_of={later}")).await.must_be(200).body["data"], json!([]));
}

#[tokio::test]
async fn facts_of_another_time_come_in_pieces() {
    let api = Api::new().await;
    for n in 0..5 {
        api.add("preference.food", &format!("dish {n}")).await;
    }
    let now = api.clock.now();
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let piece = api.get(ANN, &format!("/facts?as_of={now}&limit=2{cursor}")).await.must_be(200);
        seen.extend(piece.texts("value"));
        match piece.body["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    // One value of a key at a time: only the newest holds now.
    assert_eq!(seen, ["dish 4"]);
}
