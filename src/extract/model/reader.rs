//! The [`WindowReader`] of the write path.

use std::fmt;
use std::sync::Arc;

use super::{candidates, decide_model, own_text, parse, question, worth_asking};
use crate::ask::{Answer, Question, estimate_tokens};
use crate::base::{Random, Time};
use crate::extract::DecideInput;
use crate::jobs::{DecideArgs, Read, Rung, WindowReader};
use crate::memory::{Candidate, Fact, KeySchema, Schemas, Sensitivity, Turn};
use crate::store::Learned;

/// Asks about windows in the words of [`question()`], and reads by [`parse()`].
pub struct ModelReader {
    schemas: Arc<Schemas>,
    ceiling: Sensitivity,
    ids: Arc<dyn Random>,
}

impl fmt::Debug for ModelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelReader").field("ceiling", &self.ceiling).finish_non_exhaustive()
    }
}

impl ModelReader {
    /// `ceiling` = the most sensitive facts that the model's provider may see.
    #[must_use]
    pub fn new(schemas: Arc<Schemas>, ceiling: Sensitivity, ids: Arc<dyn Random>) -> Self {
        Self { schemas, ceiling, ids }
    }

    /// The keys of the namespace in which turns were said; all turns of a window are of one.
    fn keys(&self, turns: &[Turn]) -> &KeySchema {
        self.schemas.of(turns.first().map_or("", |turn| &turn.scope.namespace))
    }
}

impl WindowReader for ModelReader {
    fn tokens(&self, turn: &Turn) -> Option<u64> {
        worth_asking(turn).then(|| estimate_tokens(&own_text(turn)))
    }

    fn question(&self, turns: &[Turn], facts: &[Arc<Fact>], rung: Rung, now: Time) -> Question {
        question(turns, facts, self.keys(turns), self.ceiling, rung, now)
    }

    fn read(&self, answer: &Answer, turns: &[Turn]) -> Option<Read> {
        let parsed = parse(&answer.text);
        let (good, bad) = (parsed.items.len() as u64, parsed.bad as u64);
        parsed.is_answer().then(|| Read { candidates: candidates(parsed.items, turns, self.keys(turns)), good, bad })
    }

    fn decide(&self, args: DecideArgs<'_>, candidates: &[Candidate]) -> Learned {
        let input = DecideInput {
            turn: args.turn,
            facts: args.facts,
            schema: self.schemas.of(&args.turn.scope.namespace),
            revision: args.revision,
            now: args.now,
            ids: &*self.ids,
            tombstoned: args.barred,
            mentioning: args.mentioning,
            // The rules have counted this turn already, and a model reads no more of it than they do.
            boilerplate: None,
        };
        decide_model(&input, candidates)
    }
}
