//! `POST /memory/v1/recall`: a question to memories, with their raw scores.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, Request, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::explain::answer;
use crate::access::identify;
use crate::app::App;
use crate::base::{ErrorKind, GatewayError, Time};
use crate::exchange::MemoryApi;
use crate::layers::read_body;
use crate::memory::{EpisodeScores, RecalledEpisode, RecalledPassage};
use crate::recall::{Exclude, Listed, Query};
use crate::telemetry::{Outcome, Route};

/// Most episodes that are returned.
const MAX_LIMIT: usize = 100;
/// How long the vector of a question is waited for; no model waits for this answer.
const VECTOR_WAIT: Duration = Duration::from_secs(2);
/// Longest question, in characters; the rest of a longer one is passed over.
const MAX_QUERY_CHARS: usize = 4_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
    /// When it is asked, RFC 3339; now when it is absent.
    #[serde(default)]
    asked_at: Option<String>,
}

pub(super) async fn handle(State(app): State<Arc<App>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let result = match read_body(&parts.headers, body, app.settings.max_body_bytes, app.settings.patience).await {
        Ok(body) => recall(&app, &parts.headers, &body).await,
        Err(error) => Err(error),
    };
    let reply = answer(result.map(|value| value.to_string()));
    app.metrics.requests.inc(Route::Recall, Outcome::of_status(reply.status().as_u16()));
    reply
}

async fn recall(app: &App, headers: &HeaderMap, body: &[u8]) -> Result<Value, GatewayError> {
    let (principal, _) = app.keys.authenticate(headers).await?;
    if principal.memory_api == MemoryApi::Off {
        return Err(GatewayError::new(ErrorKind::Forbidden, "this key may not use the memory API"));
    }
    let identity = identify(&principal, headers, &())?;
    let scope = identity.scope.ok_or_else(|| {
        GatewayError::new(ErrorKind::BadRequest, "no subject: name it in the header x-backstory-user")
            .with_param("x-backstory-user")
    })?;
    let question: Question = serde_json::from_slice(body).map_err(|error| {
        GatewayError::new(
            ErrorKind::BadRequest,
            format!("the body must be {{\"query\": TEXT, \"limit\"?: N, \"asked_at\"?: TIME}}: {error}"),
        )
    })?;
    let now = match question.asked_at.as_deref() {
        None => app.clock.now(),
        Some(text) => Time::parse(text).ok_or_else(|| {
            GatewayError::new(ErrorKind::BadRequest, "asked_at must be an RFC 3339 time").with_param("asked_at")
        })?,
    };
    let mut scopes = vec![scope];
    scopes.extend(identity.also_read);
    let mut query = Query {
        scopes,
        text: question.query.chars().take(MAX_QUERY_CHARS).collect(),
        before: None,
        now,
        max_sensitivity: principal.max_sensitivity,
        exclude: Exclude::default(),
        said: Arc::default(),
        max_episodes: question.limit.unwrap_or(10).min(MAX_LIMIT),
        vector: None,
    };
    let questions = app.questions.as_ref().filter(|_| app.recall.space().is_some());
    if let Some(questions) = questions {
        query.vector = questions.vector(&app.recall.to_embed(&query), VECTOR_WAIT).await;
    }
    let is_late = questions.is_some() && query.vector.is_none() && !query.text.trim().is_empty();
    let unavailable = |error| {
        GatewayError::new(ErrorKind::Overloaded, "memory cannot be read right now; try again").with_source(error)
    };
    let found = app.recall.recall(&query).await.map_err(unavailable)?;
    let Listed { episodes, degraded } = app.recall.search(&query).await.map_err(unavailable)?;
    let passages = app.knowledge.search(&identity.knowledge, &query, query.max_episodes).await.map_err(unavailable)?;
    let passages: Vec<Value> = passages.iter().map(passage).collect();
    let facts: Vec<Value> = found
        .profile
        .iter()
        .map(|fact| json!({"id": fact.id, "key": fact.key, "value": fact.value, "score": 1.0, "why": "profile"}))
        .chain(found.facts.iter().map(|f| {
            json!({"id": f.fact.id, "key": f.fact.key, "value": f.fact.value, "about": f.fact.about, "score": f.score, "why": f.why})
        }))
        .collect();
    let data: Vec<Value> = episodes.iter().take(query.max_episodes).map(episode).collect();
    let mut answer =
        json!({"data": data, "facts": facts, "passages": passages, "revision": found.revision, "next": null});
    if let Some(channel) = is_late.then_some("vector").or(degraded) {
        answer["degraded"] = channel.into();
    }
    Ok(answer)
}

fn passage(recalled: &RecalledPassage) -> Value {
    let (passage, scores) = (&recalled.passage, &recalled.scores);
    json!({
        "document": recalled.document.id,
        "title": recalled.document.title,
        "number": passage.number,
        "headings": passage.headings,
        "text": passage.text,
        "score": scores.fused,
        "scores": raw(scores),
    })
}

fn episode(recalled: &RecalledEpisode) -> Value {
    let (episode, scores) = (&recalled.episode, &recalled.scores);
    json!({
        "id": episode.id,
        "text": episode.text,
        "role": episode.role,
        "said_at": episode.said_at.to_rfc3339(),
        "score": scores.fused,
        "scores": raw(scores),
    })
}

fn raw(scores: &EpisodeScores) -> Value {
    json!({
        "turn": scores.turn,
        "neighbours": scores.neighbours,
        "session": scores.session,
        "coverage": scores.coverage,
        "dense_turn": scores.dense_turn,
        "dense_neighbours": scores.dense_neighbours,
        "fused": scores.fused,
        "rerank": scores.rerank,
    })
}
