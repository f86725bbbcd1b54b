use super::*;

fn said(role: Speaker, text: &str) -> Said {
    Said { role, text: text.into(), hash: String::new() }
}

fn turn(exchange: ExchangeId, at: Time) -> Turn {
    Turn {
        exchange,
        scope: ann(),
        epoch: 0,
        session: "s".into(),
        turn_key: "k".into(),
        turn_index: 0,
        said_at: at,
        before: None,
        user: vec![said(Speaker::User, "where is my order?")],
        repeated: false,
        reply: Some(said(Speaker::Assistant, "on its way")),
        complete: true,
        shown: Vec::new(),
        trace: None,
    }
}

fn shown(exchange: ExchangeId, at: Time) -> Shown {
    Shown {
        exchange,
        at,
        model: "m".into(),
        target: "p/m".into(),
        memory: "hit; facts=1".into(),
        context: "counted=1".into(),
        detail: json!({ "at": 1 }),
        complete: true,
    }
}

fn proposal(exchange: ExchangeId, at: Time) -> Proposal {
    let said = Evidence {
        exchange: Some(exchange),
        message_hash: "h".into(),
        quote: "q".into(),
        role: Speaker::User,
        said_at: at,
    };
    let candidate = Candidate { kind: FactKind::Identity, ..Candidate::stated("location.home", "Oslo", said) };
    let id = ProposalId::generate(at, &SeededRandom::new(3));
    Proposal {
        id,
        exchange: Some(exchange),
        at,
        candidate,
        status: ProposalStatus::Refused,
        reason: "fleeting".into(),
        fact: None,
    }
}

#[tokio::test]
async fn an_exchange_and_its_proposals_can_be_looked_up_by_their_own_subject() {
    let api = Api::new().await;
    let (exchange, at) = (ExchangeId(7), Time(1_700_000_000_000));
    let done = Finished {
        exchange,
        scope: ann(),
        at,
        turn: Some(turn(exchange, at)),
        shown: Some(shown(exchange, at)),
        state: None,
        usage: None,
    };
    api.store.append(&[done]).await.unwrap();
    let lease = std::time::Duration::from_secs(60);
    api.store.claim(&Claim { owner: "w".into(), now: at, lease, max: 1 }).await.unwrap();
    let learned = Learned {
        exchange,
        keep: true,
        scope: ann(),
        epoch: 0,
        turn_key: "k".into(),
        user_side: true,
        revision: 0,
        now: at,
        changes: Vec::new(),
        episodes: Vec::<Episode>::new(),
        proposals: vec![proposal(exchange, at)],
        marks: Vec::new(),
    };
    api.store.learn("w", &[learned]).await.unwrap();

    let got = api.get(ANN, &format!("/exchanges/{exchange}")).await.must_be(200);
    assert_eq!((&got.body["target"], &got.body["detail"]), (&json!("p/m"), &json!({ "at": 1 })));
    assert_eq!(got.body["at"], "2023-11-14T22:13:20.000Z");
    let said = [("user", "where is my order?"), ("assistant", "on its way")];
    assert_eq!(got.body["said"], json!(said.map(|(role, text)| json!({ "role": role, "text": text }))));
    api.get(BOB, &format!("/exchanges/{exchange}")).await.must_be(404);
    api.get(ANN, &format!("/exchanges/{}", ExchangeId(8))).await.must_be(404);

    let refused = api.get(ANN, "/proposals?status=refused").await.must_be(200);
    assert_eq!(refused.texts("reason"), ["fleeting"]);
    assert_eq!(api.get(ANN, "/proposals?status=accepted").await.texts("reason"), [""; 0]);
}
