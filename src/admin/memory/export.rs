//! `GET /export`: a scope as NDJSON, a page at a time, so that a large one takes no memory.

use std::collections::VecDeque;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;

use super::Shared;
use super::call::{Caller, Read};
use super::error::Answer;
use crate::memory::export::Line;
use crate::memory::{HistoryEntry, Scope};
use crate::store::{EpisodeFilter, Page, StoreError};

/// Facts, or episodes, that are read at once.
const BATCH: u32 = 100;

/// Facts with their history, then episodes. An export that was cut short has no last line that counts them.
pub(super) async fn export(State(api): State<Shared>, call: Read) -> Answer {
    let header = Line::header(&call.scope, api.clock.now());
    let reader = Reader::new(&api, call.caller, &call.scope);
    let first = VecDeque::from([Bytes::from(header.encode())]);
    let body = futures_util::stream::try_unfold((reader, first), |(mut reader, mut ready)| async move {
        loop {
            if let Some(piece) = ready.pop_front() {
                return Ok::<_, StoreError>(Some((piece, (reader, ready))));
            }
            match reader.next().await {
                Ok(None) => return Ok(None),
                Ok(Some(lines)) if lines.is_empty() => {}
                Ok(Some(lines)) => ready.push_back(lines.iter().map(Line::encode).collect::<String>().into()),
                Err(error) => {
                    tracing::error!(%error, "an export broke off");
                    return Err(error);
                }
            }
        }
    });
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    let response: Response = (headers, Body::from_stream(body)).into_response();
    Ok(response)
}

/// Reads the lines of a scope, as far as a caller may see them, in order of id.
pub(super) struct Reader {
    pub(super) api: Shared,
    pub(super) caller: Caller,
    pub(super) scope: Scope,
    at: At,
    /// Lines so far.
    pub(super) facts: u64,
    pub(super) episodes: u64,
}

/// What is read next, and behind which id.
enum At {
    Facts(Option<String>),
    Episodes(Option<String>),
    End,
}

impl Reader {
    pub(super) fn new(api: &Shared, caller: Caller, scope: &Scope) -> Self {
        Self { api: api.clone(), caller, scope: scope.clone(), at: At::Facts(None), facts: 0, episodes: 0 }
    }

    /// The next lines; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Line>>, StoreError> {
        match &self.at {
            At::Facts(after) => {
                let page = Page { after: after.clone(), limit: BATCH };
                let histories = self.api.store.histories(&self.scope, &page).await?;
                let last = histories.last().and_then(|rows| rows.first()).map(|row| row.fact_id.to_string());
                self.at = if histories.len() < BATCH as usize { At::Episodes(None) } else { At::Facts(last) };
                let lines: Vec<Line> = histories.into_iter().filter_map(|rows| self.fact(rows)).collect();
                self.facts += lines.len() as u64;
                Ok(Some(lines))
            }
            At::Episodes(after) => {
                let page = Page { after: after.clone(), limit: BATCH };
                let rows = self.api.store.list_episodes(&self.scope, &EpisodeFilter::default(), &page).await?;
                let last = rows.last().map(|episode| episode.id.to_string());
                let is_last = rows.len() < BATCH as usize;
                let seen = rows.into_iter().filter(|episode| self.caller.sees(episode.sensitivity));
                let mut lines: Vec<Line> = seen.map(|episode| Line::Episode { episode: Box::new(episode) }).collect();
                self.episodes += lines.len() as u64;
                self.at = if is_last { At::End } else { At::Episodes(last) };
                if is_last {
                    lines.push(Line::End { facts: self.facts, episodes: self.episodes });
                }
                Ok(Some(lines))
            }
            At::End => Ok(None),
        }
    }

    /// A fact that the caller may see, in all its versions.
    fn fact(&self, history: Vec<HistoryEntry>) -> Option<Line> {
        let fact = Box::new(history.last()?.fact.clone());
        let seen = history.iter().all(|row| self.caller.sees(row.fact.sensitivity));
        seen.then_some(Line::Fact { fact, history })
    }
}
