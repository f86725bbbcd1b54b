//! The metrics, in Prometheus form.
//!
//! All series exist from the start, one for each combination of label values, and are held in arrays: to count is an
//! index and an atomic addition, without a look-up.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::books::BookCounters;
use super::edges::EdgeMetrics;
use super::gen_ai::GenAi;
use super::labels::{AskOutcome, AskPurpose, AskTokens, ItemOutcome, SummaryOutcome, WindowEnd};
use super::labels::{
    AttemptOutcome, Direction, ExtractOutcome, ExtractReason, FactAction, Label, LearnedAs, Outcome, OverflowOutcome,
    PromptPart, PromptTurn, RecallOutcome, RerankOutcome, Route, Swept,
};
use super::labels::{EmbedOutcome, EmbedSide, IndexOutcome, Limit, LimitOf, QuestionVector, VectorOutcome};
use super::labels::{ExportOutcome, Signal, SpanOutcome};
use super::labels::{RedisCommand, RedisOutcome};
use super::targets::TargetGauges;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type LabelSet = Vec<(&'static str, &'static str)>;

/// A counter for each value of a label.
#[derive(Debug)]
pub struct Counters<L> {
    cells: Vec<Counter>,
    label: PhantomData<L>,
}

impl<L: Label> Counters<L> {
    pub(super) fn register(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family = Family::<LabelSet, Counter>::default();
        let cells = L::ALL.iter().map(|value| family.get_or_create_owned(&vec![(L::NAME, value.text())])).collect();
        registry.register(name, help, family);
        Self { cells, label: PhantomData }
    }

    /// Counts one.
    pub fn inc(&self, label: L) {
        self.add(label, 1);
    }

    /// Counts `n`.
    pub fn add(&self, label: L, n: u64) {
        self.cells[label.index()].inc_by(n);
    }

    /// Takes over a total that someone else counts; it never goes down.
    pub fn raise_to(&self, label: L, total: u64) {
        raise_to(&self.cells[label.index()], total);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self, label: L) -> u64 {
        self.cells[label.index()].get()
    }
}

/// A counter for each pair of values of two labels.
#[derive(Debug)]
pub struct Counters2<A, B> {
    cells: Vec<Counter>,
    labels: PhantomData<(A, B)>,
}

impl<A: Label, B: Label> Counters2<A, B> {
    fn register(registry: &mut Registry, name: &str, help: &str) -> Self {
        let family = Family::<LabelSet, Counter>::default();
        let pairs = A::ALL.iter().flat_map(|a| B::ALL.iter().map(move |b| (a, b)));
        let cells =
            pairs.map(|(a, b)| family.get_or_create_owned(&vec![(A::NAME, a.text()), (B::NAME, b.text())])).collect();
        registry.register(name, help, family);
        Self { cells, labels: PhantomData }
    }

    /// Counts one.
    pub fn inc(&self, a: A, b: B) {
        self.add(a, b, 1);
    }

    /// Counts `n`.
    pub fn add(&self, a: A, b: B, n: u64) {
        self.cells[a.index() * B::ALL.len() + b.index()].inc_by(n);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self, a: A, b: B) -> u64 {
        self.cells[a.index() * B::ALL.len() + b.index()].get()
    }
}

/// A histogram for each value of a label.
#[derive(Debug)]
pub struct Histograms<L> {
    cells: Vec<Histogram>,
    label: PhantomData<L>,
}

impl<L: Label> Histograms<L> {
    fn register(registry: &mut Registry, name: &str, help: &str, new: fn() -> Histogram) -> Self {
        let family = Family::<LabelSet, Histogram>::new_with_constructor(new);
        let cells = L::ALL.iter().map(|value| family.get_or_create_owned(&vec![(L::NAME, value.text())])).collect();
        registry.register(name, help, family);
        Self { cells, label: PhantomData }
    }

    /// Notes a value.
    pub fn observe(&self, label: L, value: f64) {
        self.cells[label.index()].observe(value);
    }
}

/// One more of something that is counted while it lasts; one less when this is dropped.
#[derive(Debug)]
#[must_use = "it counts only while it is held"]
pub struct Held(Gauge);

impl Held {
    pub(super) fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// All metrics. Made once; everyone counts in it directly.
pub struct Metrics {
    registry: Registry,
    /// Requests by part of the API and how they ended.
    pub requests: Counters2<Route, Outcome>,
    /// Our own time in a chat request: all but upstream's, in seconds.
    pub overhead_seconds: Histogram,
    /// Recalls by how they ended.
    pub recalls: Counters<RecallOutcome>,
    /// Time of a recall, in seconds.
    pub recall_seconds: Histogram,
    /// What a rerank endpoint did with what it was asked.
    pub reranks: Counters<RerankOutcome>,
    /// Exchanges that were made durable.
    pub outbox_appended: Counter,
    /// Exchanges that could not be stored and were given up.
    pub outbox_failed: Counter,
    /// Exchanges that passed unremembered because the queue was full.
    pub outbox_refused: Counter,
    /// Replies whose end was let go before they were durable, because that took too long.
    pub outbox_released_by_timeout: Counter,
    /// Replies whose end was let go before they were durable, because the store is known to fail.
    pub outbox_released_failing: Counter,
    outbox_depth: Gauge,
    outbox_dead_letters: Gauge,
    outbox_oldest_seconds: Gauge<f64, AtomicU64>,
    /// Exchanges that were to be learned from, by what became of them.
    pub learned: Counters<LearnedAs>,
    /// Changes of facts.
    pub fact_changes: Counters<FactAction>,
    /// Episodes that were stored.
    pub episodes: Counter,
    /// Proposals by what became of them and why.
    pub extracted: Counters2<ExtractOutcome, ExtractReason>,
    /// Time of learning from one exchange, in seconds.
    pub extract_seconds: Histogram,
    /// What the sweep did.
    pub swept: Counters<Swept>,
    /// Rounds over all scopes that the sweep ended.
    pub sweep_rounds: Counter,
    /// Tokens by what they were for.
    pub tokens: Counters<Direction>,
    /// Messages that were cut.
    pub cut_messages: Counter,
    /// Tokens of prompts that had one before them in their conversation: in the common prefix, and behind it.
    pub prompt_tokens: Counters2<PromptTurn, PromptPart>,
    /// The same in bytes.
    pub prompt_bytes: Counters2<PromptTurn, PromptPart>,
    /// Share of a prompt's tokens that it has in common with the last one of its conversation, from the beginning on.
    pub prefix_share: Histogram,
    /// Summaries that were wished for, by what became of them.
    pub summaries: Counters<SummaryOutcome>,
    /// Our estimate of a prompt's tokens against upstream's count: (estimate − count) / count.
    pub token_estimate_error: Histogram,
    in_flight: Gauge,
    streams_open: Gauge,
    /// Attempts by how they ended.
    pub attempts: Counters<AttemptOutcome>,
    /// Keys of providers that were left out because upstream refused them.
    pub keys_refused: Counter,
    /// Time from a request upstream to its header, in seconds.
    pub upstream_header_seconds: Histogram,
    /// Requests that upstream found larger than its window, by what became of them.
    pub overflows: Counters<OverflowOutcome>,
    /// What was learned about targets.
    pub targets: Arc<TargetGauges>,
    /// What exchanges used, by target.
    pub books: BookCounters,
    /// Calls of models, as the GenAI conventions count them.
    pub gen_ai: GenAi,
    /// Spans that were to be exported, by what became of them.
    pub otlp_spans: Counters<SpanOutcome>,
    /// Messages to the OpenTelemetry collector, by how they ended.
    pub otlp_exports: Counters2<Signal, ExportOutcome>,
    /// The configuration in force, connections, certificates.
    pub edges: EdgeMetrics,
    /// Panics that were caught.
    pub panics: Counter,
    /// Questions of our own to models, by what they were for and how they ended.
    pub asks: Counters2<AskPurpose, AskOutcome>,
    /// Tokens of those questions and their answers.
    pub ask_tokens: Counters2<AskPurpose, AskTokens>,
    /// Windows that the extraction model was asked about, by how they ended.
    pub windows: Counters<WindowEnd>,
    /// Items of its answers.
    pub model_items: Counters<ItemOutcome>,
    /// Exchanges that the model is not asked about because too many wait.
    pub window_turns_refused: Counter,
    /// Texts that were to be embedded, by what became of them.
    pub embeds: Counters2<EmbedSide, EmbedOutcome>,
    /// Time until the embedder answered, in seconds.
    pub embed_seconds: Histograms<EmbedSide>,
    /// Vectors of episodes, by what became of them.
    pub vectors: Counters<VectorOutcome>,
    /// Vectors of questions, by what became of them.
    pub question_vectors: Counters<QuestionVector>,
    /// Questions to an index outside of the process, by what became of them.
    pub index_searches: Counters<IndexOutcome>,
    /// Time until that answered, in seconds.
    pub index_search_seconds: Histogram,
    /// Episodes that it found and that were looked up in the records, since memory did not hold them.
    pub index_older: Counter,
    vectors_pending: Gauge,
    windows_waiting: Gauge,
    window_turns_waiting: Gauge,
    windows_capped: Gauge,
    windows_oldest_seconds: Gauge<f64, AtomicU64>,
    /// Requests refused, by the limit and whose it is.
    pub limited: Counters2<Limit, LimitOf>,
    /// Requests under a limit of money whose cost nobody knows.
    pub limit_unpriced: Counter,
    /// Uses of the day and the month that could not be written when they should have been.
    pub budget_write_failures: Counter,
    limit_accounts: Gauge,
    /// Requests whose limits this process alone decided on, since Redis was away.
    pub limits_local: Counter,
    /// What Redis was asked to do, by how that ended.
    pub redis_commands: Counters2<RedisCommand, RedisOutcome>,
    redis_up: Gauge,
    redis_hears: Gauge,
    store_degraded: Gauge<i64, AtomicI64>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Makes all series, at zero.
    #[must_use]
    pub fn new() -> Self {
        let mut r = Registry::with_prefix("backstory");
        Self {
            requests: Counters2::register(&mut r, "requests", "Requests by part of the API and how they ended"),
            overhead_seconds: histogram(
                &mut r,
                "request_overhead_seconds",
                "Own time in a chat request, without upstream's",
                FAST,
            ),
            recalls: Counters::register(&mut r, "recall", "Recalls by how they ended"),
            recall_seconds: histogram(&mut r, "recall_seconds", "Time of a recall", FAST),
            reranks: Counters::register(&mut r, "rerank", "Questions to the rerank endpoint by how they ended"),
            outbox_appended: counter(&mut r, "outbox_appended", "Exchanges made durable"),
            outbox_failed: counter(&mut r, "outbox_failed", "Exchanges that could not be stored and were given up"),
            outbox_refused: counter(
                &mut r,
                "outbox_refused",
                "Exchanges that passed unremembered because the queue was full",
            ),
            outbox_released_by_timeout: counter(
                &mut r,
                "outbox_released_by_timeout",
                "Replies whose end was let go before they were durable",
            ),
            outbox_released_failing: counter(
                &mut r,
                "outbox_released_failing",
                "Replies whose end was let go before they were durable because the store fails",
            ),
            outbox_depth: gauge(&mut r, "outbox_depth", "Exchanges that wait to be learned from"),
            outbox_dead_letters: gauge(&mut r, "outbox_dead_letters", "Exchanges that were given up and are kept"),
            outbox_oldest_seconds: gauge_f64(&mut r, "outbox_oldest_seconds", "Age of the oldest of them"),
            learned: Counters::register(&mut r, "learned", "Exchanges to be learned from, by what became of them"),
            fact_changes: Counters::register(&mut r, "fact_changes", "Changes of facts"),
            episodes: counter(&mut r, "episodes_stored", "Episodes that were stored"),
            extracted: Counters2::register(&mut r, "extracted", "Proposals by what became of them and why"),
            extract_seconds: histogram(&mut r, "extract_seconds", "Time of learning from one exchange", FAST),
            swept: Counters::register(&mut r, "swept", "What the sweep did"),
            sweep_rounds: counter(&mut r, "sweep_rounds", "Rounds over all scopes that the sweep ended"),
            tokens: Counters::register(&mut r, "tokens", "Tokens by what they were for"),
            cut_messages: counter(&mut r, "context_cut_messages", "Messages left out to keep a budget"),
            prompt_tokens: Counters2::register(
                &mut r,
                "prompt_tokens",
                "Prompt tokens by whether the conversation's last request began with them too",
            ),
            prompt_bytes: Counters2::register(&mut r, "prompt_bytes", "The same in bytes"),
            prefix_share: histogram(
                &mut r,
                "prompt_prefix_ratio",
                "Share of a prompt's tokens in the common prefix with the conversation's last request",
                SHARE,
            ),
            summaries: Counters::register(&mut r, "summaries", "Summaries wished for, by what became of them"),
            token_estimate_error: histogram(
                &mut r,
                "token_estimate_error_ratio",
                "Estimated prompt tokens against upstream's count: (estimate - count) / count",
                ERROR,
            ),
            in_flight: gauge(&mut r, "requests_in_flight", "Requests whose reply body has not ended"),
            streams_open: gauge(&mut r, "streams_open", "Streamed replies that have not ended"),
            attempts: Counters::register(&mut r, "upstream_attempts", "Attempts by how they ended"),
            keys_refused: counter(
                &mut r,
                "upstream_keys_refused",
                "Keys of providers that were left out because upstream refused them",
            ),
            upstream_header_seconds: histogram(
                &mut r,
                "upstream_header_seconds",
                "Time from a request upstream to its header",
                SLOW,
            ),
            overflows: Counters::register(
                &mut r,
                "window_overflows",
                "Requests that upstream found larger than its window, by what became of them",
            ),
            targets: Arc::new(TargetGauges::register(&mut r)),
            books: BookCounters::register(&mut r),
            gen_ai: GenAi::register(&mut r),
            otlp_spans: Counters::register(&mut r, "otlp_spans", "Spans to be exported, by what became of them"),
            otlp_exports: Counters2::register(
                &mut r,
                "otlp_exports",
                "Messages to the OpenTelemetry collector, by what is in them and how they ended",
            ),
            edges: EdgeMetrics::register(&mut r),
            panics: counter(&mut r, "panics", "Panics that were caught"),
            asks: Counters2::register(&mut r, "ask", "Questions of our own to models by purpose and how they ended"),
            ask_tokens: Counters2::register(&mut r, "ask_tokens", "Tokens of those questions and their answers"),
            windows: Counters::register(&mut r, "windows", "Windows that the extraction model was asked about"),
            model_items: Counters::register(&mut r, "model_items", "Items of the extraction model's answers"),
            window_turns_refused: counter(
                &mut r,
                "window_turns_refused",
                "Exchanges that the extraction model is not asked about because too many wait",
            ),
            embeds: Counters2::register(&mut r, "embed", "Texts that were to be embedded, by what became of them"),
            embed_seconds: Histograms::register(&mut r, "embed_seconds", "Time until the embedder answered", || {
                Histogram::new(EMBED.iter().copied())
            }),
            windows_waiting: gauge(&mut r, "windows_waiting", "Windows that wait for the extraction model"),
            window_turns_waiting: gauge(&mut r, "window_turns_waiting", "Exchanges in those windows"),
            vectors: Counters::register(&mut r, "vectors", "Vectors of episodes by what became of them"),
            question_vectors: Counters::register(
                &mut r,
                "question_vectors",
                "Vectors of questions by what became of them",
            ),
            index_searches: Counters::register(
                &mut r,
                "index_search",
                "Questions to the index outside of the process by what became of them",
            ),
            index_search_seconds: histogram(&mut r, "index_search_seconds", "Time until that index answered", FAST),
            index_older: counter(
                &mut r,
                "index_older",
                "Episodes that the index found and memory did not hold: looked up in the records",
            ),
            vectors_pending: gauge(&mut r, "vectors_pending", "Episodes that wait to be embedded"),
            windows_capped: gauge(&mut r, "windows_capped", "Windows of tenants whose tokens of the day are used up"),
            windows_oldest_seconds: gauge_f64(&mut r, "windows_oldest_seconds", "Age of the oldest of those windows"),
            limited: Counters2::register(&mut r, "limited", "Requests refused, by the limit and whose it is"),
            limit_unpriced: counter(
                &mut r,
                "limit_unpriced",
                "Requests under a limit of money whose cost is not known: counted in tokens alone",
            ),
            budget_write_failures: counter(
                &mut r,
                "budget_write_failures",
                "Times that uses of the day and the month could not be written",
            ),
            limit_accounts: gauge(&mut r, "limit_accounts", "Keys, people, tenants and models whose use is held"),
            limits_local: counter(
                &mut r,
                "limits_local",
                "Requests whose limits this process alone decided on because Redis was away",
            ),
            redis_commands: Counters2::register(&mut r, "redis_commands", "Commands for Redis by how they ended"),
            redis_up: gauge(&mut r, "redis_up", "1 while Redis is used; 0 while it is away, or none is configured"),
            redis_hears: gauge(&mut r, "redis_hears", "1 while it is heard through Redis what other replicas change"),
            store_degraded: gauge(
                &mut r,
                "store_degraded",
                "1 while the store cannot be used and requests pass without memory",
            ),
            registry: r,
        }
    }

    /// All metrics as text, in [`CONTENT_TYPE`].
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::with_capacity(16 << 10);
        encode(&mut text, &self.registry).expect("writing into a String cannot fail");
        text
    }

    /// Counts a request while it lasts: until its reply body ends.
    pub fn in_flight(&self) -> Held {
        Held::new(&self.in_flight)
    }

    /// Counts a streamed reply while it lasts.
    pub fn stream_open(&self) -> Held {
        Held::new(&self.streams_open)
    }

    /// Says how full the outbox is.
    pub fn set_outbox(&self, waiting: u64, dead: u64, oldest: Option<Duration>) {
        self.outbox_depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.outbox_dead_letters.set(i64::try_from(dead).unwrap_or(i64::MAX));
        self.outbox_oldest_seconds.set(oldest.map_or(0.0, |age| age.as_secs_f64()));
    }

    /// Says how much waits for the extraction model.
    pub fn set_windows(&self, windows: u64, turns: u64, capped: u64, oldest: Option<Duration>) {
        let level = |gauge: &Gauge, count| gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        level(&self.windows_waiting, windows);
        level(&self.window_turns_waiting, turns);
        level(&self.windows_capped, capped);
        self.windows_oldest_seconds.set(oldest.map_or(0.0, |age| age.as_secs_f64()));
    }

    /// Says of how many keys, people, tenants and models the use is held.
    pub fn set_limit_accounts(&self, accounts: usize) {
        self.limit_accounts.set(i64::try_from(accounts).unwrap_or(i64::MAX));
    }

    /// Says whether Redis is used.
    pub fn set_redis_up(&self, up: bool) {
        self.redis_up.set(i64::from(up));
    }

    /// Says whether it is heard what other replicas change.
    pub fn set_redis_hears(&self, hears: bool) {
        self.redis_hears.set(i64::from(hears));
    }

    /// Says how many episodes wait to be embedded.
    pub fn set_vectors_pending(&self, pending: u64) {
        self.vectors_pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
    }

    /// Says whether the store can be used.
    pub fn set_store_degraded(&self, degraded: bool) {
        self.store_degraded.set(i64::from(degraded));
    }

    /// Notes how far an estimate was from what upstream counted.
    pub fn observe_token_estimate(&self, estimated: u64, counted: u64) {
        if counted > 0 {
            #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
            self.token_estimate_error.observe((estimated as f64 - counted as f64) / counted as f64);
        }
    }
}

/// Takes over a total that someone else counts; it never goes down.
pub fn raise_to(counter: &Counter, total: u64) {
    counter.inner().fetch_max(total, Ordering::Relaxed);
}

/// Buckets from 50 µs to 1 s.
const FAST: &[f64] = &[0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];
/// Buckets from 10 ms to 5 min.
const SLOW: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Buckets from 1 ms to 1 min.
const EMBED: &[f64] = &[0.001, 0.002_5, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0];
/// Buckets of a share.
const SHARE: &[f64] = &[0.0, 0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0];
/// Buckets of a relative error.
const ERROR: &[f64] = &[-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

fn histogram(registry: &mut Registry, name: &str, help: &str, buckets: &'static [f64]) -> Histogram {
    let histogram = Histogram::new(buckets.iter().copied());
    registry.register(name, help, histogram.clone());
    histogram
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn gauge_f64(registry: &mut Registry, name: &str, help: &str) -> Gauge<f64, AtomicU64> {
    let gauge = Gauge::<f64, AtomicU64>::default();
    registry.register(name, help, gauge.clone());
    gauge
}

#[cfg(test)]
mod tests {
    use super::super::books::Used;
    use super::*;

    #[test]
    fn what_is_counted_is_rendered() {
        let metrics = Metrics::new();
        metrics.requests.inc(Route::Chat, Outcome::Ok);
        metrics.recalls.inc(RecallOutcome::Hit);
        metrics.tokens.add(Direction::Input, 7);
        metrics.recall_seconds.observe(0.0007);
        metrics.set_outbox(3, 1, Some(Duration::from_millis(1500)));
        let text = metrics.render();
        for line in [
            r#"backstory_requests_total{route="chat",outcome="2xx"} 1"#,
            r#"backstory_recall_total{outcome="hit"} 1"#,
            r#"backstory_recall_total{outcome="timeout"} 0"#,
            r#"backstory_tokens_total{direction="input"} 7"#,
            r#"backstory_recall_seconds_bucket{le="0.001"} 1"#,
            "backstory_recall_seconds_count 1",
            "backstory_outbox_depth 3",
            "backstory_outbox_dead_letters 1",
            "backstory_outbox_oldest_seconds 1.5",
            "# EOF",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn the_number_of_series_does_not_grow_by_counting() {
        let metrics = Metrics::new();
        let before = metrics.render().lines().count();
        for route in Route::ALL {
            for outcome in Outcome::ALL {
                metrics.requests.inc(*route, *outcome);
            }
        }
        assert_eq!(metrics.requests.get(Route::Other, Outcome::Cut), 1);
        assert_eq!(metrics.render().lines().count(), before);
    }

    #[test]
    fn what_a_target_used_is_counted_under_its_name_and_all_others_together() {
        let metrics = Metrics::new();
        metrics.books.declare(["p/known"]);
        let tokens = [(Direction::Input, 7), (Direction::Output, 0)];
        metrics.books.add(&Used { target: Some("p/known"), tokens: &tokens, cost_nanos: Some(1_500_000_000) });
        metrics.books.add(&Used { target: Some("p/made up"), tokens: &tokens, cost_nanos: None });
        metrics.books.add(&Used { target: None, tokens: &tokens, cost_nanos: None });
        let text = metrics.render();
        assert!(text.contains("backstory_target_tokens_total{target=\"p/known\",direction=\"input\"} 7\n"), "{text}");
        assert!(text.contains("backstory_target_cost_dollars_total{target=\"p/known\"} 1.5\n"), "{text}");
        assert!(text.contains("backstory_target_unpriced_total{target=\"other\"} 1\n"), "{text}");
        assert!(!text.contains("made up"));
    }

    #[test]
    fn only_declared_targets_have_series() {
        let metrics = Metrics::new();
        metrics.targets.declare(["p/known"]);
        metrics.targets.set_correction("p/known", 1.5, 8.0);
        metrics.targets.set_correction("p/a name that a client made up", 1.5, 8.0);
        metrics.targets.set_window("p/known", Some(8192));
        let text = metrics.render();
        for line in [
            r#"backstory_token_correction{target="p/known"} 1.5"#,
            r#"backstory_token_overhead{target="p/known"} 8.0"#,
            r#"backstory_learned_window_tokens{target="p/known"} 8192"#,
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        assert!(!text.contains("made up"));
    }

    #[test]
    fn a_held_stream_is_counted_until_it_is_dropped() {
        let metrics = Metrics::new();
        let held = metrics.stream_open();
        assert!(metrics.render().contains("\nbackstory_streams_open 1\n"));
        drop(held);
        assert!(metrics.render().contains("\nbackstory_streams_open 0\n"));
    }

    #[test]
    fn a_total_of_others_is_taken_over_and_never_goes_down() {
        let metrics = Metrics::new();
        metrics.learned.raise_to(LearnedAs::Seen, 5);
        metrics.learned.raise_to(LearnedAs::Seen, 3);
        raise_to(&metrics.episodes, 2);
        assert_eq!((metrics.learned.get(LearnedAs::Seen), metrics.episodes.get()), (5, 2));
    }

    #[test]
    fn an_estimate_without_a_count_is_no_error() {
        let metrics = Metrics::new();
        metrics.observe_token_estimate(10, 0);
        metrics.observe_token_estimate(102, 100);
        assert!(metrics.render().contains("\nbackstory_token_estimate_error_ratio_count 1\n"));
    }
}
