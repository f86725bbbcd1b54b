//! A data set: memories and questions, by scope.

use std::collections::HashMap;

use crate::base::{EpisodeId, Time};
use crate::memory::{Episode, Scope, Speaker, import};
use crate::recall::Speakers;

/// Memories and questions of several scopes.
#[derive(Clone, Debug, Default)]
pub(super) struct Dataset {
    pub(super) scopes: Vec<DataScope>,
}

/// Those of one scope.
#[derive(Clone, Debug, Default)]
pub(super) struct DataScope {
    pub(super) name: String,
    /// The memories as live traffic would store them.
    pub(super) episodes: Vec<Episode>,
    pub(super) questions: Vec<Question>,
    /// What the file calls each memory, also those of which nothing is stored: they count as not found.
    pub(super) ids: HashMap<String, EpisodeId>,
    /// When the last memory was said.
    pub(super) end: Time,
    /// How many were said in each session.
    said: HashMap<String, i64>,
}

/// One memory, as it stands in the file.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) role: Speaker,
    pub(super) speaker: Option<String>,
    pub(super) said_at: Time,
    pub(super) text: String,
}

impl DataScope {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    pub(super) fn scope(&self) -> Scope {
        Scope::new("eval", "eval", self.name.as_str())
    }

    /// Who speaks in it.
    pub(super) fn speakers(&self) -> Speakers {
        let mut speakers = Speakers::default();
        for name in self.episodes.iter().filter_map(|episode| episode.speaker.as_deref()) {
            speakers.number(name);
        }
        speakers
    }

    /// Stores of a memory what live traffic would: numbered within its session, redacted, cut to length, and nothing of small talk and
    /// one-off tasks.
    pub(super) fn remember(&mut self, memory: Memory) {
        let Memory { id, session, role, speaker, said_at, text } = memory;
        let number = EpisodeId(self.ids.len() as u128);
        let position = self.said.entry(session.clone()).or_default();
        let place = (session.as_str(), *position);
        *position += 1;
        let said = import::said(role, &text, (said_at, said_at), place, 0, &self.scope());
        self.episodes.extend(said.map(|said| Episode { id: number, speaker, ..said }));
        self.ids.insert(id, number);
        self.end = self.end.max(said_at);
    }
}

/// One question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) text: String,
    /// When it is asked; by default right after the last memory.
    pub(super) asked_at: Option<Time>,
    /// Memories that answer it, each once; none = nothing should be recalled.
    pub(super) expected: Vec<EpisodeId>,
    pub(super) category: String,
    /// Whether it counts in the overall figures: it has an answer, and is about the right person.
    pub(super) answerable: bool,
}

impl Dataset {
    /// The scope of this name, made when there is none yet.
    pub(super) fn scope(&mut self, name: &str) -> &mut DataScope {
        let at = self.scopes.iter().position(|scope| scope.name == name).unwrap_or_else(|| {
            self.scopes.push(DataScope::new(name));
            self.scopes.len() - 1
        });
        &mut self.scopes[at]
    }
}
