//! `POST /import`: lines of an export, or what another product exports, into the caller's scope.
//!
//! A bad line is passed over and reported; what is there already stays as it is. So importing again is safe, and goes on where
//! an import broke off.

use axum::body::to_bytes;
use axum::extract::{Request, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{Filter, Write, body_error};
use super::edits::{TRIES, existing, schema};
use super::error::{Answer, ApiError};
use super::mentions::{Gone, mark};
use super::{Shared, render};
use crate::base::{ErrorKind, Time};
use crate::memory::edit::{EditCx, NewFact, created_by_api};
use crate::memory::export::{Line, VERSION};
use crate::memory::import::{self, Target, foreign};
use crate::memory::{Actor, Episode, FactChange, Scope, Speaker};
use crate::store::StoreError;

/// The largest body, in bytes. A larger export is sent in pieces, each with the first line before it.
const MAX_BODY_BYTES: usize = 32 << 20;
/// The longest line, in bytes.
const MAX_LINE_BYTES: usize = 4 << 20;
/// At most so many refused lines are named in the answer; all are counted.
const MAX_NAMED: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImportQuery {
    /// Of a list of memories of several users: whose to take.
    user_id: Option<String>,
}

/// `POST /import`.
pub(super) async fn import(
    State(api): State<Shared>,
    call: Write,
    Filter(query): Filter<ImportQuery>,
    request: Request,
) -> Answer {
    let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await.map_err(|e| body_error(&e, MAX_BODY_BYTES))?;
    let text = std::str::from_utf8(&body).map_err(|_| ApiError::new(ErrorKind::BadRequest, "the body is not UTF-8"))?;
    let text = text.trim_start_matches('\u{feff}');
    let mut taker = Taker::new(&api, &call.scope, if call.caller.is_operator() { Actor::Operator } else { Actor::Api });
    match header(text)? {
        Some(origin) => {
            taker.origin = Some(origin);
            for (number, line) in (1..).zip(text.lines()) {
                if line.trim().is_empty() {
                    continue;
                }
                match parse(line) {
                    Ok(line) => taker.take(number, line).await?,
                    Err(reason) => taker.refuse(number, reason),
                }
            }
        }
        None => {
            let document: Value = serde_json::from_str(text).map_err(|error| {
                let public = format!(
                    "neither an export whose first line says so ({{\"type\": \"header\", …}}), nor one JSON document: {error}"
                );
                ApiError::new(ErrorKind::BadRequest, public)
            })?;
            let lines = foreign::lines(&document, query.user_id.as_deref()).map_err(|problem| {
                ApiError::new(ErrorKind::BadRequest, format!("cannot import this document: {problem}"))
            })?;
            for (number, line) in (1..).zip(lines) {
                taker.take(number, line).await?;
            }
        }
    }
    let done = taker.finish().await?;
    tracing::info!(
        scope = ?call.scope, facts = done.facts, episodes = done.episodes, already = done.already, refused = done.refused,
        "an import was taken in"
    );
    Ok(render::ok(&done.render()))
}

/// The origin that the first line names; `None` when it is no header.
fn header(text: &str) -> Answer<Option<String>> {
    let Some(first) = text.lines().find(|line| !line.trim().is_empty()) else {
        return Err(ApiError::new(ErrorKind::BadRequest, "the body is empty"));
    };
    match serde_json::from_str::<Line>(first) {
        Ok(Line::Header { format, version, origin, .. }) => {
            if format != "backstory" || version == 0 || version > VERSION {
                let public = format!(
                    "this is {format} version {version}, and versions 1 to {VERSION} of `backstory` can be read"
                );
                return Err(ApiError::new(ErrorKind::BadRequest, public));
            }
            Ok(Some(origin))
        }
        _ => Ok(None),
    }
}

fn parse(line: &str) -> Result<Line, String> {
    if line.len() > MAX_LINE_BYTES {
        return Err(format!("the line is longer than {MAX_LINE_BYTES} bytes"));
    }
    serde_json::from_str(line).map_err(|error| {
        // Only what kind of error and where: its text may quote the line.
        format!("not a line of an export: {:?} error in column {}", error.classify(), error.column()).to_lowercase()
    })
}

/// What an import did.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) facts: u64,
    pub(super) episodes: u64,
    pub(super) notes: u64,
    /// Was there before.
    pub(super) already: u64,
    /// Small talk and the like.
    pub(super) nothing: u64,
    pub(super) refused: u64,
    named: Vec<Value>,
}

impl Taken {
    pub(super) fn render(&self) -> Value {
        json!({
            "facts": self.facts, "episodes": self.episodes, "notes": self.notes, "already": self.already,
            "nothing_to_keep": self.nothing, "refused": self.refused, "problems": self.named,
        })
    }
}

/// Takes lines into a scope.
pub(super) struct Taker<'a> {
    api: &'a Shared,
    scope: &'a Scope,
    actor: Actor,
    /// Where the lines come from.
    pub(super) origin: Option<String>,
    done: Taken,
    /// Values of the scope that gave way.
    gone: Vec<Gone>,
}

impl<'a> Taker<'a> {
    pub(super) fn new(api: &'a Shared, scope: &'a Scope, actor: Actor) -> Self {
        Self { api, scope, actor, origin: None, done: Taken::default(), gone: Vec::new() }
    }

    fn refuse(&mut self, number: u64, reason: String) {
        self.done.refused += 1;
        if self.done.named.len() < MAX_NAMED {
            self.done.named.push(json!({ "line": number, "reason": reason }));
        }
    }

    /// Takes one line.
    ///
    /// # Errors
    /// The store's, and that others keep changing the scope; a bad line is none.
    pub(super) async fn take(&mut self, number: u64, line: Line) -> Answer<()> {
        let target = Target::new(self.scope, self.origin.as_deref(), self.actor == Actor::Operator);
        match line {
            Line::Header { .. } | Line::End { .. } => {}
            Line::Fact { fact, history } => match import::fact(&fact, history, schema(self.api, self.scope), &target) {
                Ok(changes) => return self.fact(number, changes).await,
                Err(reason) => self.refuse(number, reason),
            },
            Line::Episode { episode } => match import::episode(*episode, &target) {
                Ok(episode) => return self.episode(number, episode).await,
                Err(reason) => self.refuse(number, reason),
            },
            Line::Note { text, said_at, tags } => match import::note(&text) {
                Some((key, value)) => {
                    let new = NewFact { key, value: value.into(), tags, valid_from: said_at, ..NewFact::default() };
                    return self.note(number, new).await;
                }
                None => return self.said(number, Speaker::Other, &text, said_at, ("imported", 0)).await,
            },
            Line::Said { role, text, said_at, session, position } => {
                return self.said(number, role, &text, said_at, (&session, position)).await;
            }
        }
        Ok(())
    }

    async fn said(
        &mut self,
        number: u64,
        role: Speaker,
        text: &str,
        said_at: Option<Time>,
        place: (&str, i64),
    ) -> Answer<()> {
        let now = self.api.clock.now();
        let half_life = self.api.schemas.fading(&self.scope.namespace).episode;
        let at = (said_at.unwrap_or(now), now);
        match import::said(role, text, at, place, half_life, self.scope) {
            // Cut to size already; checked like any other.
            Some(episode) => self.episode(number, episode).await,
            None => {
                self.done.nothing += 1;
                Ok(())
            }
        }
    }

    async fn fact(&mut self, number: u64, mut changes: Vec<FactChange>) -> Answer<()> {
        let Some(last) = changes.last().map(|change| change.fact.clone()) else { return Ok(()) };
        let replayed = changes.len();
        let _turn = self.api.turns.take(self.scope).await;
        for _ in 0..TRIES {
            if self.api.store.fact(self.scope, last.id).await?.is_some() {
                self.done.already += 1;
                return Ok(());
            }
            let existing = existing(self.api, self.scope, &last.key).await?;
            let cx = EditCx { now: self.api.clock.now(), ids: &*self.api.random, actor: self.actor };
            changes.truncate(replayed);
            changes.extend(import::settle(&last, &existing, schema(self.api, self.scope), &cx));
            match self.api.store.apply(self.scope, &changes).await {
                Ok(_) => {
                    self.done.facts += 1;
                    let gave_way = changes[replayed..].iter().map(|change| &change.fact);
                    let gave_way = gave_way.filter(|fact| fact.id != last.id && !fact.is_current());
                    self.gone.extend(gave_way.map(|fact| Gone { fact: fact.id, value: fact.value_text() }));
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.refuse(number, "an id in it is taken, or others keep changing this key".to_owned());
        Ok(())
    }

    async fn note(&mut self, number: u64, new: NewFact) -> Answer<()> {
        // Not even an operator's import makes another product's words an order.
        if let Err(reason) = import::check_value(&new.value, &new.key, false) {
            self.refuse(number, reason);
            return Ok(());
        }
        let _turn = self.api.turns.take(self.scope).await;
        for _ in 0..TRIES {
            let existing = existing(self.api, self.scope, &new.key).await?;
            if existing.iter().any(|fact| fact.value == new.value) {
                self.done.already += 1;
                return Ok(());
            }
            // A note of another product is an app's word, whoever imports it.
            let cx = EditCx { now: self.api.clock.now(), ids: &*self.api.random, actor: Actor::Api };
            let decided = match created_by_api(&existing, &new, schema(self.api, self.scope), &cx) {
                Ok(decided) => decided,
                Err(error) => {
                    self.refuse(number, error.to_string());
                    return Ok(());
                }
            };
            match self.api.store.apply(self.scope, &decided.changes).await {
                Ok(_) => {
                    self.done.notes += 1;
                    return Ok(());
                }
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.refuse(number, "others keep changing this key".to_owned());
        Ok(())
    }

    async fn episode(&mut self, number: u64, episode: Episode) -> Answer<()> {
        if self.api.store.episode(self.scope, episode.id).await?.is_some() {
            self.done.already += 1;
            return Ok(());
        }
        // Each on its own: one whose id is another scope's must not take the others with it.
        match self.api.store.put_episodes(self.scope, std::slice::from_ref(&episode)).await {
            Ok(_) => self.done.episodes += 1,
            Err(StoreError::Conflict { .. }) => self.refuse(number, "its id is taken".to_owned()),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Tells the caches, and says what was done.
    pub(super) async fn finish(self) -> Answer<Taken> {
        self.api.changed.changed(self.scope);
        if !self.gone.is_empty() {
            mark(self.api, self.scope, &self.gone).await?;
            self.api.changed.changed(self.scope);
        }
        Ok(self.done)
    }
}
