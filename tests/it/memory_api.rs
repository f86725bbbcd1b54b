//! The memory API over time: what was true when, corrections, changes, forgetting, moving in and out.

use std::collections::HashSet;

use backstory::mock::Script;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Got, KEY, Stack, binary};

const EDITOR: &str = "[[keys]]\nkey = \"${KEY}\"\ntenant = \"one\"\nmay_edit = true\n";

async fn plain() -> Stack {
    Stack::of(Script::Fixed("I see.".to_owned())).keys(EDITOR).start().await
}

async fn call(stack: &Stack, method: &str, path: &str, body: Value) -> Got {
    let ask = stack.ask(method, &format!("/memory/v1{path}")).user("ann");
    if body.is_null() { ask.send().await } else { ask.json(&body).send().await }
}

async fn values(stack: &Stack, query: &str) -> Vec<String> {
    let body = call(stack, "GET", &format!("/facts?{query}"), Value::Null).await.must_be(200).json();
    body["data"].as_array().unwrap().iter().map(|fact| fact["value"].as_str().unwrap().to_owned()).collect()
}

// Issue 4: "three months ago this user said a preference; bring it back exactly, and not the old value that was changed".
#[tokio::test]
async fn what_was_said_in_chat_can_be_asked_for_by_both_times_and_restored() {
    let stack = plain().await;
    stack.tell("ann", "I live in Oslo.").await;
    let oslo = stack.fact_id("ann", "location.home").await;
    let of_oslo = call(&stack, "GET", &format!("/facts/{oslo}"), Value::Null).await.json();
    let then = of_oslo["recorded_at"].as_str().unwrap().to_owned();
    stack.tell("ann", "I moved to Rome last week, so I live in Rome now.").await;
    assert_eq!(values(&stack, "current=true&key=location.home").await, ["Rome"]);
    assert_eq!(values(&stack, &format!("known_at={then}&key=location.home")).await, ["Oslo"]);
    let history = call(&stack, "GET", &format!("/facts/{oslo}/history"), Value::Null).await.json();
    let last = history["data"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["action"], &last["actor"]), (&json!("supersede"), &json!("rules")));
    assert!(last["exchange"].is_string() && last["reason"].is_string(), "{last}");
    assert!(last["fact"]["evidence"][0]["quote"].as_str().unwrap().contains("Oslo"));

    let back = call(&stack, "POST", &format!("/facts/{oslo}/restore"), json!({ "version": 1 })).await.must_be(200);
    assert_eq!(back.json()["source_type"], "operator");
    let shown = stack.shown("ann", "Where do I live, which city is my home?").await;
    assert!(shown.contains("Oslo") && !shown.contains("Rome"), "{shown}");
}

// smaramwbc/statewave#236: a retired value came back through an episode; here after each kind of edit.
#[tokio::test]
async fn a_value_that_was_edited_away_does_not_come_back_through_an_episode() {
    let stack = plain().await;
    stack.tell("ann", "My wifi network at home is called bluewhale and the router stands in the hall.").await;
    let note =
        call(&stack, "POST", "/facts", json!({ "key": "note.wifi", "value": "bluewhale" })).await.must_be(201).json();
    let path = format!("/facts/{}", note["id"].as_str().unwrap());
    let question = "What is my wifi network at home called?";
    assert!(stack.shown("ann", question).await.contains("bluewhale"));
    call(&stack, "PATCH", &path, json!({ "value": "redfox", "version": 1 })).await.must_be(200);
    let shown = stack.shown("ann", question).await;
    assert!(shown.contains("redfox") && !shown.contains("bluewhale"), "{shown}");
    // It holds again: then its episode may be shown again.
    call(&stack, "POST", &format!("{path}/restore"), json!({ "version": 1 })).await.must_be(200);
    let shown = stack.shown("ann", question).await;
    assert!(shown.contains("bluewhale") && !shown.contains("redfox"), "{shown}");
    // Merged away into another value.
    let other =
        call(&stack, "POST", "/facts", json!({ "key": "note.network", "value": "greenowl" })).await.must_be(201).json();
    call(&stack, "POST", &format!("{path}/merge"), json!({ "into": other["id"] })).await.must_be(200);
    let shown = stack.shown("ann", question).await;
    assert!(!shown.contains("bluewhale"), "{shown}");
}

// Issue 4: no gap and no double under concurrent writes, with chats, edits and deletions at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_follows_the_changes_ends_up_with_what_is_there() {
    let stack = plain().await;
    let chats = async {
        for n in 0..8 {
            stack.say("ann", &format!("Remember that box {n} holds the letters of year {}.", 1990 + n)).await;
        }
    };
    let edits = async {
        for n in 0..12 {
            let made =
                call(&stack, "POST", "/facts", json!({ "key": format!("note.edit{n}"), "value": format!("v{n}") }))
                    .await;
            let id = made.must_be(201).json()["id"].as_str().unwrap().to_owned();
            call(&stack, "PATCH", &format!("/facts/{id}"), json!({ "value": format!("w{n}") })).await.must_be(200);
            if n % 3 == 0 {
                call(&stack, "DELETE", &format!("/facts/{id}"), Value::Null).await.must_be(200);
            }
        }
    };
    let follower = async {
        let mut device = Device::default();
        for _ in 0..30 {
            device.follow(&stack).await;
            tokio::task::yield_now().await;
        }
        device
    };
    let ((), (), mut device) = tokio::join!(chats, edits, follower);
    stack.learned().await;
    device.follow(&stack).await;
    let mut there = HashSet::new();
    for list in ["facts", "episodes"] {
        let body = call(&stack, "GET", &format!("/{list}?limit=500"), Value::Null).await.must_be(200).json();
        there.extend(body["data"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()));
    }
    assert!(there.len() >= 16, "{there:?}");
    assert_eq!(device.held, there);
}

/// Keeps a copy by the changes alone.
#[derive(Default)]
struct Device {
    cursor: Option<String>,
    seen: HashSet<String>,
    held: HashSet<String>,
}

impl Device {
    async fn follow(&mut self, stack: &Stack) {
        loop {
            let cursor = self.cursor.as_ref().map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
            let body = call(stack, "GET", &format!("/changes?limit=3{cursor}"), Value::Null).await.must_be(200).json();
            for change in body["data"].as_array().unwrap() {
                let place = change["cursor"].as_str().unwrap().to_owned();
                assert!(self.seen.insert(place), "twice: {change}");
                let id = change["id"].as_str().unwrap().to_owned();
                if change["action"] == "delete" {
                    self.held.remove(&id)
                } else {
                    self.held.insert(id)
                };
            }
            match body["next"].as_str() {
                Some(next) => self.cursor = Some(next.to_owned()),
                None => return,
            }
        }
    }
}

// mem0ai/mem0#4536, redis/agent-memory-server#196: chat and API write the same key at once, and one value stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_writers_of_one_key_one_value_stands() {
    let stack = plain().await;
    let api = async {
        for city in ["Oslo", "Bern", "Lima", "Cairo"] {
            let body = json!({ "key": "location.home", "value": city });
            assert!(call(&stack, "POST", "/facts", body).await.status.is_success());
        }
    };
    let chat = async {
        for city in ["Rome", "Quito", "Paris", "Hanoi"] {
            stack.say("ann", &format!("I live in {city}.")).await;
        }
    };
    tokio::join!(api, chat);
    stack.learned().await;
    assert_eq!(values(&stack, "status=active&key=location.home").await.len(), 1);
}

// Issue 4: capacity and merging; what is put aside is not recalled, and recall follows at once.
#[tokio::test]
async fn the_sweep_puts_aside_what_is_too_much_and_recall_follows() {
    let stack = Stack::of(Script::Fixed("I see.".to_owned()))
        .keys(EDITOR)
        .with("[memory.namespaces.default]\nmax_episodes = 2\nmax_facts = 2\ncritical = [\"work.role\"]")
        .start()
        .await;
    for text in
        ["The blue kayak leaks at the bow.", "The green tent has a torn zip.", "The red stove burns paraffin only."]
    {
        call(&stack, "POST", "/episodes", json!({ "text": text })).await.must_be(201);
    }
    call(&stack, "POST", "/facts", json!({ "key": "work.role", "value": "ranger" })).await.must_be(201);
    for n in 0..3 {
        call(&stack, "POST", "/facts", json!({ "key": format!("preference.p{n}"), "value": format!("v{n}") }))
            .await
            .must_be(201);
    }
    assert!(stack.shown("ann", "What is wrong with the blue kayak?").await.contains("leaks"));
    stack.app.sweep.step(&CancellationToken::new()).await.unwrap();
    assert!(!stack.shown("ann", "What is wrong with the blue kayak?").await.contains("leaks"));
    assert!(stack.shown("ann", "What does the red stove burn?").await.contains("paraffin"));
    let archived = call(&stack, "GET", "/episodes?status=archived", Value::Null).await.json();
    assert_eq!(archived["data"][0]["text"], "The blue kayak leaks at the bow.");
    assert_eq!(values(&stack, "current=true").await, ["ranger", "v2"], "the critical one and the newest");
    let expired = call(&stack, "GET", "/facts?status=expired", Value::Null).await.json();
    let id = expired["data"][0]["id"].as_str().unwrap();
    let history = call(&stack, "GET", &format!("/facts/{id}/history"), Value::Null).await.json();
    assert_eq!((&history["data"][1]["actor"], &history["data"][1]["action"]), (&json!("sweep"), &json!("expire")));
    let metrics = stack.ask("GET", "/metrics").send().await.must_be(200);
    for line in [
        "backstory_swept_total{what=\"episode_archived\"} 1",
        "backstory_swept_total{what=\"fact_expired\"} 2",
        "backstory_sweep_rounds_total 1",
    ] {
        assert!(metrics.text().contains(line), "{line}");
    }
}

// A half-life that is configured holds for what is stored already.
#[tokio::test]
async fn half_lives_are_as_configured_for_the_namespace() {
    let stack = Stack::of(Script::Model)
        .keys(EDITOR)
        .with("[memory]\nepisode_half_life_days = 1\npreference_half_life_days = 2")
        .start()
        .await;
    let episode = call(&stack, "POST", "/episodes", json!({ "text": "We met at the lake." })).await.must_be(201).json();
    assert_eq!(episode["half_life"], 86_400);
    stack.tell("ann", "I prefer tea over coffee.").await;
    let facts = call(&stack, "GET", "/facts?current=true&key=preference.*", Value::Null).await.json();
    assert_eq!(facts["data"][0]["half_life"], 2 * 86_400, "{facts}");
    let (_, folder) = stack.stop().await;
    let stack = Stack::of(Script::Model)
        .keys(EDITOR)
        .with("[memory]\npreference_half_life_days = 7")
        .in_folder(folder)
        .start()
        .await;
    let scope = backstory::memory::Scope::new("one", "default", "ann");
    let (_, facts) = stack.app.recall.facts(&scope).await.unwrap();
    assert!(facts.iter().any(|fact| fact.half_life == 7 * 86_400), "{facts:?}");
}

// Issue 4: export and import over the wire, into another gateway, and what is imported is recalled at once.
#[tokio::test]
async fn an_export_is_taken_in_by_another_gateway() {
    let stack = plain().await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    stack.tell("ann", "My bike is the green one in the shed behind the house.").await;
    let export = call(&stack, "GET", "/export", Value::Null).await.must_be(200);
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    let other = plain().await;
    let import = |text: &str| other.ask("POST", "/memory/v1/import").user("ann").body(text.to_owned()).send();
    let done = import(export.text()).await.must_be(200).json();
    assert_eq!(done["refused"], 0, "{done}");
    assert!(done["facts"].as_u64() >= Some(1) && done["episodes"].as_u64() >= Some(1), "{done}");
    let again = call(&other, "GET", "/export", Value::Null).await;
    let (_, before) = export.text().split_once('\n').unwrap();
    let (_, after) = again.text().split_once('\n').unwrap();
    assert_eq!(before, after, "all but the first line, which says when");
    let shown = other.shown("ann", "What should I not cook, and what colour is my bike?").await;
    assert!(shown.contains("peanuts") && shown.contains("green"), "{shown}");
    assert_eq!(other.shown("bob", "What colour is my bike?").await, "");
}

// smaramwbc/statewave#236, by way of an import: what gives way to it does not come back through an episode.
#[tokio::test]
async fn a_value_that_gives_way_to_an_import_does_not_come_back_through_an_episode() {
    let stack = plain().await;
    stack.tell("ann", "My wifi network at home is called bluewhale and the router stands in the hall.").await;
    let fact = json!({ "key": "note.wifi", "value": "bluewhale" });
    call(&stack, "POST", "/facts", fact).await.must_be(201);
    let newer = json!({ "key": "note.wifi", "value": "redfox" });
    stack.ask("POST", "/memory/v1/facts").user("bea").json(&newer).send().await.must_be(201);
    let body = json!({ "from": { "subject": "bea" }, "to": { "subject": "ann" } });
    call(&stack, "POST", "/copy", body).await.must_be(200);
    let shown = stack.shown("ann", "What is my wifi network at home called?").await;
    assert!(shown.contains("redfox") && !shown.contains("bluewhale"), "{shown}");
}

// An export and an import from the command line, with ChatGPT's own export.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_moves_memories_out_and_in() {
    let stack = plain().await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/v1", stack.addr);
    let run = async |args: &[&str]| {
        let args: Vec<&str> = args.iter().copied().chain(["--url", &url]).collect();
        binary::run(&args, &[("BACKSTORY_KEY", KEY)]).await
    };
    let file = folder.path().join("ann.ndjson");
    let file = file.to_str().unwrap();
    let (code, _, said) = run(&["export", "--user", "ann", "-o", file]).await;
    assert_eq!(code, 0, "{said}");
    let (code, out, said) = run(&["import", "--user", "bea", file]).await;
    assert_eq!(code, 0, "{said}");
    assert!(out.contains("imported 1 facts"), "{out}");
    assert_eq!(stack.facts("bea").await, stack.facts("ann").await);

    let chats = json!([{ "id": "c", "current_node": "a", "mapping": { "a": { "message": { "author": { "role": "user" },
        "create_time": 1_700_000_000, "content": { "content_type": "text", "parts": ["My sailing boat is called Heron and lies in Kiel"] } } } } }]);
    let path = folder.path().join("conversations.json");
    std::fs::write(&path, chats.to_string()).unwrap();
    let path = path.to_str().unwrap();
    let (code, _, said) = run(&["import", "--user", "cid", path]).await;
    assert_eq!(code, 0, "{said}");
    assert!(stack.shown("cid", "Where does my sailing boat lie?").await.contains("Kiel"));

    std::fs::write(path, "not json").unwrap();
    let (code, _, said) = run(&["import", "--user", "cid", path]).await;
    assert!(code == 1 && said.contains("neither an export"), "{said}");
    let (code, _, said) = run(&["export", "--user", "ann", "--key", "wrong"]).await;
    assert!(code == 1 && said.contains("401"), "{said}");
}

// Account change: within what the key may name, and never beyond its tenant.
#[tokio::test]
async fn memories_are_moved_to_another_subject() {
    let stack = plain().await;
    stack.tell("ann", "My bike is the green one in the shed behind the house.").await;
    let body = json!({ "from": { "subject": "ann" }, "to": { "subject": "ann-2" }, "move": true });
    let moved = call(&stack, "POST", "/copy", body).await.must_be(200).json();
    assert_eq!(moved["erased"]["complete"], true, "{moved}");
    assert!(stack.shown("ann-2", "What colour is my bike?").await.contains("green"));
    assert_eq!(stack.shown("ann", "What colour is my bike?").await, "");
    let audit = stack.ask("GET", "/memory/v1/audit").user("ann-2").send().await.must_be(200).json();
    assert_eq!(audit["data"][0]["action"], "copied_in");
    let foreign = json!({ "from": {}, "to": { "namespace": "sales" } });
    call(&stack, "POST", "/copy", foreign).await.must_be(403);
}

// vllm-project/semantic-router PR#1318; nearai/ironclaw#6900: a key that may not name subjects copies nothing.
#[tokio::test]
async fn a_key_that_may_not_name_subjects_copies_nothing() {
    let key = "[[keys]]\nkey = \"${KEY}\"\ntenant = \"one\"\ndefault_subject = \"me\"\nmay_name_subject = false\n";
    let stack = Stack::of(Script::Model).keys(key).start().await;
    let body = json!({ "from": { "subject": "ann" }, "to": {} });
    let ask = stack.ask("POST", "/memory/v1/copy").json(&body).send().await;
    ask.must_be(403);
}

// Design, section 3: a constant `user` set by a framework is counted, and `doctor` warns of it.
#[tokio::test]
async fn conversations_of_a_constant_user_are_counted() {
    let stack = plain().await;
    for (user, times) in [("app", 3), ("ann", 1)] {
        for n in 0..times {
            let body = json!({ "model": "mock", "user": user, "messages": [{ "role": "user", "content": format!("question {n}") }] });
            stack.chat(body.to_string()).send().await.must_be(200);
        }
    }
    let longer = json!({ "model": "mock", "user": "app", "messages": [
        { "role": "user", "content": "one" }, { "role": "assistant", "content": "two" }, { "role": "user", "content": "three" }] });
    stack.chat(longer.to_string()).send().await.must_be(200);
    stack.say("bea", "a header names me").await;
    let store = stack.app.store.clone();
    let (_, _folder) = stack.stop().await;
    let used = store.subject_use(backstory::base::Time(0), 10).await.unwrap();
    let told: Vec<_> = used.iter().map(|u| (u.tenant.as_str(), u.source.as_str(), u.begun)).collect();
    assert_eq!(told, [("one", "user", 3), ("one", "user", 1)]);
    assert!(used.iter().all(|u| !u.subject.contains("app")));
    assert_eq!(store.namespaces("one", "nobody").await.unwrap(), []);
}

#[tokio::test]
async fn a_namespace_has_keys_of_its_own() {
    let keys = "[[keys]]\nname = \"ticket.priority\"\nlabel = \"priority of the ticket\"\n";
    let config = format!("[memory.namespaces.support]\nkeys = '''\n{keys}'''\n");
    let stack = Stack::of(Script::Model)
        .keys("[[keys]]\nkey = \"${KEY}\"\ntenant = \"one\"\nnamespace = \"support\"\n[[keys]]\nkey = \"bk-sales-0123456789\"\ntenant = \"one\"\nnamespace = \"sales\"\n")
        .with(&config)
        .start()
        .await;
    let fact = json!({"key": "ticket.priority", "value": "high"});
    let add = |key: &'static str| stack.ask("POST", "/memory/v1/facts").key(key).user("ann").json(&fact);
    add(KEY).send().await.must_be(201);
    add("bk-sales-0123456789").send().await.must_be_error(400);
    let ask = json!({"model": "mock", "messages": [{"role": "user", "content": "What is the priority of my ticket?"}]});
    let reply = stack.chat(ask.to_string()).user("ann").send().await.must_be(200);
    assert!(reply.text().contains("ticket priority: high"), "{}", reply.text());
}

// Once learned from, a raw exchange is deleted, unless the operator says how long it stays.
#[tokio::test]
async fn what_was_said_can_be_read_where_it_is_kept_and_goes_with_its_subject() {
    for days in [0, 3] {
        let stack = Stack::of(Script::Fixed("I see.".to_owned()))
            .keys(EDITOR)
            .with(&format!("[extract]\nkeep_exchanges_days = {days}\n"))
            .start()
            .await;
        let got = stack.tell("ann", "I live in Oslo.").await;
        assert_eq!(values(&stack, "current=true&key=location.home").await, ["Oslo"]);
        let path = format!("/exchanges/{}", got.header("x-backstory-exchange"));
        let said = call(&stack, "GET", &path, Value::Null).await.must_be(200).json()["said"].clone();
        let both = json!([{"role": "user", "text": "I live in Oslo."}, {"role": "assistant", "text": "I see."}]);
        assert_eq!(said, if days > 0 { both } else { Value::Null });
        let receipt = call(&stack, "DELETE", "/subject", Value::Null).await.must_be(200).json();
        assert_eq!(receipt["counts"]["raw_exchanges"], u64::from(days > 0), "{receipt}");
        call(&stack, "GET", &path, Value::Null).await.must_be(404);
    }
}
