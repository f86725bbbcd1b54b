//! What a model's proposals change, decided as those of the rules are.

use std::sync::Arc;

use crate::base::ProposalId;
use crate::extract::{DecideInput, decide_proposed};
use crate::memory::normalise::{names_the_same, same_text, same_value};
use crate::memory::{Candidate, Cardinality, Fact, KeySchema};
use crate::store::{Learned, Proposal, ProposalStatus};

/// Why a proposal is left out that says again what is known from the same words.
const KNOWN: &str = "already known from these words";
/// Why one is left out that reads the same words otherwise.
const READ_BY_RULES: &str = "the rules read these words already";

/// Decides about a model's candidates for one exchange. No episode comes of it: the rules path made those.
#[must_use]
pub fn decide_model(input: &DecideInput<'_>, candidates: &[Candidate]) -> Learned {
    let (mut new, mut known) = (Vec::new(), Vec::new());
    for candidate in candidates {
        match redundant(candidate, input.facts, input.schema) {
            Some(reason) => known.push((candidate, reason)),
            None => new.push(candidate.clone()),
        }
    }
    let mut learned = decide_proposed(input, new);
    learned.proposals.extend(known.into_iter().map(|(candidate, reason)| Proposal {
        id: ProposalId::generate(input.now, input.ids),
        exchange: Some(input.turn.exchange),
        at: input.now,
        candidate: candidate.clone(),
        status: ProposalStatus::Refused,
        reason: reason.to_owned(),
        fact: None,
    }));
    learned
}

/// A second reading of words that a fact of the same key rests on already. The rules come first and are surer; what they read is not said
/// twice because a model read it as well.
fn redundant(candidate: &Candidate, facts: &[Arc<Fact>], keys: &KeySchema) -> Option<&'static str> {
    let one = keys.get(&candidate.key).is_some_and(|rule| rule.cardinality == Cardinality::One);
    let text = candidate.value.as_str().map_or_else(|| candidate.value.to_string(), str::to_owned);
    facts.iter().filter(|fact| fact.is_current() && rests_on_the_same(fact, candidate)).find_map(|fact| {
        let same_key = fact.key == candidate.key && same_about(fact.about.as_deref(), candidate.about.as_deref());
        if same_value(&fact.value, &candidate.value) {
            // Under whatever key: the same value, from the same words.
            return Some(KNOWN);
        }
        match (same_key, one) {
            (true, true) => Some(READ_BY_RULES),
            (true, false) if names_the_same(&fact.value_text(), &text) => Some(KNOWN),
            _ => None,
        }
    })
}

/// Whether a fact rests on words of the same exchange that hold the candidate's, or are held by them.
fn rests_on_the_same(fact: &Fact, candidate: &Candidate) -> bool {
    let words = &candidate.evidence;
    fact.evidence.iter().any(|e| {
        e.exchange.is_some()
            && e.exchange == words.exchange
            && (e.quote.contains(&words.quote) || words.quote.contains(&e.quote))
    })
}

fn same_about(a: Option<&str>, b: Option<&str>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => same_text(a, b),
        _ => false,
    }
}
