//! `/v1/responses` where upstream keeps the conversation: what is counted, what is shown, and who may go on from what.

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::responses::{assistant, user};
use crate::support::{KEY, Stack};

const OTHER: &str = "bk-virtual-of-another-tenant";

fn id(got: &crate::support::Got) -> String {
    got.json()["id"].as_str().unwrap().to_owned()
}

async fn two_tenants() -> Stack {
    let keys = format!("[[keys]]\nkey = \"{KEY}\"\ntenant = \"one\"\n[[keys]]\nkey = \"{OTHER}\"\ntenant = \"two\"\n");
    Stack::of(Script::Model).keys(&keys).start().await
}

// Issue 7: what the client does not send cannot be counted, and memory works all the same.
#[tokio::test]
async fn a_conversation_that_upstream_keeps_is_gone_on_with_and_the_header_says_that_it_is_partial() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let (first, one) = stack.respond("ann", json!("Good morning."), json!({})).await;
    let (second, two) =
        stack.respond("ann", json!("Which snacks may I eat?"), json!({"previous_response_id": id(&first)})).await;
    assert!(second.memory().starts_with("hit"), "{}", second.memory());
    assert!(second.header("x-backstory-context").ends_with("partial=previous_response_id"), "{:?}", second.headers);
    assert_eq!(one["instructions"], two["instructions"], "the profile stays");
    let got = stack.responses(r#"{"model":"mock","input":"Hello","prompt":{"id":"pmpt_1"}}"#).user("ann").send().await;
    assert!(got.must_be(200).header("x-backstory-context").ends_with("partial=prompt"));
}

// danny-avila/LibreChat#13093: each request brings its instructions, so they must be the same in a tool loop.
#[tokio::test]
async fn a_tool_loop_over_the_name_of_a_response_keeps_its_instructions() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "My name is Ann. I'm allergic to peanuts.").await;
    let tools =
        json!({"tools": [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]});
    let (first, one) = stack.respond("ann", json!("Which snacks may I eat?"), tools.clone()).await;
    let call = first.json()["output"][0].clone();
    let output = json!([{"type": "function_call_output", "call_id": call["call_id"], "output": "nuts"}]);
    let more = json!({"previous_response_id": id(&first), "tools": tools["tools"]});
    let (second, two) = stack.respond("ann", output.clone(), more).await;
    assert!(second.memory().starts_with("hit"), "{}", second.memory());
    assert!(one["instructions"].as_str().unwrap().contains("peanuts"));
    assert_eq!((&one["instructions"], &two["input"]), (&two["instructions"], &output));
}

// Issue 7, bad input: a `previous_response_id` of another key.
#[tokio::test]
async fn nobody_goes_on_from_what_was_handed_out_to_somebody_else() {
    let stack = two_tenants().await;
    for stream in [false, true] {
        let (got, _) = stack.respond("ann", json!("My secret is the blue door."), json!({ "stream": stream })).await;
        let id = match stream {
            false => id(&got),
            true => {
                let found = got.text().split(r#""id":"resp_"#).nth(1).unwrap();
                format!("resp_{}", found.split('"').next().unwrap())
            }
        };
        let asked = stack.upstream().accepted();
        let body = json!({"model": "mock", "input": "What is my secret?", "previous_response_id": id}).to_string();
        for ask in [
            stack.responses(body.clone()).key(OTHER).user("ann"),
            stack.responses(body.clone()).user("bob"),
            stack.responses(body.clone()),
        ] {
            let error = ask.send().await.must_be_error(400);
            assert_eq!(
                (error["code"].as_str(), error["param"].as_str()),
                (Some("previous_response_not_found"), Some("previous_response_id"))
            );
        }
        assert_eq!(stack.upstream().accepted(), asked, "nobody was asked");
        stack.responses(body).user("ann").send().await.must_be(200);
    }
}

// The same by the names of items, and of conversations.
#[tokio::test]
async fn items_and_conversations_of_somebody_else_are_not_there_either() {
    let stack = two_tenants().await;
    let (got, _) = stack.respond("ann", json!("My secret is the blue door."), json!({})).await;
    let item = got.json()["output"][0]["id"].clone();
    let body = json!({"model": "mock", "input": [{"type": "item_reference", "id": item}, user("And?")]}).to_string();
    stack.responses(body.clone()).key(OTHER).user("ann").send().await.must_be_error(400);
    let got = stack.responses(body).user("ann").send().await.must_be(200);
    assert!(got.header("x-backstory-context").ends_with("partial=item_reference"), "{:?}", got.headers);
    let body = json!({"model": "mock", "input": "And?", "conversation": "conv_1"}).to_string();
    let error = stack.responses(body).user("ann").send().await.must_be_error(400);
    assert_eq!(error["param"], "conversation");
}

// Design, section 3: behind the client's own key upstream knows whose it is.
#[tokio::test]
async fn with_the_clients_own_key_upstream_decides() {
    let stack = Stack::of(Script::Model).client_mode().start().await;
    let ask = |body: Value| stack.responses(body.to_string()).key("sk-client-own-key").user("ann");
    let got =
        ask(json!({"model": "mock", "input": "Hi", "previous_response_id": "resp_unknown"})).send().await.must_be(400);
    assert_eq!(got.json()["error"]["code"], "previous_response_not_found");
    assert_eq!(stack.sent().json()["previous_response_id"], "resp_unknown", "upstream was asked");
    ask(json!({"model": "mock", "input": "Hi", "conversation": "conv_1"})).send().await.must_be(200);
}

// A restart, or another replica.
#[tokio::test]
async fn what_was_handed_out_is_known_after_a_restart() {
    let stack = Stack::new(Script::Model).await;
    let (got, _) = stack.respond("ann", json!("Hello there"), json!({})).await;
    stack.learned().await;
    let (_, folder) = stack.stop().await;
    let stack = Stack::of(Script::Fixed("I see.".to_owned())).in_folder(folder).start().await;
    let body = json!({"model": "mock", "input": "And?", "previous_response_id": id(&got)}).to_string();
    // The mock is another one, and does not know it: but it was asked.
    let error = stack.responses(body.clone()).user("ann").send().await.must_be(400);
    assert!(error.text().contains("not found") && stack.upstream().accepted() == 1);
    stack.responses(body).user("bob").send().await.must_be_error(400);
    assert_eq!(stack.upstream().accepted(), 1);
}

// Design, promise 10: what was shown may stand in what upstream keeps.
#[tokio::test]
async fn after_an_erasure_nothing_is_gone_on_from() {
    let stack = Stack::new(Script::Model).await;
    stack.tell("ann", "I'm allergic to peanuts.").await;
    let (got, _) = stack.respond("ann", json!("Which snacks may I eat?"), json!({})).await;
    stack.learned().await;
    stack.ask("DELETE", "/memory/v1/subject").user("ann").send().await.must_be(200);
    let body = json!({"model": "mock", "input": "And?", "previous_response_id": id(&got)}).to_string();
    stack.responses(body).user("ann").send().await.must_be_error(400);
}

// What upstream keeps stands before what is sent: a cut would leave a hole.
#[tokio::test]
async fn nothing_is_cut_of_a_conversation_that_upstream_keeps() {
    let stack = Stack::new(Script::Model).await;
    let (got, _) = stack.respond("ann", json!("Hello there"), json!({})).await;
    let items = json!([user(&"old ".repeat(900)), assistant("Yes."), user("And now?")]);
    let body = json!({"model": "mock", "input": items, "previous_response_id": id(&got)});
    let ask = |budget| stack.responses(body.to_string()).user("ann").header("x-backstory-budget", budget);
    let error = ask("600").send().await.must_be_error(400);
    assert_eq!(error["code"], "context_length_exceeded");
    let got = ask("3000").send().await.must_be(200);
    assert_eq!((got.context("cut"), stack.sent().json()["input"].clone()), (0, items));
}

// A statement of a later turn is new, though nothing of the conversation before it is sent.
#[tokio::test]
async fn each_turn_of_a_kept_conversation_is_learned_from_once() {
    let stack = Stack::new(Script::Model).await;
    let (first, _) = stack.respond("ann", json!("My name is Ann."), json!({})).await;
    let more = json!({"previous_response_id": id(&first)});
    for _ in 0..2 {
        stack.respond("ann", json!("I'm allergic to peanuts."), more.clone()).await;
    }
    stack.learned().await;
    assert_eq!(stack.facts("ann").await, ["diet.allergy = peanuts", "identity.name = Ann"]);
}
