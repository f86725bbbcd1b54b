//! What was true at a time, and what we knew at a time: facts out of their history.
//!
//! Two times, never mixed: a fact is *true* from `valid_from` to `valid_to`, and is *known* from one row of its history to
//! the next. All functions take the rows of one fact, oldest first, as a store keeps them.

use super::arbitrate::RETRACTION;
use super::change::HistoryEntry;
use super::fact::{Fact, FactStatus};
use super::normalise::same_value;
use crate::base::Time;

/// The facts that histories lead to: of each its newest version. What a store lists is this.
#[must_use]
pub fn replay(histories: &[Vec<HistoryEntry>]) -> Vec<Fact> {
    histories.iter().filter_map(|rows| rows.last()).map(|row| row.fact.clone()).collect()
}

/// The fact as it held at `as_of`, by what was known at `known_at`; `None` when it did not hold then, or was not known.
///
/// A later version corrects an earlier one for all the time that it speaks of. Of an earlier *value* the time before the
/// later one began is left: "Oslo, and since May Rome" was Oslo in April.
#[must_use]
pub fn held(history: &[HistoryEntry], as_of: Time, known_at: Time) -> Option<Fact> {
    // Versions count, not times: a clock may have jumped back between two of them.
    let newest = history.iter().rposition(|row| row.at <= known_at)?;
    let mut later: Option<&Fact> = None;
    for row in history[..=newest].iter().rev() {
        let fact = &row.fact;
        if later.is_some_and(|later| same_value(&later.value, &fact.value)) {
            continue;
        }
        if fact.valid_from <= as_of {
            let mut fact = held_while(fact, as_of)?.clone();
            if let Some(later) = later {
                fact.valid_to = Some(fact.valid_to.map_or(later.valid_from, |to| to.min(later.valid_from)));
            }
            return Some(fact);
        }
        later = Some(fact);
    }
    None
}

/// The fact, if it speaks of this time as one at which it was true.
fn held_while(fact: &Fact, as_of: Time) -> Option<&Fact> {
    if fact.value.is_null() || fact.tags.iter().any(|tag| tag == RETRACTION) {
        return None;
    }
    let lasted = fact.valid_to.is_some_and(|to| as_of < to);
    let holds = match fact.status {
        FactStatus::Active | FactStatus::Contested => lasted || fact.valid_to.is_none(),
        // Without an end it is not known to have been true at all.
        FactStatus::Superseded | FactStatus::Expired => lasted,
        FactStatus::Quarantined => false,
    };
    holds.then_some(fact)
}

#[cfg(test)]
mod tests;
