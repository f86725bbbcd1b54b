//! `Recall`: what memory has to say, within a deadline. It never refuses: without memory the request goes on as it is.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::reserve::Reservation;
use super::stage::Stage;
use crate::base::{GatewayError, Time};
use crate::context::{self, Earlier, Notes, Pinned};
use crate::conversation::{self, Chain, fence};
use crate::exchange::{self, Call, Continues, Funded, MemoryOutcome, Recalled, Why};
use crate::memory::{RecalledPassage, Recollection, Scope, Sensitivity};
use crate::recall::{self, Exclude, Knowledge, Passages, Query, Questions, Said};
use crate::states::States;
use crate::store::{StateKey, StoreError, TurnState};
use crate::telemetry::{Label, Metrics, RecallOutcome, names};
use crate::wire::{ChatRequest, Role};

/// A question shorter than this is looked up together with what came before it, in characters.
const SHORT_QUERY_CHARS: usize = 40;
/// How much of what came before is taken, in characters.
const BEFORE_CHARS: usize = 400;
/// So many long user turns are looked at for a block that stays in place: the newest.
const MAX_EARLIER: usize = 32;
/// The longest question that is looked up, in characters; the rest of a longer one is passed over.
const MAX_QUERY_CHARS: usize = 4_000;
/// So much of what the request says is compared with what is about to be shown, in bytes: the newest messages.
const MAX_SAID_BYTES: usize = 64 * 1024;

/// Of the deadline, so much is left to find with, when the vector of a question is late.
const SHARE_TO_FIND: u32 = 4;

/// Asks memory.
pub struct Recall {
    recall: Arc<recall::Recall>,
    knowledge: Arc<Knowledge>,
    states: Arc<States>,
    deadline: Duration,
    tasks: TaskTracker,
    metrics: Arc<Metrics>,
    questions: Option<Arc<Questions>>,
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Recall {
    /// Asks `recall` and `knowledge`, for at most `deadline`. A scope that has not been read by then goes on being read on `tasks`.
    #[must_use]
    pub fn new(
        recall: Arc<recall::Recall>,
        knowledge: Arc<Knowledge>,
        states: Arc<States>,
        deadline: Duration,
        tasks: TaskTracker,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { recall, knowledge, states, deadline, tasks, metrics, questions: None }
    }

    /// Finds by vectors, too.
    #[must_use]
    pub fn with_questions(self, questions: Option<Arc<Questions>>) -> Self {
        Self { questions, ..self }
    }

    /// Does the work of the stage for a call: also what `explain` uses.
    pub async fn ask(&self, call: &Call) -> exchange::Recall {
        let identity = &call.identity;
        // In boxes: where nothing is asked, no room for it is to be carried along.
        match (call.payload.chat(), &identity.scope, identity.skipped) {
            (Some(_), Some(_), Some(reason)) => without(MemoryOutcome::Skipped(reason), None),
            (Some(chat), Some(scope), None) => Box::pin(self.ask_for(call, chat, scope)).await,
            _ => Box::pin(self.without_subject(call)).await,
        }
    }

    async fn ask_for(&self, call: &Call, chat: &ChatRequest, scope: &Scope) -> exchange::Recall {
        let chain = Arc::new(conversation::chain(scope, chat));
        let begun = Instant::now();
        let asked = tokio::time::timeout(self.deadline, self.look(call, chat, scope, &chain, begun)).await;
        let result = match asked {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => {
                tracing::warn!(%error, "memory could not be read; the request goes on without it");
                without(MemoryOutcome::Error, Some(Arc::clone(&chain)))
            }
            Err(_) => without(MemoryOutcome::Timeout, Some(Arc::clone(&chain))),
        };
        self.metrics.recalls.inc(outcome_label(&result));
        self.metrics.recall_seconds.observe(begun.elapsed().as_secs_f64());
        result
    }

    /// Documents are about no person: they are shown to whom nobody is named as well.
    async fn without_subject(&self, call: &Call) -> exchange::Recall {
        let identity = &call.identity;
        let newest =
            call.payload.chat().filter(|_| !identity.knowledge.is_empty()).map(|chat| (chat, chat.newest_user()));
        let Some((chat, Some(newest))) = newest else {
            return without(MemoryOutcome::Skipped(identity.skipped.unwrap_or("off")), None);
        };
        let begun = Instant::now();
        let query = self.query(call, chat, Vec::new(), Exclude::default(), newest);
        let (passages, degraded) = self.documents(call, &query).await;
        let found = Recollection { passages, ..Recollection::default() };
        let result = exchange::Recall {
            notes: context::lines(&found, call.stamp.at),
            why: reasons(&found),
            ..without(MemoryOutcome::NoSubject { degraded }, None)
        };
        self.metrics.recalls.inc(outcome_label(&result));
        self.metrics.recall_seconds.observe(begun.elapsed().as_secs_f64());
        result
    }

    /// Passages of documents, and what did not answer in time: that must not cost the memories, so it has half of their time.
    async fn documents(&self, call: &Call, query: &Query) -> (Vec<RecalledPassage>, Option<&'static str>) {
        let finding = self.knowledge.find_behind(&call.identity.knowledge, query, &self.tasks);
        match tokio::time::timeout(self.deadline / 2, finding).await {
            Ok(Ok(Passages { shown, degraded })) => (shown, degraded),
            Ok(Err(error)) => {
                tracing::warn!(%error, "documents could not be read; the request goes on without them");
                (Vec::new(), Some("knowledge"))
            }
            Err(_) => (Vec::new(), Some("knowledge")),
        }
    }

    async fn look(
        &self,
        call: &Call,
        chat: &ChatRequest,
        scope: &Scope,
        chain: &Arc<Chain>,
        begun: Instant,
    ) -> Result<exchange::Recall, StoreError> {
        let now = call.stamp.at;
        let epoch = self.states.epoch(scope).await?;
        if !call.identity.memory.read {
            return Ok(exchange::Recall { epoch, ..without(MemoryOutcome::Skipped("off"), Some(Arc::clone(chain))) });
        }
        let Some(newest) = chat.newest_user() else {
            // The tool loop of a conversation that upstream keeps: there stands the recollection, but each request brings its instructions.
            if let Some(shown) = call.continues.as_ref().map(|before| shown_with(before, now))
                && self.still_shown(call, scope, &shown, now).await?
            {
                return Ok(pinned(&shown, Vec::new(), chain, epoch));
            }
            return Ok(exchange::Recall {
                epoch,
                ..without(MemoryOutcome::Skipped("no-user-message"), Some(Arc::clone(chain)))
            });
        };
        let state = |prefix| StateKey { scope: scope.clone(), prefix };

        // A tool loop: the block that was shown with this user message stands where it stood, byte for byte.
        let earlier = self.earlier(call, chat, scope, chain).await?;
        if chain.is_tool_loop()
            && let Some(pin) = self.states.get(&state(chain.prefixes[newest]), now).await?
            && self.still_shown(call, scope, &pin, now).await?
        {
            return Ok(pinned(&pin, earlier, chain, epoch));
        }
        let kept = match chain.previous_turn() {
            Some(prefix) => self.states.get(&state(prefix), now).await?,
            None => call.continues.as_ref().map(|before| Arc::new(shown_with(before, now))),
        };
        let mut scopes = vec![scope.clone()];
        scopes.extend(call.identity.also_read.iter().cloned());
        let query = self.query(call, chat, scopes, Exclude::of(&chain.message_hashes), newest);
        let (found, (passages, degraded)) = tokio::join!(self.find(&query, begun), self.documents(call, &query));
        let mut found = found?;
        found.passages = passages;
        found.degraded = found.degraded.or(degraded);
        let mut notes = context::lines(&found, now);
        let kept = kept.filter(|kept| still_holds(kept, &found));
        let profile_facts = match &kept {
            Some(kept) => kept.profile_facts.clone(),
            None => notes.profile.iter().filter_map(|line| line.fact).collect(),
        };
        notes.keep_profile = kept.map(|kept| Arc::clone(&kept.profile));
        notes.earlier = earlier;
        Ok(exchange::Recall {
            outcome: MemoryOutcome::Asked { degraded: found.degraded },
            chain: Some(Arc::clone(chain)),
            notes,
            why: reasons(&found),
            profile_facts,
            revision: found.revision,
            epoch,
        })
    }

    /// By words, and by the question's vector when it comes in time: it is made while the scopes are read.
    async fn find(&self, query: &Query, begun: Instant) -> Result<Recollection, StoreError> {
        let Some(questions) = self.questions.as_ref().filter(|_| self.recall.space().is_some()) else {
            return self.recall.recall_behind(query, begun, &self.tasks).await;
        };
        let limit = (self.deadline - self.deadline / SHARE_TO_FIND).saturating_sub(begun.elapsed());
        let asked = self.recall.to_embed(query);
        let (vector, ()) =
            tokio::join!(questions.vector(&asked, limit), self.recall.read_behind(&query.scopes, &self.tasks));
        let is_late = vector.is_none() && !query.text.trim().is_empty();
        let query = Query { vector, ..query.clone() };
        let mut found = self.recall.recall_behind(&query, begun, &self.tasks).await?;
        if is_late {
            found.degraded = Some("vector");
        }
        Ok(found)
    }

    /// The recollections shown with earlier, long user turns: they may stay in place, which Fit decides by the tokens. Only those that
    /// are kept and of which everything still holds; without, the turn stands as the client sent it.
    async fn earlier(
        &self,
        call: &Call,
        chat: &ChatRequest,
        scope: &Scope,
        chain: &Chain,
    ) -> Result<Vec<Earlier>, StoreError> {
        // A block does not say how sensitive it is.
        if call.principal.max_sensitivity < Sensitivity::Sensitive {
            return Ok(Vec::new());
        }
        let (now, messages) = (call.stamp.at, chat.messages());
        // No token is shorter than a byte.
        let is_long =
            |turn: &&[usize]| messages[turn[1]].span.start - messages[turn[0]].span.start > call.policy.sticky_tokens;
        let mut turns: Vec<usize> =
            chain.users().windows(2).rev().filter(is_long).take(MAX_EARLIER).map(|turn| turn[0]).collect();
        turns.reverse();
        let mut out = Vec::new();
        for message in turns {
            let key = StateKey { scope: scope.clone(), prefix: chain.prefixes[message] };
            if let Some(pin) = self.states.get(&key, now).await?
                && !pin.recollection.is_empty()
                && self.still_shown(call, scope, &pin, now).await?
            {
                out.push(Earlier { message, block: Arc::clone(&pin.recollection) });
            }
        }
        Ok(out)
    }

    /// Whether what was shown may be shown again: nothing of it was erased or retired since.
    async fn still_shown(&self, call: &Call, scope: &Scope, pin: &TurnState, now: Time) -> Result<bool, StoreError> {
        let mut scopes = vec![scope.clone()];
        scopes.extend(call.identity.also_read.iter().cloned());
        if !self.recall.still_hold(&scopes, &pin.facts, &pin.episodes, now).await? {
            return Ok(false);
        }
        // Documents that cannot be looked at must not cost the memories: only what stood there is not shown again.
        let holds = self.knowledge.still_hold(&call.identity.knowledge, &pin.passages);
        match tokio::time::timeout(self.deadline / SHARE_TO_FIND, holds).await {
            Ok(Ok(holds)) => Ok(holds),
            Ok(Err(error)) => {
                tracing::warn!(%error, "documents could not be read; what was shown of them is not shown again");
                Ok(false)
            }
            Err(_) => Ok(false),
        }
    }

    fn query(&self, call: &Call, chat: &ChatRequest, scopes: Vec<Scope>, exclude: Exclude, newest: usize) -> Query {
        let text = chat.message_text(&chat.messages()[newest]);
        let text: String = fence::strip(&text).chars().take(MAX_QUERY_CHARS).collect();
        let before = (text.chars().count() < SHORT_QUERY_CHARS).then(|| what_came_before(chat, newest)).flatten();
        Query {
            scopes,
            text,
            before,
            now: call.stamp.at,
            max_sensitivity: call.principal.max_sensitivity,
            exclude,
            said: Arc::new(Said::of(said(chat, newest))),
            max_episodes: self.recall.max_episodes(),
            vector: None,
        }
    }
}

impl Stage<Funded<Reservation>> for Recall {
    type Out = Recalled<Reservation>;

    async fn run(&self, input: Funded<Reservation>) -> Result<Self::Out, GatewayError> {
        let Funded { call, reservation } = input;
        let span = tracing::debug_span!(names::RECALL, backstory.outcome = tracing::field::Empty);
        let recall = self.ask(&call).instrument(span.clone()).await;
        span.record("backstory.outcome", outcome_label(&recall).text());
        Ok(Recalled { call, reservation, recall: Arc::new(recall) })
    }
}

/// The state of a turn that goes on from a response: its profile, all else stands upstream.
fn shown_with(before: &Continues, now: Time) -> TurnState {
    TurnState {
        profile: Arc::clone(&before.profile),
        profile_facts: before.profile_facts.clone(),
        recollection: Arc::from(""),
        facts: before.profile_facts.clone(),
        episodes: Vec::new(),
        passages: Vec::new(),
        revision: before.revision,
        expires_at: now,
    }
}

fn without(outcome: MemoryOutcome, chain: Option<Arc<Chain>>) -> exchange::Recall {
    exchange::Recall {
        outcome,
        chain,
        notes: Notes::default(),
        why: Vec::new(),
        profile_facts: Vec::new(),
        revision: 0,
        epoch: 0,
    }
}

fn pinned(pin: &TurnState, earlier: Vec<Earlier>, chain: &Arc<Chain>, epoch: i64) -> exchange::Recall {
    let notes = Notes {
        pinned: Some(Pinned { profile: Arc::clone(&pin.profile), recollection: Arc::clone(&pin.recollection) }),
        earlier,
        ..Notes::default()
    };
    let outcome = MemoryOutcome::Pinned {
        n_facts: pin.facts.len(),
        n_episodes: pin.episodes.len(),
        n_passages: pin.passages.len(),
    };
    let profile_facts = pin.profile_facts.clone();
    let recall = without(outcome, Some(Arc::clone(chain)));
    exchange::Recall { notes, epoch, profile_facts, revision: pin.revision, ..recall }
}

/// Whether the profile block shown earlier in the conversation may stand: every fact it rests on is still known. A newer value of one is told
/// at the tail; one that was erased or retired takes the block with it.
fn still_holds(kept: &TurnState, found: &Recollection) -> bool {
    kept.profile_facts.iter().all(|id| found.profile.iter().any(|fact| fact.id == *id))
}

/// The end of the message before the newest user message, to make sense of a short one ("yes, that one").
fn what_came_before(chat: &ChatRequest, newest: usize) -> Option<String> {
    let message = chat.messages()[..newest].iter().rev().find(|m| matches!(m.role, Role::User | Role::Assistant))?;
    let text = chat.message_text(message);
    let text = fence::strip(&text);
    let skip = text.chars().count().saturating_sub(BEFORE_CHARS);
    Some(text.chars().skip(skip).collect())
}

/// What the request says up to the newest user message, as far as it is looked at: of the message that is too long, the end. What comes
/// behind is of a tool loop, in which what is shown must stay as it is.
fn said(chat: &ChatRequest, newest: usize) -> Vec<String> {
    let mut room = MAX_SAID_BYTES;
    let mut texts = Vec::new();
    for message in chat.messages()[..=newest].iter().rev() {
        if room == 0 {
            break;
        }
        let text = chat.message_text(message);
        let text = fence::strip(&text);
        let from = text.ceil_char_boundary(text.len().saturating_sub(room));
        texts.push(text[from..].to_owned());
        room = if from == 0 { room - text.len() } else { 0 };
    }
    texts
}

fn reasons(found: &Recollection) -> Vec<Why> {
    let profile = found.profile.iter().map(|f| Why { id: f.id.to_string(), score: 1.0, reason: "profile".to_owned() });
    let facts = found.facts.iter().map(|f| Why { id: f.fact.id.to_string(), score: f.score, reason: f.why.clone() });
    let episodes = found.episodes.iter().map(|e| Why {
        id: e.episode.id.to_string(),
        score: e.scores.fused,
        reason: format!(
            "words: turn {:.2}, neighbours {:.2}, session {:.2}, coverage {:.2}{}",
            e.scores.turn,
            e.scores.neighbours,
            e.scores.session,
            e.scores.coverage,
            match (e.scores.dense_turn, e.scores.dense_neighbours) {
                (Some(turn), Some(neighbours)) => format!("; vectors: turn {turn:.2}, neighbours {neighbours:.2}"),
                _ => String::new(),
            }
        ),
    });
    let passages = found.passages.iter().map(|p| Why {
        id: format!("{}#{}", p.document.id, p.passage.number),
        score: p.scores.fused,
        reason: format!(
            "words of \"{}\": passage {:.2}, document {:.2}, coverage {:.2}",
            p.document.title, p.scores.turn, p.scores.session, p.scores.coverage
        ),
    });
    profile.chain(facts).chain(episodes).chain(passages).collect()
}

fn outcome_label(result: &exchange::Recall) -> RecallOutcome {
    let notes = &result.notes;
    match result.outcome {
        MemoryOutcome::Skipped(_) => RecallOutcome::Skipped,
        MemoryOutcome::NoSubject { .. } if notes.recollection.is_empty() => RecallOutcome::Skipped,
        MemoryOutcome::NoSubject { .. } => RecallOutcome::Hit,
        MemoryOutcome::Timeout => RecallOutcome::Timeout,
        MemoryOutcome::Error => RecallOutcome::Error,
        MemoryOutcome::Pinned { .. } => RecallOutcome::Pinned,
        MemoryOutcome::Asked { .. } if notes.profile.is_empty() && notes.recollection.is_empty() => RecallOutcome::Miss,
        MemoryOutcome::Asked { .. } => RecallOutcome::Hit,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    fn chat(messages: &serde_json::Value) -> ChatRequest {
        ChatRequest::decode(Bytes::from(json!({"model": "m", "messages": messages}).to_string())).unwrap()
    }

    #[test]
    fn of_a_message_that_is_too_long_the_end_is_compared() {
        let long = format!("{}The pier is broken.", "é".repeat(MAX_SAID_BYTES));
        let chat = chat(&json!([{"role": "user", "content": "before"}, {"role": "user", "content": long}]));
        let said = said(&chat, 1);
        assert_eq!(said.len(), 1);
        assert!(said[0].ends_with("The pier is broken.") && said[0].len() <= MAX_SAID_BYTES);
    }

    // What a tool tells must not take a memory out of the block: its bytes stay as they are within the loop.
    #[test]
    fn what_comes_behind_the_newest_user_message_is_not_compared() {
        let chat = chat(&json!([
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Look it up."},
            {"role": "assistant", "content": "I do."},
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": "Gladly."}
        ]));
        assert_eq!(said(&chat, 3), ["Go on.", "I do.", "Look it up.", "Be kind."]);
    }
}
