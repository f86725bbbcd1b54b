//! The whole rules path for one exchange.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Boilerplate, episodes};
use crate::base::{EpisodeId, FactId, ProposalId, Random, Time};
use crate::memory::arbitrate::{ArbitrateCx, Verdict, arbitrate};
use crate::memory::gate::{GateCx, gate};
use crate::memory::normalise::same_value;
use crate::memory::propose;
use crate::memory::{
    Action, Actor, Candidate, Fact, FactChange, FactStatus, Intent, KeySchema, ProposedBy, Speaker, Turn,
};
use crate::store::{Learned, Proposal, ProposalStatus};

/// What one decision rests on.
pub struct DecideInput<'a> {
    /// What was said.
    pub turn: &'a Turn,
    /// The facts of the scope, superseded ones too: by them a statement that arrives late is placed.
    pub facts: &'a [Arc<Fact>],
    /// The key schema.
    pub schema: &'a KeySchema,
    /// The revision of the scope at which `facts` were read.
    pub revision: i64,
    /// Now.
    pub now: Time,
    /// Where new ids come from.
    pub ids: &'a dyn Random,
    /// Whether a text may not be learned again.
    pub tombstoned: &'a dyn Fn(&str) -> bool,
    /// The stored episodes of the scope that mention a value.
    pub mentioning: &'a dyn Fn(&str) -> Vec<EpisodeId>,
    /// The sentences that apps put into the user role; none = not looked for.
    pub boilerplate: Option<&'a Boilerplate>,
}

impl std::fmt::Debug for DecideInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecideInput")
            .field("exchange", &self.turn.exchange)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

/// Decides what one exchange teaches. A fact may change twice in it ("I live in Oslo. No, in Rome"): the changes stand in order, each with the
/// version before it. Empty, but for the names that the store needs to drop the outbox row, when nobody said anything.
#[must_use]
pub fn decide(input: &DecideInput<'_>) -> Learned {
    let turn = input.turn;
    let mut learned = nothing(input);
    if !learned.user_side {
        return learned;
    }
    let mut facts: Cow<'_, [Arc<Fact>]> = Cow::Borrowed(input.facts);
    let candidates = propose::propose(turn, input.schema);
    // "No, I live in Berlin" names its key; only what does not is read against the facts.
    let corrections = if candidates.is_empty() { propose::corrections(turn, &facts, input.schema) } else { Vec::new() };
    for candidate in candidates.into_iter().chain(corrections) {
        let candidate = answer_to_contest(candidate, turn, &facts);
        one(candidate, input, &mut facts, &mut learned);
    }
    learned.marks = marks(input, &learned.changes);
    learned.episodes = episodes::of(turn, input.now, input.ids, input.tombstoned);
    learned
}

/// Decides what the candidates of a model teach, for an exchange from which the rules have learned already.
#[must_use]
pub fn decide_proposed(input: &DecideInput<'_>, proposed: Vec<Candidate>) -> Learned {
    let mut learned = nothing(input);
    let mut facts: Cow<'_, [Arc<Fact>]> = Cow::Borrowed(input.facts);
    for candidate in proposed {
        one(candidate, input, &mut facts, &mut learned);
    }
    learned.marks = marks(input, &learned.changes);
    learned
}

/// Keeps what was said as episodes, and proposes nothing: for where a model alone proposes.
#[must_use]
pub fn decide_episodes(input: &DecideInput<'_>) -> Learned {
    let mut learned = nothing(input);
    if learned.user_side {
        learned.episodes = episodes::of(input.turn, input.now, input.ids, input.tombstoned);
    }
    learned
}

/// The names that the store needs to drop the outbox row, and nothing learned yet.
fn nothing(input: &DecideInput<'_>) -> Learned {
    let turn = input.turn;
    Learned {
        exchange: turn.exchange,
        keep: false,
        scope: turn.scope.clone(),
        epoch: turn.epoch,
        turn_key: turn.turn_key.clone(),
        user_side: turn.user.iter().any(|s| s.role == Speaker::User && !s.text.trim().is_empty()),
        revision: input.revision,
        now: input.now,
        changes: Vec::new(),
        episodes: Vec::new(),
        proposals: Vec::new(),
        marks: Vec::new(),
    }
}

/// One candidate through gate and arbitration; it sees the changes of those before it.
fn one(candidate: Candidate, input: &DecideInput<'_>, facts: &mut Cow<'_, [Arc<Fact>]>, learned: &mut Learned) {
    let boilerplate = |quote: &str| input.boilerplate.is_some_and(|all| all.is_seen(input.turn, quote));
    let known = |candidate: &Candidate| says_the_same(facts, candidate);
    let cx = GateCx {
        turn: input.turn,
        schema: input.schema,
        tombstoned: input.tombstoned,
        known: &known,
        boilerplate: &boilerplate,
    };
    let mut proposal = Proposal {
        id: ProposalId::generate(input.now, input.ids),
        exchange: Some(input.turn.exchange),
        at: input.now,
        candidate: candidate.clone(),
        status: ProposalStatus::Refused,
        reason: String::new(),
        fact: None,
    };
    match gate(candidate, &cx) {
        Err(refusal) => {
            proposal.status = if refusal.quarantine { ProposalStatus::Quarantined } else { ProposalStatus::Refused };
            proposal.reason = refusal.reason.to_owned();
        }
        Ok(candidate) => {
            let actor = if candidate.by == ProposedBy::Model { Actor::Model } else { Actor::Rules };
            let mut cx = ArbitrateCx { now: input.now, ids: input.ids, actor, exchange: Some(input.turn.exchange) };
            let decided = arbitrate(facts, &candidate, input.schema, &mut cx);
            if decided.status == Verdict::Accepted || !decided.changes.is_empty() {
                proposal.status = ProposalStatus::Accepted;
            }
            proposal.reason = decided.reason;
            proposal.fact = decided.fact;
            proposal.candidate = candidate;
            if !decided.changes.is_empty() {
                apply(facts.to_mut(), &decided.changes);
                learned.changes.extend(decided.changes);
            }
        }
    }
    learned.proposals.push(proposal);
}

/// Whether a current fact has the key, the person and the value of a candidate.
fn says_the_same(facts: &[Arc<Fact>], candidate: &Candidate) -> bool {
    facts.iter().any(|f| {
        f.is_current() && f.key == candidate.key && f.about == candidate.about && same_value(&f.value, &candidate.value)
    })
}

fn apply(facts: &mut Vec<Arc<Fact>>, changes: &[FactChange]) {
    for change in changes {
        let fact = Arc::new(change.fact.clone());
        match facts.iter_mut().find(|f| f.id == fact.id) {
            Some(old) => *old = fact,
            None => facts.push(fact),
        }
    }
}

/// The answer to a question about a contest counts as confirmed: the assistant asked, and the user names one of the disputed values.
fn answer_to_contest(mut candidate: Candidate, turn: &Turn, facts: &[Arc<Fact>]) -> Candidate {
    let asked =
        turn.before.as_ref().is_some_and(|b| b.role == Speaker::Assistant && b.text.contains(['?', '\u{ff1f}']));
    if asked && candidate.intent == Intent::State {
        let disputed =
            |f: &&Arc<Fact>| f.key == candidate.key && f.about == candidate.about && f.status == FactStatus::Contested;
        if facts.iter().any(|f| disputed(&f)) {
            candidate.intent = Intent::Change;
        }
    }
    candidate
}

/// Older episodes that state a value which is retired now.
fn marks(input: &DecideInput<'_>, changes: &[FactChange]) -> Vec<(EpisodeId, FactId)> {
    let mut marks = Vec::new();
    let retired = changes.iter().filter(|c| {
        c.expected_version.is_some()
            && matches!(c.action, Action::Supersede | Action::Retire)
            && c.fact.status == FactStatus::Superseded
    });
    for change in retired {
        let value = change.fact.value_text();
        if value.chars().count() < 2 || change.fact.value.is_null() {
            continue;
        }
        for episode in (input.mentioning)(&value) {
            let mark = (episode, change.fact.id);
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
    }
    marks
}
