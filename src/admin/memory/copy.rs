//! `POST /copy`: the memories of one subject or namespace to another, as when a person changes accounts; and what was done so.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Caller, Filter, Json, Read, allowed};
use super::error::{Answer, ApiError};
use super::export::Reader;
use super::import::Taker;
use super::listing::checked_limit;
use super::{Shared, erasure, render};
use crate::base::ErrorKind;
use crate::config::ApiAccess;
use crate::memory::export::{Line, origin};
use crate::memory::{Actor, Scope, Sensitivity};
use crate::store::Audit;

/// One end of a copy. What it leaves out is as in the request's own headers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct End {
    subject: Option<String>,
    namespace: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyBody {
    from: End,
    to: End,
    /// Erase what was copied, at its old place.
    #[serde(rename = "move", default)]
    moves: bool,
}

/// `POST /copy`. Either end must be one that this key may name in its headers: to read it, and to write it; a move writes both.
pub(super) async fn copy(State(api): State<Shared>, headers: HeaderMap, Json(body): Json<CopyBody>) -> Answer {
    let needed = if body.moves { ApiAccess::Write } else { ApiAccess::Read };
    let (reader, from) = end(&api, &headers, &body.from, needed, "from").await?;
    let (writer, to) = end(&api, &headers, &body.to, ApiAccess::Write, "to").await?;
    if from == to {
        return Err(ApiError::bad("to", "is the same as `from`"));
    }
    let now = api.clock.now();
    let actor = if writer.is_operator() { Actor::Operator } else { Actor::Api };
    let mut taker = Taker::new(&api, &to, actor);
    let mut lines = Reader::new(&api, reader, &from);
    taker.origin = Some(origin(&from));
    let mut number = 0;
    while let Some(piece) = lines.next().await? {
        for line in piece {
            number += 1;
            taker.take(number, line).await?;
        }
    }
    let hidden = lines.hidden().await?;
    let done = taker.finish().await?;
    if body.moves && (hidden > 0 || done.refused > 0) {
        // Nothing is dropped before what replaces it is stored (mesa/mesa-llm#186).
        let public = "copied, but not everything could be: nothing was erased at the old place";
        return Err(ApiError::new(ErrorKind::Conflict, public)
            .beside("copied", done.render())
            .beside("hidden", hidden));
    }
    let detail = json!({
        "from": origin(&from), "to": origin(&to), "facts": done.facts, "episodes": done.episodes,
        "already": done.already, "refused": done.refused, "moved": body.moves,
    });
    let audit = |action: &str| Audit {
        at: now,
        action: action.to_owned(),
        actor: if actor == Actor::Operator { "operator" } else { "api" }.to_owned(),
        detail: detail.clone(),
    };
    api.store.audit(&to, &audit("copied_in")).await?;
    let mut answer = done.render();
    answer["hidden"] = hidden.into();
    answer["moved"] = body.moves.into();
    if body.moves {
        let receipt = erasure::erase(&api, &from, api.clock.now()).await?;
        answer["erased"] = receipt.render().into();
    } else {
        api.store.audit(&from, &audit("copied_out")).await?;
    }
    tracing::info!(?from, ?to, moved = body.moves, "memories were copied");
    Ok(render::ok(&answer))
}

/// Derives one end as if the request named it in its headers, so that no other rules hold here than there.
async fn end(api: &Shared, headers: &HeaderMap, end: &End, needed: ApiAccess, param: &str) -> Answer<(Caller, Scope)> {
    let mut headers = headers.clone();
    let named = [("x-backstory-user", &end.subject), ("x-backstory-namespace", &end.namespace)];
    for (name, value) in named {
        let Some(value) = value else { continue };
        let value = HeaderValue::from_bytes(value.as_bytes())
            .ok()
            .filter(|value| !value.is_empty())
            .ok_or_else(|| ApiError::bad(param, "is not a name: it is empty, or has control characters"))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    allowed(&headers, api, needed).await
}

impl Reader {
    /// How many facts and episodes the caller may not see.
    async fn hidden(&self) -> Answer<u64> {
        if self.caller.sees(Sensitivity::Sensitive) {
            return Ok(0);
        }
        let all = Caller { admin: true, ..self.caller.clone() };
        let mut whole = Reader::new(&self.api, all, &self.scope);
        let mut lines = 0;
        while let Some(piece) = whole.next().await? {
            lines += piece.iter().filter(|line| !matches!(line, Line::End { .. })).count() as u64;
        }
        Ok(lines.saturating_sub(self.facts + self.episodes))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /audit`: what was done to this subject's memory as a whole. Another scope is named by a hash.
pub(super) async fn audit(State(api): State<Shared>, call: Read, Filter(query): Filter<AuditQuery>) -> Answer {
    let limit = checked_limit(query.limit)?;
    let wrong = || ApiError::bad("cursor", "is not the `next` of an earlier list");
    let after = match query.cursor {
        None => 0,
        Some(text) => text.parse::<i64>().map_err(|_| wrong())?,
    };
    let rows = api.store.audited(&call.scope, after, limit + 1).await?;
    let shown = &rows[..rows.len().min(limit as usize)];
    let next = (rows.len() > shown.len()).then(|| shown.last().map(|row| row.seq.to_string())).flatten();
    let data: Vec<Value> = shown.iter().map(|row| render::object(&row.audit)).collect();
    Ok(render::ok(&json!({ "data": data, "next": next })))
}
