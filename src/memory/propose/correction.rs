//! Corrections of what was said before: "no, it's Berlin", "不是北京,是上海".

use std::sync::Arc;

use crate::memory::candidate::Candidate;
use crate::memory::fact::Fact;
use crate::memory::schema::KeySchema;
use crate::memory::turn::Turn;

/// Proposes the corrections of facts that a turn makes without naming their key.
#[must_use]
pub fn corrections(turn: &Turn, facts: &[Arc<Fact>], schema: &KeySchema) -> Vec<Candidate> {
    let _ = (turn, facts, schema);
    Vec::new()
}
