//! What tests of memory say and look up.

use serde_json::{Value, json};

use super::{Got, Stack};

impl Stack {
    /// Says one thing in a new conversation and waits until it is learned.
    pub(crate) async fn tell(&self, user: &str, text: &str) -> Got {
        let got = self.say(user, text).await;
        self.learned().await;
        got
    }

    /// Says one thing in a new conversation.
    pub(crate) async fn say(&self, user: &str, text: &str) -> Got {
        self.talk(user, json!([{"role": "user", "content": text}])).await
    }

    /// Sends these messages.
    pub(crate) async fn talk(&self, user: &str, messages: Value) -> Got {
        let body = json!({"model": "mock", "messages": messages});
        self.chat(body.to_string()).user(user).send().await.must_be(200)
    }

    /// Asks something in a new conversation and returns what was added to the question on its way upstream; empty = nothing.
    pub(crate) async fn shown(&self, user: &str, question: &str) -> String {
        self.say(user, question).await;
        let body = self.sent().json();
        let text = body["messages"][0]["content"].as_str().unwrap_or_default().to_owned();
        text.strip_suffix(question).unwrap_or_else(|| panic!("{question:?} is at the end of {text:?}")).to_owned()
    }

    /// The current facts of a subject as `key = value`, sorted.
    pub(crate) async fn facts(&self, user: &str) -> Vec<String> {
        let got = self.ask("GET", "/memory/v1/facts?current=true&limit=200").user(user).send().await.must_be(200);
        let body = got.json();
        let mut facts: Vec<_> = body["data"].as_array().unwrap().iter().map(fact_line).collect();
        facts.sort();
        facts
    }

    /// The id of the subject's current fact with this key.
    pub(crate) async fn fact_id(&self, user: &str, key: &str) -> String {
        let got = self.ask("GET", &format!("/memory/v1/facts?current=true&key={key}")).user(user).send().await;
        let body = got.must_be(200).json();
        body["data"][0]["id"].as_str().unwrap_or_else(|| panic!("no {key} in {body}")).to_owned()
    }

    /// The texts of a subject's episodes.
    pub(crate) async fn episodes(&self, user: &str) -> Vec<String> {
        let got = self.ask("GET", "/memory/v1/episodes?limit=200").user(user).send().await.must_be(200);
        let body = got.json();
        body["data"].as_array().unwrap().iter().map(|e| e["text"].as_str().unwrap().to_owned()).collect()
    }
}

fn fact_line(fact: &Value) -> String {
    let value = fact["value"].as_str().map_or_else(|| fact["value"].to_string(), str::to_owned);
    format!("{} = {value}", fact["key"].as_str().unwrap())
}
