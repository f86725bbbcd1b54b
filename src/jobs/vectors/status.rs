//! How the making of vectors stands, for those who ask.

use std::sync::{Mutex, PoisonError};

/// How far vectors are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VectorPhase {
    /// It is not known yet.
    #[default]
    Starting,
    /// Memories from before are being given vectors; words alone find.
    Filling,
    /// Vectors find, too.
    Ready,
}

/// How the making of vectors stands.
#[derive(Debug, Default)]
pub struct VectorStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    phase: VectorPhase,
    pending: Option<u64>,
    failure: Option<String>,
}

impl VectorStatus {
    /// How far they are.
    #[must_use]
    pub fn phase(&self) -> VectorPhase {
        self.with(|state| state.phase)
    }

    /// How many episodes waited when that was last counted.
    #[must_use]
    pub fn pending(&self) -> Option<u64> {
        self.with(|state| state.pending)
    }

    /// Why they cannot be made just now.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.with(|state| state.failure.clone())
    }

    /// In a few words, for people.
    #[must_use]
    pub fn text(&self) -> String {
        self.with(|state| match (&state.failure, state.phase) {
            (Some(failure), _) => failure.clone(),
            (None, VectorPhase::Starting) => "starting".to_owned(),
            (None, VectorPhase::Ready) => "ok".to_owned(),
            (None, VectorPhase::Filling) => match state.pending {
                Some(pending) => format!("filling; {pending} memories wait"),
                None => "filling".to_owned(),
            },
        })
    }

    pub(super) fn set_phase(&self, phase: VectorPhase) {
        self.with(|state| state.phase = phase);
    }

    pub(super) fn set_pending(&self, pending: u64) {
        self.with(|state| state.pending = Some(pending));
    }

    pub(super) fn set_failure(&self, failure: Option<String>) {
        self.with(|state| state.failure = failure);
    }

    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // A panic leaves plain values behind, at worst old ones.
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
