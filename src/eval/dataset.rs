//! A data set: memories and questions, by scope.

use crate::base::Time;
use crate::memory::Speaker;

/// Memories and questions of several scopes.
#[derive(Clone, Debug, Default)]
pub(super) struct Dataset {
    pub(super) scopes: Vec<DataScope>,
}

/// Those of one scope.
#[derive(Clone, Debug, Default)]
pub(super) struct DataScope {
    pub(super) name: String,
    pub(super) memories: Vec<Memory>,
    pub(super) questions: Vec<Question>,
}

/// One memory.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) role: Speaker,
    pub(super) speaker: Option<String>,
    pub(super) said_at: Time,
    pub(super) text: String,
}

/// One question.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) text: String,
    /// When it is asked; by default right after the last memory.
    pub(super) asked_at: Option<Time>,
    /// Memories that answer it; none = nothing should be recalled.
    pub(super) expected: Vec<String>,
    pub(super) category: String,
    /// Whether it counts in the overall figures: it has an answer, and is about the right person.
    pub(super) answerable: bool,
}

impl Dataset {
    /// The scope of this name, made when there is none yet.
    pub(super) fn scope(&mut self, name: &str) -> &mut DataScope {
        let at = self.scopes.iter().position(|scope| scope.name == name).unwrap_or_else(|| {
            self.scopes.push(DataScope { name: name.to_owned(), ..DataScope::default() });
            self.scopes.len() - 1
        });
        &mut self.scopes[at]
    }
}
