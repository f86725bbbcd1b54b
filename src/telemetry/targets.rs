//! Gauges of upstream targets. Their names are configured, so the set of label values is closed, though not at compile time.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

type ByTarget<G> = Family<Vec<(&'static str, String)>, G>;
type FloatGauge = Gauge<f64, AtomicU64>;

/// What was learned about targets, as gauges.
#[derive(Debug)]
pub struct TargetGauges {
    /// Only these have series: a client can ask for any name.
    declared: RwLock<HashSet<String>>,
    correction: ByTarget<FloatGauge>,
    overhead: ByTarget<FloatGauge>,
    window: ByTarget<Gauge>,
    cooling: ByTarget<Gauge>,
}

impl TargetGauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gauges = Self {
            declared: RwLock::default(),
            correction: Family::default(),
            overhead: Family::default(),
            window: Family::default(),
            cooling: Family::default(),
        };
        registry.register(
            "target_cooling",
            "Whether a target is left alone since it failed; of several names with one target, any of them",
            gauges.cooling.clone(),
        );
        registry.register(
            "token_correction",
            "Upstream's tokens per token of our count, as learned; 1 = nothing was learned",
            gauges.correction.clone(),
        );
        registry.register(
            "token_overhead",
            "Tokens that upstream adds to each request, as learned",
            gauges.overhead.clone(),
        );
        registry.register(
            "learned_window_tokens",
            "The window that an error of upstream told; 0 = none did",
            gauges.window.clone(),
        );
        gauges
    }

    /// Names the targets that are shown; makes their series.
    pub fn declare<'a>(&self, targets: impl IntoIterator<Item = &'a str>) {
        for target in targets {
            self.declared.write().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned());
            self.set_correction(target, 1.0, 0.0);
            self.set_window(target, None);
            self.set_cooling(target, false);
        }
    }

    /// Shows whether a target is left alone.
    pub fn set_cooling(&self, target: &str, cooling: bool) {
        if let Some(labels) = self.labels(target) {
            self.cooling.get_or_create(&labels).set(i64::from(cooling));
        }
    }

    /// Shows how a target counts.
    pub fn set_correction(&self, target: &str, ratio: f64, overhead: f64) {
        if let Some(labels) = self.labels(target) {
            self.correction.get_or_create(&labels).set(ratio);
            self.overhead.get_or_create(&labels).set(overhead);
        }
    }

    /// Shows the window that a target told.
    pub fn set_window(&self, target: &str, tokens: Option<usize>) {
        if let Some(labels) = self.labels(target) {
            self.window.get_or_create(&labels).set(i64::try_from(tokens.unwrap_or(0)).unwrap_or(i64::MAX));
        }
    }

    fn labels(&self, target: &str) -> Option<Vec<(&'static str, String)>> {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        declared.contains(target).then(|| vec![("target", target.to_owned())])
    }
}
