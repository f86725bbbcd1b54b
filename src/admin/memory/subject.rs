//! A subject as a whole: its namespaces, and its erasure.

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::call::{Read, Write};
use super::error::Answer;
use super::{Shared, erasure, listing, render};

/// `GET /namespaces`: those that this key may use, with the revision of this subject's memory in each.
pub(super) async fn namespaces(State(api): State<Shared>, call: Read) -> Answer {
    let own = (&call.caller.namespace, "write");
    let others = call.caller.namespaces_readable.iter().filter(|name| **name != call.caller.namespace);
    let mut data = Vec::new();
    for (name, access) in [own].into_iter().chain(others.map(|name| (name, "read"))) {
        let state = api.store.scope_state(&call.scope.in_namespace(name.clone())).await?;
        data.push(json!({ "namespace": name, "access": access, "revision": state.revision }));
    }
    Ok(listing::whole(data))
}

/// `DELETE /subject`: erases everything of the subject in the caller's namespace, and says what went.
pub(super) async fn erase(State(api): State<Shared>, call: Write) -> Answer<Response> {
    let now = api.clock.now();
    let receipt = erasure::erase(&api, &call.scope, now).await?;
    tracing::info!(scope = ?call.scope, complete = receipt.complete(), "a subject was erased");
    let mut told = receipt.render();
    told.insert("subject".to_owned(), json!(call.scope.subject));
    told.insert("namespace".to_owned(), json!(call.scope.namespace));
    told.insert("erased_at".to_owned(), now.to_rfc3339().into());
    Ok(render::ok(&told.into()))
}
