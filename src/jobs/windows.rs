//! Asking a model what exchanges teach, a window of a conversation at a time.
//!
//! [`QueueForModel`] stands before the learner: it copies each exchange into the open window of its conversation before the rules take it from the
//! outbox. [`Windows`] claims the windows that are due, asks, and stores what was accepted. What is asked, how the answer is
//! read and what is decided is the [`WindowReader`]'s; nothing here knows a prompt. A slow or dead model holds up
//! nobody but the windows themselves.

mod pause;
mod queue;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::learner::DecideArgs;
use super::policy::Backoff;
use crate::ask::{Answer, Question};
use crate::base::{ExchangeId, Time};
use crate::memory::{Candidate, Fact, Turn};
use crate::store::Learned;

pub use queue::QueueForModel;
pub use worker::{WindowParts, Windows, day_of};

/// In which form an answer is asked for, from the strictest down: what a model does not take, it is not asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// By a JSON schema.
    Schema,
    /// As any JSON object.
    Object,
    /// As text, in which JSON is looked for.
    Text,
}

impl Rung {
    /// The next one down; `None` below text.
    #[must_use]
    pub fn down(self) -> Option<Self> {
        match self {
            Self::Schema => Some(Self::Object),
            Self::Object => Some(Self::Text),
            Self::Text => None,
        }
    }
}

/// What was in an answer.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// What is proposed, by exchange.
    pub candidates: HashMap<ExchangeId, Vec<Candidate>>,
    /// Items that could be read.
    pub good: u64,
    /// Items that could not.
    pub bad: u64,
}

/// What is asked about a window, and what comes of the answer. Pure.
pub trait WindowReader: Send + Sync {
    /// About how many tokens an exchange takes in a question; `None` when there is nothing in it to ask about.
    fn tokens(&self, turn: &Turn) -> Option<u64>;

    /// The question about these turns of one scope, whose current facts are `facts`.
    fn question(&self, turns: &[Turn], facts: &[Arc<Fact>], rung: Rung, now: Time) -> Question;

    /// Reads an answer; `None` when it is none.
    fn read(&self, answer: &Answer, turns: &[Turn]) -> Option<Read>;

    /// Decides what is proposed for one exchange.
    fn decide(&self, args: DecideArgs<'_>, candidates: &[Candidate]) -> Learned;
}

/// How windows are worked on.
#[derive(Clone, Debug)]
pub struct WindowsConfig {
    /// Names the worker; unique among all processes on one store.
    pub owner: String,
    /// So many windows are asked about at a time.
    pub concurrency: usize,
    /// How long a lease lasts: longer than a question may take.
    pub lease: Duration,
    /// How long an idle worker sleeps before it looks for windows that have become due.
    pub poll: Duration,
    /// Tokens that may be spent for one tenant on a day (UTC); none = without bound. It is passed by the windows that are being asked about
    /// when it is reached, at most.
    pub cap: Option<u64>,
    /// After an answer that could not be read.
    pub unread: Backoff,
    /// After a refusal: a wrong key takes a person to mend.
    pub refused: Backoff,
    /// After a failure that may pass: all questions wait so long. A window is given up only when its attempts are used up and it is older than
    /// `patience`.
    pub later: Backoff,
    /// See `later`.
    pub patience: Duration,
}

impl WindowsConfig {
    /// The usual settings for a worker called `owner`.
    pub fn named(owner: impl Into<String>, cap: Option<u64>) -> Self {
        let backoff = |first, longest, max_attempts| Backoff {
            first: Duration::from_millis(first),
            longest: Duration::from_secs(longest),
            max_attempts,
        };
        Self {
            owner: owner.into(),
            concurrency: 4,
            lease: Duration::from_secs(180),
            poll: Duration::from_millis(500),
            cap,
            unread: backoff(250, 600, 5),
            refused: backoff(60_000, 3600, 8),
            later: backoff(1_000, 600, 8),
            patience: Duration::from_secs(24 * 3600),
        }
    }
}
