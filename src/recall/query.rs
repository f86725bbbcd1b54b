//! What is asked of recall, and its settings.

use std::sync::Arc;

use super::echo::Said;
use super::exclude::Exclude;
use crate::base::Time;
use crate::memory::{Scope, Sensitivity};

/// One question to the memory.
#[derive(Clone, Debug)]
pub struct Query {
    /// Where to look: the own scope first, then granted namespaces. Nothing else is read.
    pub scopes: Vec<Scope>,
    /// The newest user message, as plain text.
    pub text: String,
    /// What came before it: read only when `text` is short and has little to go by.
    pub before: Option<String>,
    /// When it was asked: "last week" is reckoned from here.
    pub now: Time,
    /// The most sensitive memory that may be shown.
    pub max_sensitivity: Sensitivity,
    /// Messages that are in the request already: episodes made of them are not shown again.
    pub exclude: Exclude,
    /// What the request says already: what stands in it word for word is not shown again.
    pub said: Arc<Said>,
    /// At most so many episodes.
    pub max_episodes: usize,
    /// The vector of `text`, where one was made in time: then it finds what is meant, too.
    pub vector: Option<Arc<[f32]>>,
}

/// Settings of recall.
#[derive(Clone, Debug)]
pub struct RecallConfig {
    /// At most so many episodes in a recollection.
    pub max_episodes: usize,
    /// At most so many passages of documents; 0 = none are looked for.
    pub max_passages: usize,
    /// Share of the question's information, 0 to 1, that an episode and its neighbours must cover to be shown at all.
    pub floor: f64,
    /// How the channels are weighed against each other.
    pub weights: Weights,
    /// Bound of the cached scopes, in bytes (estimated).
    pub cache_bytes: u64,
    /// The newest so many episodes of a scope are held and searched.
    pub max_episodes_per_scope: usize,
    /// Bound of the profile, in tokens (estimated); critical facts come first.
    pub profile_tokens: usize,
    /// At most so many facts beside the profile.
    pub max_facts: usize,
}

impl Default for RecallConfig {
    fn default() -> Self {
        Self {
            max_episodes: 5,
            max_passages: 3,
            floor: 0.4,
            weights: Weights::default(),
            cache_bytes: 256 << 20,
            max_episodes_per_scope: 200_000,
            profile_tokens: 200,
            max_facts: 8,
        }
    }
}

/// Weights of the channels. Each channel is divided by its best score before it is weighed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// The turn itself.
    pub turn: f64,
    /// The turn with its neighbours, where turns are short.
    pub neighbours: f64,
    /// Its session, where turns are short.
    pub session: f64,
    /// The turn with its neighbours, where turns are long (they say enough by themselves).
    pub neighbours_long: f64,
    /// Its session, where turns are long.
    pub session_long: f64,
    /// How near the turn's vector is, where there are vectors.
    pub dense_turn: f64,
    /// The same of the turn and its neighbours together, where turns are short; where they are long, as much less as `neighbours_long` says.
    pub dense_neighbours: f64,
    /// What a turn of the assistant weighs beside the same words said by the user.
    pub assistant: f64,
    /// Bound of what all boosts together may add or take, as a share.
    pub boost: f64,
    /// What a turn gains when the question names its speaker, as a share; part of `boost`.
    pub speaker: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            turn: 1.0,
            neighbours: 1.4,
            session: 1.2,
            neighbours_long: 0.5,
            session_long: 0.3,
            dense_turn: 2.5,
            dense_neighbours: 5.0,
            assistant: 0.4,
            boost: 0.1,
            speaker: 0.1,
        }
    }
}
