//! What was measured, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::picture::{Curve, svg};
use super::retrieval::Outcome;

/// Ranks at which recall is reported.
const RANKS: [usize; 3] = [5, 10, 20];
/// Token budgets within which recall is reported.
const BUDGETS: [usize; 3] = [500, 1_000, 2_000];

/// The figures of a measurement.
#[derive(Clone, Debug)]
pub struct Report {
    /// Over all questions that have an answer.
    pub overall: Figures,
    /// By category, those without an answer included.
    pub by_category: BTreeMap<String, Figures>,
    /// Share of the questions without an answer for which something was shown all the same.
    pub false_recall: f64,
    /// How many of those there were.
    pub n_unanswerable: usize,
    /// How many memories were searched, over all scopes.
    pub n_memories: usize,
    /// Times.
    pub latency: Latency,
    curves: Vec<Curve>,
}

/// Figures over a set of questions; shares from 0 to 1.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// How many questions.
    pub n: usize,
    /// Share of the expected memories among the first 5, 10 and 20.
    pub recall_at: [f64; 3],
    /// Share of questions with all expected memories among the first 10.
    pub all_at_10: f64,
    /// Mean of 1 / rank of the first expected memory.
    pub mrr: f64,
    /// Share of the expected memories within the first 500, 1,000 and 2,000 tokens.
    pub recall_within: [f64; 3],
    /// Share of what the default pack shows that was expected.
    pub precision_shown: f64,
    /// How many episodes the default pack shows, on average.
    pub mean_shown: f64,
}

/// Times in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// All memories into the index.
    pub ingest: f64,
    /// The vector of one question, where an embedder was asked.
    pub embed: Quantiles,
    /// One recall: facts, search, floor and pack, as a request does it.
    pub recall: Quantiles,
    /// The search alone, 200 places deep, as it is done to judge a ranking.
    pub search: Quantiles,
}

/// The distribution of a time, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quantiles {
    /// On average.
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 99 in 100 are faster.
    pub p99: f64,
}

impl Report {
    pub(super) fn of(outcomes: &[Outcome], n_memories: usize, ingest_seconds: f64, embed_seconds: &[f64]) -> Self {
        let answerable: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.answerable).collect();
        let others: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.answerable).collect();
        let mut by_category: BTreeMap<String, Vec<&Outcome>> = BTreeMap::new();
        for outcome in outcomes {
            by_category.entry(outcome.category.clone()).or_default().push(outcome);
        }
        Self {
            overall: Figures::of(&answerable),
            curves: curves(&answerable, &by_category),
            by_category: by_category.into_iter().map(|(name, of)| (name, Figures::of(&of))).collect(),
            false_recall: mean(others.iter().map(|outcome| f64::from(u8::from(outcome.shown > 0)))),
            n_unanswerable: others.len(),
            n_memories,
            latency: Latency::of(outcomes, ingest_seconds, embed_seconds),
        }
    }

    /// As a table for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut out = format!(
            "{:<14}{:>6}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>7}\n",
            "", "n", "r@5", "r@10", "r@20", "all@10", "mrr", "r@500t", "r@1kt", "r@2kt", "prec", "shown"
        );
        let categories = self.by_category.iter().map(|(name, figures)| (name.as_str(), figures));
        for (name, f) in std::iter::once(("overall", &self.overall)).chain(categories) {
            let shares =
                f.recall_at.iter().chain([&f.all_at_10, &f.mrr]).chain(&f.recall_within).chain([&f.precision_shown]);
            let cells: String = shares.map(|share| format!("{:>8.1}", share * 100.0)).collect();
            // Writing to a string does not fail.
            let _ = writeln!(out, "{name:<14}{:>6}{cells}{:>7.1}", f.n, f.mean_shown);
        }
        let Latency { ingest, embed, recall, search } = self.latency;
        let _ = writeln!(
            out,
            "false recall {:.1} % of {} | {} memories in {ingest:.0} ms",
            self.false_recall * 100.0,
            self.n_unanswerable,
            self.n_memories
        );
        let stages = [("vector of a question", embed), ("recall", recall), ("search, 200 deep", search)];
        for (stage, Quantiles { mean, p50, p99 }) in stages.into_iter().filter(|(_, times)| times.mean > 0.0) {
            let _ = writeln!(out, "{stage}: {mean:.3} ms mean, {p50:.3} p50, {p99:.3} p99");
        }
        out
    }

    /// As a picture (SVG): recall over tokens, over all questions and by category.
    #[must_use]
    pub fn picture(&self) -> String {
        svg("Recall over tokens", &self.curves)
    }

    /// As JSON for machines.
    #[must_use]
    pub fn json(&self) -> Value {
        let by_category: serde_json::Map<String, Value> =
            self.by_category.iter().map(|(name, figures)| (name.clone(), figures.json())).collect();
        let Latency { ingest, embed, recall, search } = self.latency;
        json!({
            "overall": self.overall.json(),
            "by_category": by_category,
            "false_recall": self.false_recall,
            "unanswerable": self.n_unanswerable,
            "memories": self.n_memories,
            "latency_ms": {
                "ingest": ingest,
                "embed_mean": embed.mean, "embed_p50": embed.p50, "embed_p99": embed.p99,
                "recall_mean": recall.mean, "recall_p50": recall.p50, "recall_p99": recall.p99,
                "search_mean": search.mean, "search_p50": search.p50, "search_p99": search.p99,
            },
        })
    }
}

impl Figures {
    fn of(outcomes: &[&Outcome]) -> Self {
        let asked: Vec<&&Outcome> = outcomes.iter().filter(|outcome| outcome.expected > 0).collect();
        let share = |fits: &dyn Fn(&(usize, usize)) -> bool| {
            mean(asked.iter().map(|outcome| {
                outcome.found.iter().filter(|found| fits(found)).count() as f64 / outcome.expected as f64
            }))
        };
        let shown: usize = outcomes.iter().map(|outcome| outcome.shown).sum();
        let right: usize = outcomes.iter().map(|outcome| outcome.shown_right).sum();
        Self {
            n: outcomes.len(),
            recall_at: RANKS.map(|k| share(&|&(place, _)| place < k)),
            all_at_10: mean(asked.iter().map(|outcome| {
                let found = outcome.found.iter().filter(|(place, _)| *place < 10).count();
                f64::from(u8::from(found == outcome.expected))
            })),
            mrr: mean(
                asked.iter().map(|outcome| outcome.found.first().map_or(0.0, |(place, _)| 1.0 / (place + 1) as f64)),
            ),
            recall_within: BUDGETS.map(|budget| share(&|&(_, tokens)| tokens <= budget)),
            precision_shown: if shown == 0 { 0.0 } else { right as f64 / shown as f64 },
            mean_shown: shown as f64 / outcomes.len().max(1) as f64,
        }
    }

    fn json(&self) -> Value {
        json!({
            "n": self.n,
            "recall@5": self.recall_at[0],
            "recall@10": self.recall_at[1],
            "recall@20": self.recall_at[2],
            "all@10": self.all_at_10,
            "mrr": self.mrr,
            "recall@500t": self.recall_within[0],
            "recall@1000t": self.recall_within[1],
            "recall@2000t": self.recall_within[2],
            "precision_shown": self.precision_shown,
            "mean_shown": self.mean_shown,
        })
    }
}

impl Latency {
    fn of(outcomes: &[Outcome], ingest_seconds: f64, embed_seconds: &[f64]) -> Self {
        Self {
            ingest: ingest_seconds * 1000.0,
            embed: Quantiles::of(embed_seconds.iter().copied()),
            recall: Quantiles::of(outcomes.iter().map(|outcome| outcome.recall_seconds)),
            search: Quantiles::of(outcomes.iter().map(|outcome| outcome.search_seconds)),
        }
    }
}

impl Quantiles {
    fn of(seconds: impl Iterator<Item = f64>) -> Self {
        let mut times: Vec<f64> = seconds.map(|seconds| seconds * 1000.0).collect();
        times.sort_by(f64::total_cmp);
        let quantile = |q: f64| times.get(((times.len() as f64 - 1.0).max(0.0) * q) as usize).copied().unwrap_or(0.0);
        Self { p50: quantile(0.5), p99: quantile(0.99), mean: mean(times.iter().copied()) }
    }
}

fn curves(answerable: &[&Outcome], by_category: &BTreeMap<String, Vec<&Outcome>>) -> Vec<Curve> {
    let overall = Curve::of("overall", answerable.iter().copied());
    let each = by_category
        .iter()
        .filter_map(|(name, of)| Curve::of(name, of.iter().copied().filter(|outcome| outcome.answerable)));
    overall.into_iter().chain(each).collect()
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len();
    if n == 0 { 0.0 } else { values.sum::<f64>() / n as f64 }
}
