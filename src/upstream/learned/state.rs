//! What is learned about one target, as it is kept.

use serde::{Deserialize, Serialize};

use super::WINDOW_DAYS;
use crate::base::Time;
use crate::tokens::Corrector;

/// What is learned about one target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct State {
    /// How it counts.
    pub(super) corrector: Corrector,
    /// The window that an error told.
    pub(super) window: Option<Window>,
    /// The largest prompt that it took, in its tokens: no window is smaller.
    pub(super) accepted: u64,
}

/// A window that an error told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    /// In tokens.
    pub(super) tokens: usize,
    /// When it was told last.
    pub(super) at: Time,
}

impl Window {
    pub(super) fn is_old(&self, now: Time) -> bool {
        now.since(self.at) > WINDOW_DAYS * 24 * 3_600_000
    }
}

impl State {
    /// Reads a state; one that cannot be read is an empty one, to be learned anew.
    pub(super) fn read(body: &str) -> Self {
        let state: Self = serde_json::from_str(body).unwrap_or_default();
        Self { corrector: state.corrector.checked(), window: state.window.filter(|window| window.tokens > 0), ..state }
    }

    pub(super) fn body(&self) -> String {
        serde_json::to_string(self).expect("numbers can be written")
    }

    /// Notes that a prompt was taken; `true` when that changed something.
    pub(super) fn accepted(&mut self, prompt_tokens: u64) -> bool {
        if prompt_tokens <= self.accepted {
            return false;
        }
        self.accepted = prompt_tokens;
        // It is larger than it once said.
        self.window = self.window.filter(|window| window.tokens as u64 >= prompt_tokens);
        true
    }

    /// Takes in what another replica has learned; `true` when that changed something here.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let before = self.clone();
        self.corrector.merge(&other.corrector);
        // The one that was told last: an older one may be of a model that has grown since.
        self.window = [self.window, other.window].into_iter().flatten().max_by_key(|window| window.at);
        let accepted = self.accepted.max(other.accepted);
        self.accepted = 0;
        self.accepted(accepted);
        *self != before
    }
}
