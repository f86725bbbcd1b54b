//! What became of a new configuration.

use crate::telemetry::{Label, ReloadOutcome};

/// Why it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// SIGHUP.
    Signal,
    /// The admin API.
    Request,
    /// A file that it is made of has changed.
    File,
}

/// What became of it. Keys are named as in messages about mistakes, as in `keys[team-a].models`; values never are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whether it is in force.
    pub outcome: ReloadOutcome,
    /// The number of the configuration in force.
    pub generation: u64,
    /// Keys that changed and hold from now on.
    pub applied: Vec<String>,
    /// Keys that differ from what the process was started with, and hold after a restart.
    pub restart: Vec<String>,
    /// Why it is not in force; empty when it is.
    pub errors: Vec<String>,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            outcome: ReloadOutcome::Unchanged,
            generation: 0,
            applied: Vec::new(),
            restart: Vec::new(),
            errors: Vec::new(),
        }
    }
}

impl Report {
    pub(super) fn refused(generation: u64, errors: Vec<String>) -> Self {
        Self { outcome: ReloadOutcome::Refused, generation, errors, ..Self::default() }
    }

    pub(super) fn log(&self, why: Why) {
        let Self { generation, .. } = *self;
        let (applied, restart) = (self.applied.join(", "), self.restart.join(", "));
        match self.outcome {
            ReloadOutcome::Refused => {
                let errors = self.errors.join("; ");
                tracing::error!(
                    ?why,
                    generation,
                    errors,
                    "the new configuration has mistakes; the one before stays in force"
                );
            }
            ReloadOutcome::Unchanged => tracing::info!(?why, generation, restart, "the configuration has not changed"),
            ReloadOutcome::Applied => {
                tracing::info!(?why, generation, applied, restart, "a new configuration is in force");
            }
        }
    }

    /// As the admin API tells it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "outcome": self.outcome.text(),
            "generation": self.generation,
            "applied": self.applied,
            "restart_needed": self.restart,
            "errors": self.errors,
        })
    }
}
