//! Plays a case: every user turn is one exchange with the history before it, learned from as live traffic is.

use std::collections::HashSet;
use std::sync::Arc;

use super::case::{Case, Conversation, Message};
use crate::base::{ExchangeId, SeededRandom, fence};
use crate::extract::{DecideInput, decide, model};
use crate::memory::redact::redact_turn;

use crate::memory::{Candidate, Fact, KeySchema, Said, Scope, Speaker, Turn};
use crate::store::Learned;

/// Seconds between the user turns of a conversation.
const SECONDS_BETWEEN_TURNS: i64 = 60;

/// What is known after all conversations of a case: all facts, superseded ones too. `replies` are what a model says to
/// each conversation.
pub(super) fn play(case: &Case, replies: &[String]) -> Vec<Arc<Fact>> {
    let mut scope = Known { facts: Vec::new(), random: SeededRandom::new(7) };
    for (session, conversation) in case.conversations.iter().enumerate() {
        let turns = turns(session, conversation, &scope.random);
        for turn in &turns {
            scope.learn(turn, None);
        }
        if let Some(reply) = replies.get(session) {
            // The model is asked about what is worth it, all turns of a conversation at once.
            let asked: Vec<Turn> = turns.into_iter().filter(model::worth_asking).collect();
            let mut proposed = model::candidates(model::parse(reply).items, &asked, KeySchema::builtin());
            for turn in &asked {
                if let Some(candidates) = proposed.remove(&turn.exchange) {
                    scope.learn(turn, Some(candidates));
                }
            }
        }
    }
    scope.facts
}

/// The memory of one subject, in the process.
struct Known {
    facts: Vec<Arc<Fact>>,
    random: SeededRandom,
}

impl Known {
    /// Learns from one exchange: by the rules, or what a model proposed for it.
    fn learn(&mut self, turn: &Turn, proposed: Option<Vec<Candidate>>) {
        let input = DecideInput {
            turn,
            facts: &self.facts,
            schema: KeySchema::builtin(),
            revision: 0,
            now: turn.said_at,
            ids: &self.random,
            tombstoned: &|_| false,
            mentioning: &|_| Vec::new(),
            boilerplate: None,
        };
        let learned: Learned = match proposed {
            None => decide(&input),
            Some(candidates) => model::decide_model(&input, &candidates),
        };
        for change in learned.changes {
            match self.facts.iter_mut().find(|f| f.id == change.fact.id) {
                Some(fact) => *fact = Arc::new(change.fact),
                None => self.facts.push(Arc::new(change.fact)),
            }
        }
    }
}

/// The exchanges of a conversation.
fn turns(session: usize, conversation: &Conversation, random: &SeededRandom) -> Vec<Turn> {
    let messages = &conversation.messages;
    let mut said_before = HashSet::new();
    let by_user = messages.iter().enumerate().filter(|(_, m)| m.role == "user");
    (0..)
        .zip(by_user)
        .map(|(index, (at, message))| {
            let said_at = conversation.said_at.plus_seconds(SECONDS_BETWEEN_TURNS * index);
            let mut turn = Turn {
                exchange: ExchangeId::generate(said_at, random),
                scope: Scope::new("eval", "eval", "eval"),
                epoch: 0,
                session: session.to_string(),
                turn_key: format!("{session}-{at}"),
                turn_index: index,
                said_at,
                before: messages[..at]
                    .iter()
                    .rev()
                    .find(|m| !matches!(m.role.as_str(), "system" | "developer"))
                    .filter(|m| m.role == "assistant")
                    .map(|m| said(m, Speaker::Assistant)),
                user: vec![said(message, Speaker::User)],
                repeated: !said_before.insert(message.text()),
                reply: messages.get(at + 1).filter(|m| m.role == "assistant").map(|m| said(m, Speaker::Assistant)),
                complete: true,
                shown: Vec::new(),
                trace: None,
            };
            redact_turn(&mut turn);
            turn
        })
        .collect()
}

fn said(message: &Message, role: Speaker) -> Said {
    Said { role, text: fence::strip_loosely(message.text()).into_owned(), hash: String::new() }
}
