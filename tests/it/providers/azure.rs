//! Azure: its addresses, its header, and what its streams begin with.

use backstory::config::{Config, Overrides};

use super::*;

const STREAM_OF_AZURE: &str = "data: {\"choices\":[],\"created\":0,\"id\":\"\",\"model\":\"\",\"object\":\"\",\"prompt_filter_results\":[{\"prompt_index\":0,\"content_filter_results\":{}}]}\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hello\"},\"finish_reason\":null}]}\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

async fn azure(path: &str, more: &str) -> (Stack, Fake) {
    let fake = Fake::start(|asked| match asked.json() {
        body if body["stream"] == true => (200, SSE, STREAM_OF_AZURE.to_owned()),
        body if body["model"] == "filtered" => (
            400,
            JSON,
            r#"{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#.to_owned(),
        ),
        _ => (200, JSON, crate::support::raw::REPLY.to_owned()),
    })
    .await;
    let provider = format!(
        "[[providers]]\nname = \"azure\"\nkind = \"azure\"\nbase_url = \"{}{path}\"\napi_key = \"${{PROVIDER_KEY}}\"\ndefault = true\n{more}\n",
        fake.url
    );
    let keys = "[[keys]]\nkey = \"${KEY}\"\ntenant = \"one\"\npassthrough = [\"/v1/models\"]\n";
    let stack = Stack::of(Script::default()).providers(&provider).keys(keys).start().await;
    (stack, fake)
}

#[tokio::test]
async fn a_deployment_is_a_part_of_the_path() {
    for (path, more, query) in
        [("", "", "2024-10-21"), ("/openai/", "api_version = \"2025-04-01-preview\"", "2025-04-01-preview")]
    {
        let (stack, fake) = azure(path, more).await;
        let body = json!({"model": "my gpt/4o", "messages": [{"role": "user", "content": "Hi"}]});
        ask(&stack, &body).await.must_be(200);
        let sent = fake.last();
        assert_eq!(sent.target, format!("/openai/deployments/my%20gpt%2F4o/chat/completions?api-version={query}"));
        assert_eq!((sent.header("api-key"), sent.header("authorization")), (Some(PROVIDER_KEY), None));
        let body = json!({"model": "embedding-3", "input": "a"});
        stack.ask("POST", "/v1/embeddings").json(&body).send().await;
        assert_eq!(fake.last().target, format!("/openai/deployments/embedding-3/embeddings?api-version={query}"));
        stack.ask("GET", "/v1/models?limit=2").send().await.must_be(200);
        assert_eq!(fake.last().target, format!("/openai/models?limit=2&api-version={query}"));
    }
}

#[tokio::test]
async fn the_newer_address_needs_no_version() {
    for (more, query) in [("", ""), ("api_version = \"preview\"", "?api-version=preview")] {
        let (stack, fake) = azure("/openai/v1", more).await;
        let body = json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]});
        ask(&stack, &body).await.must_be(200);
        assert_eq!(fake.last().target, format!("/openai/v1/chat/completions{query}"));
        assert_eq!(fake.last().body, body.to_string(), "nobody touched it");
    }
}

#[tokio::test]
async fn a_first_chunk_without_choices_and_an_answer_of_the_filter_pass_as_they_are() {
    let (stack, _fake) = azure("", "").await;
    let body = json!({"model": "gpt-4o", "stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(stack.chat(body.to_string()).user("ann").send().await.must_be(200).text(), STREAM_OF_AZURE);
    let body = json!({"model": "filtered", "messages": [{"role": "user", "content": "Hi"}]});
    let error = ask(&stack, &body).await.must_be(400).json();
    assert_eq!(error["error"]["innererror"]["code"], "ResponsibleAIPolicyViolation");
}

#[test]
fn an_address_that_azure_does_not_have_is_a_mistake_of_the_configuration() {
    struct Nothing;
    impl backstory::config::Env for Nothing {
        fn var(&self, _: &str) -> Option<String> {
            None
        }
        fn file(&self, _: &std::path::Path) -> std::io::Result<String> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }
    let mistakes = |lines: &str| {
        let text = format!("[[providers]]\nname = \"a\"\napi_key = \"k\"\ndefault = true\n{lines}\n");
        let read = Config::parse(&text, std::path::Path::new("c.toml"), &Nothing, &Overrides::default());
        read.err().map(|errors| errors.to_string()).unwrap_or_default()
    };
    let azure = |url: &str| mistakes(&format!("kind = \"azure\"\nbase_url = \"{url}\""));
    for url in
        ["https://x.openai.azure.com", "https://x.openai.azure.com/openai/v1/", "https://gateway.example/team/openai"]
    {
        assert_eq!(azure(url), "", "{url}");
    }
    for (url, word) in [
        ("https://x.openai.azure.com/v1", "/openai/v1"),
        ("https://x.openai.azure.com/openai/deployments/gpt-4o", "before `/deployments`"),
        ("https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions", "before `/deployments`"),
    ] {
        let said = azure(url);
        assert!(said.contains("providers[0].base_url") && said.contains(word), "{url}: {said}");
    }
    for (lines, word) in [
        ("kind = \"azure\"\nbase_url = \"https://x.example\"\napi_version = \"newest\"", "api_version"),
        ("base_url = \"https://x.example/v1\"\napi_version = \"2024-10-21\"", "belongs to kind"),
        ("base_url = \"https://x.example/v1\"\nanthropic_version = \"2023-06-01\"", "belongs to kind"),
        ("base_url = \"https://x.example/v1\"\ndialects = []", "at least one"),
        ("base_url = \"https://x.example/v1\"\ndialects = [\"messages\", \"latin\"]", "latin"),
        ("kind = \"anthropic\"\nbase_url = \"https://api.anthropic.com/v1/messages\"", "before `/messages`"),
        (
            "kind = \"anthropic\"\nbase_url = \"https://api.anthropic.com/v1\"\n[embeddings]\nengine = \"openai\"\nprovider = \"a\"\nmodel = \"m\"",
            "no embeddings",
        ),
    ] {
        let said = mistakes(lines);
        assert!(said.contains(word), "{lines}: {said}");
    }
}
