//! Two facts that are one: what the second adds goes into the first.

use super::change::{Action, Actor, FactChange};
use super::edit::{EditCx, EditError, may_edit};
use super::fact::{Evidence, Fact, FactStatus};
use super::normalise::same_value;

/// So many pieces of evidence are kept for one fact, as in arbitration.
const MAX_EVIDENCE: usize = 6;

/// Builds the changes that merge `from` into `into`: the value of `into` stays, the words, labels and counts of both are kept
/// with it, and `from` is retired as one that never stood for itself.
///
/// # Errors
/// [`EditError::CannotMerge`] for facts that are not one, [`EditError::NotAllowed`] where only an operator may.
pub fn merge(from: &Fact, into: &Fact, cx: &EditCx<'_>) -> Result<Vec<FactChange>, EditError> {
    may_edit(from, cx)?;
    may_edit(into, cx)?;
    if from.id == into.id {
        return Err(EditError::CannotMerge("a fact cannot be merged into itself"));
    }
    if from.about != into.about {
        return Err(EditError::CannotMerge("the two facts are about different people"));
    }
    if !into.is_current() {
        return Err(EditError::CannotMerge("the fact to merge into does not hold any more"));
    }
    if !matches!(from.status, FactStatus::Active | FactStatus::Contested | FactStatus::Superseded) {
        return Err(EditError::CannotMerge("a fact that is held back or ran out cannot be merged"));
    }
    let same = same_value(&from.value, &into.value);
    if from.critical && !same && cx.actor != Actor::Operator {
        return Err(EditError::NotAllowed("critical"));
    }
    let mut kept = into.clone();
    if same && (from.source_type as u8) > into.source_type as u8 {
        kept.source_type = from.source_type;
        kept.source_confidence = from.source_confidence.max(into.source_confidence);
    }
    kept.score = kept.score.max(from.score);
    kept.seen = kept.seen.saturating_add(from.seen);
    kept.confirmed_at = kept.confirmed_at.max(from.confirmed_at);
    if same {
        kept.valid_from = kept.valid_from.min(from.valid_from);
        kept.said_at = kept.said_at.max(from.said_at);
    }
    kept.sensitivity = kept.sensitivity.max(from.sensitivity);
    kept.critical |= from.critical;
    kept.evidence = evidence(&into.evidence, &from.evidence);
    for tag in &from.tags {
        if !kept.tags.contains(tag) {
            kept.tags.push(tag.clone());
        }
    }
    kept.supersedes = kept.supersedes.or(Some(from.id));
    let mut gone = from.clone();
    gone.status = FactStatus::Superseded;
    gone.retired_at = Some(cx.now);
    // It says nothing of its own any more, of no time: the other one does.
    gone.valid_to = Some(from.valid_from);
    let inner = cx.arbitrate_cx();
    Ok(vec![
        inner.update(Action::Merge, gone, from.version, &format!("merged into {}", into.id)),
        inner.update(Action::Merge, kept, into.version, &format!("took in {}", from.id)),
    ])
}

/// The evidence of both, each once; where it is too much, the first of the one that stays and the newest.
fn evidence(into: &[Evidence], from: &[Evidence]) -> Vec<Evidence> {
    let mut all: Vec<Evidence> = into.to_vec();
    all.extend(from.iter().filter(|piece| !into.contains(piece)).cloned());
    if all.len() > MAX_EVIDENCE {
        let surplus = all.len() - MAX_EVIDENCE;
        let first = all.remove(0);
        all.sort_by_key(|piece| piece.said_at);
        all.drain(..surplus);
        all.insert(0, first);
    }
    all
}
