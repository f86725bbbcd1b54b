//! The two histograms of the GenAI conventions: how long calls of models took, and their tokens.
//!
//! They are kept only where something is exported, under names that the exporter turns into those of the conventions
//! (`gen_ai.client.operation.duration`, `gen_ai.client.token.usage`); all else is counted in `/metrics` in our own terms anyway.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

type LabelSet = Vec<(&'static str, String)>;
type Histograms = Family<LabelSet, Histogram, fn() -> Histogram>;

/// The model of targets that are not configured: clients may ask for anything.
const OTHER: &str = "other";
/// The buckets that the conventions advise, in seconds.
const SECONDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
/// The same in tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Histograms of calls of models.
#[derive(Debug)]
pub struct GenAi {
    is_on: AtomicBool,
    declared: RwLock<HashSet<String>>,
    duration: Histograms,
    tokens: Histograms,
}

/// One call of a model that has ended.
#[derive(Clone, Copy, Debug)]
pub struct ModelCall<'a> {
    /// `chat` or `embeddings`.
    pub operation: &'static str,
    /// The provider, as the conventions name it.
    pub provider: &'static str,
    /// Where it went, as `provider/model`.
    pub target: &'a str,
    /// How long it took, to the end of the reply, in seconds.
    pub seconds: f64,
    /// What went wrong; out of a closed set.
    pub error: Option<&'static str>,
    /// Tokens of prompt and reply, where upstream told them.
    pub tokens: Option<(u64, u64)>,
}

impl GenAi {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gen_ai = Self {
            is_on: AtomicBool::new(false),
            declared: RwLock::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            tokens: Family::new_with_constructor(|| Histogram::new(TOKENS)),
        };
        registry.register_with_unit(
            "gen_ai_client_operation_duration",
            "Time of calls of models",
            Unit::Seconds,
            gen_ai.duration.clone(),
        );
        registry.register(
            "gen_ai_client_token_usage_tokens",
            "Tokens of calls of models, as upstream counted them",
            gen_ai.tokens.clone(),
        );
        gen_ai
    }

    /// Begins to count.
    pub fn switch_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Names the targets that are told apart, as `provider/model`.
    pub fn declare<'a>(&self, targets: impl IntoIterator<Item = &'a str>) {
        let mut declared = self.declared.write().unwrap_or_else(PoisonError::into_inner);
        declared.extend(targets.into_iter().map(str::to_owned));
    }

    /// Counts a call. Nothing is done while nothing is exported.
    pub fn observe(&self, call: &ModelCall<'_>) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let is_known = self.declared.read().unwrap_or_else(PoisonError::into_inner).contains(call.target);
        let model = call.target.split_once('/').map_or(call.target, |(_, model)| model);
        let labels = vec![
            ("gen_ai_operation_name", call.operation.to_owned()),
            ("gen_ai_provider_name", call.provider.to_owned()),
            ("gen_ai_request_model", if is_known { model } else { OTHER }.to_owned()),
        ];
        #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
        if let Some((input, output)) = call.tokens {
            for (kind, n) in [("input", input), ("output", output)] {
                let mut labels = labels.clone();
                labels.push(("gen_ai_token_type", kind.to_owned()));
                self.tokens.get_or_create(&labels).observe(n as f64);
            }
        }
        let mut labels = labels;
        labels.extend(call.error.map(|error| ("error_type", error.to_owned())));
        self.duration.get_or_create(&labels).observe(call.seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    fn call(target: &str) -> ModelCall<'_> {
        ModelCall { operation: "chat", provider: "openai", target, seconds: 0.5, error: None, tokens: Some((7, 3)) }
    }

    #[test]
    fn calls_are_counted_by_model_once_something_is_exported() {
        let metrics = Metrics::new();
        metrics.gen_ai.declare(["p/known"]);
        metrics.gen_ai.observe(&call("p/known"));
        assert!(!metrics.render().contains("gen_ai_request_model"));
        metrics.gen_ai.switch_on();
        metrics.gen_ai.observe(&call("p/known"));
        metrics.gen_ai.observe(&call("p/made up"));
        metrics.gen_ai.observe(&ModelCall { error: Some("timeout"), ..call("p/known") });
        let text = metrics.render();
        for line in [
            r#"backstory_gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="known"} 1"#,
            r#"backstory_gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="other"} 1"#,
            r#"backstory_gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="known",error_type="timeout"} 1"#,
            r#"backstory_gen_ai_client_token_usage_tokens_sum{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="known",gen_ai_token_type="input"} 14.0"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(!text.contains("made up"));
    }
}
