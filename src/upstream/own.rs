//! Calls a running gateway of ours, for the commands that move memories in and out of it.

use http::HeaderValue;
use serde_json::Value;

use super::attempt::root_cause;
use crate::base::Secret;

/// A running gateway, and as whom it is called.
#[derive(Clone, Debug)]
pub struct OwnGateway {
    client: reqwest::Client,
    base: String,
    headers: http::HeaderMap,
}

impl OwnGateway {
    /// `base` is its address as in `http://127.0.0.1:8080`; a trailing `/v1`, as apps have it, is taken off.
    ///
    /// # Errors
    /// A sentence about what cannot be sent.
    pub fn new(base: &str, key: Option<&Secret>, user: Option<&str>, namespace: Option<&str>) -> Result<Self, String> {
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        let mut headers = http::HeaderMap::new();
        let mut set = |name: &'static str, value: &str, secret: bool| {
            let mut value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| format!("the value of {name} has characters that no header may have"))?;
            value.set_sensitive(secret);
            headers.insert(name, value);
            Ok::<(), String>(())
        };
        if let Some(key) = key {
            set("authorization", &format!("Bearer {}", key.expose()), true)?;
        }
        if let Some(user) = user {
            set("x-backstory-user", user, false)?;
        }
        if let Some(namespace) = namespace {
            set("x-backstory-namespace", namespace, false)?;
        }
        let client = super::provider::client().build().map_err(root_cause)?;
        Ok(Self { client, base, headers })
    }

    /// The same gateway, asked for another person.
    ///
    /// # Errors
    /// A sentence: the name cannot be sent.
    pub fn for_user(&self, user: &str) -> Result<Self, String> {
        let user = HeaderValue::from_bytes(user.as_bytes())
            .map_err(|_| "the user's name has characters that no header may have".to_owned())?;
        let mut other = self.clone();
        other.headers.insert("x-backstory-user", user);
        Ok(other)
    }

    /// Reads an answer piece by piece.
    ///
    /// # Errors
    /// A sentence: there is no answer, it is a refusal, or it broke off.
    pub async fn read(&self, path: &str, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
        let request = self.client.get(format!("{}{path}", self.base)).headers(self.headers.clone());
        let mut answer = accepted(request.send().await.map_err(root_cause)?).await?;
        while let Some(piece) = answer.chunk().await.map_err(root_cause)? {
            take(&piece)?;
        }
        Ok(())
    }

    /// Deletes what is at a path.
    ///
    /// # Errors
    /// A sentence: there is no answer, or it is a refusal.
    pub async fn delete(&self, path: &str) -> Result<(), String> {
        let request = self.client.delete(format!("{}{path}", self.base)).headers(self.headers.clone());
        accepted(request.send().await.map_err(root_cause)?).await?;
        Ok(())
    }

    /// Sends a body and returns the answer's JSON.
    ///
    /// # Errors
    /// A sentence: there is no answer, it is a refusal, or it is not JSON.
    pub async fn send(&self, path: &str, body: Vec<u8>) -> Result<Value, String> {
        let request = self.client.post(format!("{}{path}", self.base)).headers(self.headers.clone()).body(body);
        let answer = accepted(request.send().await.map_err(root_cause)?).await?;
        let bytes = answer.bytes().await.map_err(root_cause)?;
        serde_json::from_slice(&bytes)
            .map_err(|_| "the answer is not JSON: is this address a Backstory gateway?".to_owned())
    }
}

/// An answer of 2xx; of any other the words that its envelope has for people.
async fn accepted(answer: reqwest::Response) -> Result<reqwest::Response, String> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let body = answer.bytes().await.unwrap_or_default();
    let said = serde_json::from_slice::<Value>(&body).ok();
    let message = said.as_ref().and_then(|body| body.pointer("/error/message")).and_then(Value::as_str);
    Err(format!("it answers {}: {}", status.as_u16(), message.unwrap_or("no reason given")))
}
