//! Episodes: list, read, add, label, delete.

use axum::extract::State;
use serde::Deserialize;
use serde_json::json;

use super::call::{Filter, Id, Json, Read, Write};
use super::error::{Answer, ApiError};
use super::listing::Listing;
use super::{Shared, render};
use crate::base::{EpisodeId, Time};
use crate::memory::gate::gives_orders;
use crate::memory::redact::redact;
use crate::memory::{Episode, EpisodeKind, EpisodeStatus, Speaker};
use crate::store::EpisodeFilter;

/// The longest text of an episode, in characters: about 500 tokens.
const MAX_TEXT_CHARS: usize = 2000;
/// The most labels, and the most names, of an episode.
const MAX_LABELS: usize = 32;
/// The longest label, name and session, in bytes.
const MAX_LABEL_BYTES: usize = 128;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EpisodeQuery {
    status: Option<EpisodeStatus>,
    session: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// `GET /episodes`.
pub(super) async fn list(State(api): State<Shared>, call: Read, Filter(query): Filter<EpisodeQuery>) -> Answer {
    let listing = Listing::new::<EpisodeId>(query.limit, query.cursor.as_deref())?;
    let filter = EpisodeFilter { status: query.status, session: query.session };
    let rows = api.store.list_episodes(&call.scope, &filter, &listing.page()).await?;
    let sees = |episode: &Episode| call.caller.sees(episode.sensitivity);
    Ok(listing.answer(rows, |episode| episode.id.to_string(), |episode| sees(episode).then(|| render::object(episode))))
}

/// `GET /episodes/{id}`.
pub(super) async fn read(State(api): State<Shared>, call: Read, Id(id): Id<EpisodeId>) -> Answer {
    let episode = api.store.episode(&call.scope, id).await?;
    let episode = episode.filter(|episode| call.caller.sees(episode.sensitivity)).ok_or_else(no_such)?;
    Ok(render::ok(&render::object(&episode)))
}

/// An episode as an app writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEpisode {
    text: String,
    #[serde(default = "app")]
    role: Speaker,
    speaker: Option<String>,
    session: Option<String>,
    said_at: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    entities: Vec<String>,
}

fn app() -> Speaker {
    Speaker::Other
}

/// `POST /episodes`.
pub(super) async fn create(State(api): State<Shared>, call: Write, Json(new): Json<NewEpisode>) -> Answer {
    let now = api.clock.now();
    let said_at = match &new.said_at {
        None => now,
        Some(text) => Time::parse(text).ok_or_else(|| ApiError::bad("said_at", "must be RFC 3339, or a date"))?,
    };
    let text = checked_text(&new.text)?;
    check_labels("tags", &new.tags)?;
    check_labels("entities", &new.entities)?;
    check_labels("speaker", new.speaker.as_slice())?;
    check_labels("session", new.session.as_slice())?;
    let id = EpisodeId::generate(now, &*api.random);
    // Text with orders to the assistant is kept for a person to see, and never shown to a model.
    let status = if gives_orders(&text) { EpisodeStatus::Quarantined } else { EpisodeStatus::Active };
    let episode = Episode {
        message_hash: blake3::hash(text.as_bytes()).to_hex().to_string(),
        kind: EpisodeKind::Event,
        speaker: new.speaker,
        // Without a session it stands alone: it has no neighbours.
        session: new.session.unwrap_or_else(|| id.to_string()),
        position: said_at.0,
        recorded_at: now,
        tags: new.tags,
        entities: new.entities,
        half_life: api.schemas.fading(&call.scope.namespace).episode,
        status,
        ..Episode::said(id, text, new.role, said_at)
    };
    api.store.put_episodes(&call.scope, std::slice::from_ref(&episode)).await?;
    api.changed.changed(&call.scope);
    Ok(render::created(&render::object(&episode)))
}

/// A change of an episode: its labels only, since its text is evidence.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EpisodePatch {
    tags: Vec<String>,
}

/// `PATCH /episodes/{id}`.
pub(super) async fn change(
    State(api): State<Shared>,
    call: Write,
    Id(id): Id<EpisodeId>,
    Json(patch): Json<EpisodePatch>,
) -> Answer {
    check_labels("tags", &patch.tags)?;
    let episode = api.store.episode(&call.scope, id).await?;
    let mut episode = episode.filter(|episode| call.caller.sees(episode.sensitivity)).ok_or_else(no_such)?;
    episode.tags = patch.tags;
    if !api.store.update_episode(&call.scope, &episode).await? {
        return Err(no_such());
    }
    api.changed.changed(&call.scope);
    Ok(render::ok(&render::object(&episode)))
}

/// `DELETE /episodes/{id}`.
pub(super) async fn delete(State(api): State<Shared>, call: Write, Id(id): Id<EpisodeId>) -> Answer {
    let episode = api.store.episode(&call.scope, id).await?;
    episode.filter(|episode| call.caller.sees(episode.sensitivity)).ok_or_else(no_such)?;
    if !api.store.delete_episode(&call.scope, id, api.clock.now()).await? {
        return Err(no_such());
    }
    api.changed.changed(&call.scope);
    Ok(render::ok(&json!({ "id": id, "deleted": true })))
}

fn no_such() -> ApiError {
    ApiError::not_found("episode")
}

/// The text, secrets masked.
fn checked_text(text: &str) -> Answer<String> {
    let text = text.trim();
    let length = text.chars().count();
    if length == 0 {
        return Err(ApiError::bad("text", "must not be empty"));
    }
    if length > MAX_TEXT_CHARS {
        let public = format!("has {length} characters, and an episode may have {MAX_TEXT_CHARS}; cut it by event");
        return Err(ApiError::bad("text", public));
    }
    Ok(redact(text).into_owned())
}

/// Checks lists of short texts.
pub(super) fn check_labels(param: &str, labels: &[String]) -> Answer<()> {
    if labels.len() > MAX_LABELS {
        return Err(ApiError::bad(param, format!("at most {MAX_LABELS} are allowed")));
    }
    let bad = |label: &String| label.is_empty() || label.len() > MAX_LABEL_BYTES || label.chars().any(char::is_control);
    if labels.iter().any(bad) {
        let public = format!("each must be one line of at most {MAX_LABEL_BYTES} bytes, and not empty");
        return Err(ApiError::bad(param, public));
    }
    Ok(())
}
