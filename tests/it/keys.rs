//! Virtual keys made at run time, through the admin API and the command line.

use backstory::mock::Script;
use serde_json::{Value, json};

use crate::support::{Got, Stack, binary};

const ADMIN: &str = "admin-key-for-the-tests";

fn hello() -> String {
    json!({"model": "mock", "messages": [{"role": "user", "content": "Hello there"}]}).to_string()
}

async fn with_admin() -> Stack {
    Stack::of(Script::Model).with(&format!("[admin]\nkey = \"{ADMIN}\"")).start().await
}

async fn admin(stack: &Stack, method: &str, path: &str, body: Value) -> Got {
    let ask = stack.ask(method, path).key(ADMIN);
    if body.is_null() { ask.send().await } else { ask.json(&body).send().await }
}

#[tokio::test]
async fn a_key_is_made_used_rotated_and_revoked_while_the_gateway_runs() {
    let stack = with_admin().await;
    let wanted = json!({"name": "support app", "settings": {"tenant": "acme", "models": ["mock"]}});
    let made = admin(&stack, "POST", "/admin/v1/keys", wanted).await.must_be(201).json();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let with = async |key: &str| stack.chat(hello()).key(key).send().await;
    with(key).await.must_be(200);

    let listed = admin(&stack, "GET", "/admin/v1/keys", Value::Null).await.must_be(200).json();
    assert_eq!(listed["data"][0]["name"], "support app");
    assert!(!listed.to_string().contains(key), "a secret is shown once");

    let rotated = admin(&stack, "POST", &format!("/admin/v1/keys/{id}/rotate"), json!({})).await.must_be(200).json();
    with(key).await.must_be_error(401);
    let key = rotated["key"].as_str().unwrap();
    with(key).await.must_be(200);

    admin(&stack, "DELETE", &format!("/admin/v1/keys/{id}"), Value::Null).await.must_be(200);
    with(key).await.must_be_error(401);
    admin(&stack, "DELETE", &format!("/admin/v1/keys/{id}"), Value::Null).await.must_be_error(404);
}

// BerriAI/litellm#18731: no key in an error; design, section 10: only the admin key opens the admin API.
#[tokio::test]
async fn only_the_admin_key_opens_the_admin_api_and_bad_settings_are_named() {
    let stack = with_admin().await;
    let virtual_key = stack.ask("GET", "/admin/v1/keys").send().await;
    virtual_key.must_be_error(401);
    let wanted = json!({"name": "x", "settings": {"tenent": "acme", "requests_per_minute": 0}});
    let error = admin(&stack, "POST", "/admin/v1/keys", wanted).await.must_be_error(400);
    let said = error["message"].as_str().unwrap();
    assert!(said.contains("tenent") && said.contains("requests_per_minute"), "{said}");
    admin(&stack, "POST", "/admin/v1/keys", json!({"nome": "x"})).await.must_be_error(400);

    let without = Stack::of(Script::Model).start().await;
    without.ask("GET", "/admin/v1/keys").send().await.must_be_error(404);
}

#[tokio::test]
async fn a_stored_keys_limits_and_models_are_kept() {
    let stack = with_admin().await;
    let wanted = json!({"name": "small", "settings": {"requests_per_minute": 1, "memory": "off"}});
    let made = admin(&stack, "POST", "/admin/v1/keys", wanted).await.must_be(201).json();
    let key = made["key"].as_str().unwrap();
    stack.chat(hello()).key(key).send().await.must_be(200);
    let refused = stack.chat(hello()).key(key).send().await;
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    refused.must_be_error(429);
}

#[tokio::test]
async fn the_command_line_makes_a_key_that_a_running_gateway_takes() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("b.toml");
    std::fs::write(
        &config,
        format!(
            "[store]\ndata = {:?}\n[admin]\nkey = \"{ADMIN}\"\n[[providers]]\nname = \"p\"\nbase_url = \"http://127.0.0.1:9/v1\"\n",
            folder.path()
        ),
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let gateway = binary::Binary::serve(&["--config", config]).await;
    let keys = async |more: &[&str]| {
        let args: Vec<&str> = ["keys"].into_iter().chain(more.iter().copied()).chain(["--config", config]).collect();
        binary::run(&args, &[]).await
    };
    let (code, out, err) = keys(&["create", "--name", "laptop", "--set", "tenant=acme", "--json"]).await;
    assert_eq!(code, 0, "{err}");
    let made: Value = serde_json::from_str(&out).unwrap();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    let models = crate::support::Ask::new(gateway.addr, "GET", "/v1/models").key(key).send().await;
    assert_ne!(models.status.as_u16(), 401);

    let (code, out, _) = keys(&["list"]).await;
    assert!(code == 0 && out.contains("laptop") && out.contains("acme") && !out.contains(key), "{out}");
    assert_eq!(keys(&["revoke", id]).await.0, 0);
    let (code, _, err) = keys(&["revoke", id]).await;
    assert!(code == 1 && err.contains("revoked before"), "{err}");
    let (code, _, err) = keys(&["create", "--name", "x", "--set", "tenent=a"]).await;
    assert!(code == 1 && err.contains("tenent"), "{err}");
}
