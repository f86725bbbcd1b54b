//! How upstream's count of tokens differs from ours, learned from what it reports.
//!
//! A model without a public tokenizer is counted with `o200k_base`. What upstream then reports is fitted as
//! `ratio × ours + overhead`: another vocabulary differs by a ratio, a chat template adds a few tokens to every request.
//! The fit is a robust regression, for exchanges that upstream counts otherwise (cached tokens left out,
//! hidden prompts) are outliers, not noise. It leans on `ratio 1, overhead 0` until the exchanges say more: twenty tiny
//! prompts with a template of 30 tokens each must not make large prompts look three times as large.

use serde::{Deserialize, Serialize};

/// So many of the newest exchanges are kept; what is older no longer counts.
const MAX_SAMPLES: usize = 32;
/// With fewer nothing is corrected.
const MIN_SAMPLES: usize = 3;
/// What a tokenizer can plausibly differ by.
const RATIOS: (f64, f64) = (0.25, 4.0);
/// A chat template adds no more than this.
const MAX_OVERHEAD: f64 = 512.0;
/// The correction changes only when it moves a count by more than this share: cuts depend on it, and are to be rare.
const HYSTERESIS: f64 = 0.01;
/// Relative noise that is assumed of a count, and at least so many tokens.
const NOISE: f64 = 0.02;
const NOISE_TOKENS: f64 = 32.0;
/// How far ratio and overhead are expected to stray from 1 and 0 (standard deviations).
const RATIO_SPREAD: f64 = 0.5;
const OVERHEAD_SPREAD: f64 = 24.0;
/// The weights of a robust fit, in robust standard deviations of a residual (constants for 95 % efficiency): beyond the first,
/// Huber's weights fall; beyond the second, Tukey's are zero.
const HUBER: f64 = 1.345;
const BIWEIGHT: f64 = 4.685;
/// Huber's fit has one solution, whatever it begins with; Tukey's goes on from there and forgets the outliers.
const HUBER_ROUNDS: usize = 20;
const BIWEIGHT_ROUNDS: usize = 8;
/// What moves ratio and overhead less than this settles a fit: usually three rounds do.
const SETTLED: f64 = 1e-9;

/// Upstream's tokens as a function of ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// Upstream's tokens per token of ours.
    pub ratio: f64,
    /// What upstream adds to each request, in its tokens.
    pub overhead: f64,
    /// Grows by one with every change; 0 = nothing was learned.
    pub generation: u32,
}

impl Default for Correction {
    fn default() -> Self {
        Self { ratio: 1.0, overhead: 0.0, generation: 0 }
    }
}

impl Correction {
    /// Returns what `counted` tokens of ours are upstream.
    #[must_use]
    pub fn apply(&self, counted: f64) -> f64 {
        self.ratio * counted + self.overhead
    }
}

/// One exchange whose tokens upstream reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// What we counted, uncorrected.
    pub counted: u32,
    /// What upstream counted.
    pub reported: u32,
}

/// The newest exchanges with a target, and what they teach.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Corrector {
    /// Oldest first.
    samples: Vec<Sample>,
    correction: Correction,
}

impl Corrector {
    /// The correction in force.
    #[must_use]
    pub fn correction(&self) -> Correction {
        self.correction
    }

    /// How many exchanges it rests on.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        self.samples.len()
    }

    /// Takes in one exchange; `true` when the correction has changed. Exchanges without tokens teach nothing.
    pub fn observe(&mut self, sample: Sample) -> bool {
        if sample.counted == 0 || sample.reported == 0 {
            return false;
        }
        let at = self.samples.partition_point(|other| *other <= sample);
        if self.samples.get(at.wrapping_sub(1)) == Some(&sample) {
            return false;
        }
        self.samples.insert(at, sample);
        self.drop_oldest();
        self.learn()
    }

    /// Takes in what another replica has learned: its exchanges, and its correction when that is of a later generation.
    /// `true` when the correction has changed.
    pub fn merge(&mut self, other: &Self) -> bool {
        let before = self.correction;
        self.samples.extend_from_slice(&other.samples);
        self.samples.sort_unstable();
        self.samples.dedup();
        self.drop_oldest();
        if other.correction.generation >= self.correction.generation {
            self.correction = other.correction;
        }
        self.learn();
        self.correction != before
    }

    /// Brings values that were stored into the bounds that hold here.
    #[must_use]
    pub fn checked(mut self) -> Self {
        self.correction.ratio = self.correction.ratio.clamp(RATIOS.0, RATIOS.1);
        self.correction.overhead = self.correction.overhead.clamp(0.0, MAX_OVERHEAD);
        self.samples.retain(|sample| sample.counted > 0 && sample.reported > 0);
        self.samples.sort_unstable();
        self.drop_oldest();
        self
    }

    fn drop_oldest(&mut self) {
        let n_too_many = self.samples.len().saturating_sub(MAX_SAMPLES);
        self.samples.drain(..n_too_many);
    }

    fn learn(&mut self) -> bool {
        if self.samples.len() < MIN_SAMPLES {
            return false;
        }
        let (ratio, overhead) = fit(&self.samples);
        let new = Correction { ratio, overhead, generation: self.correction.generation.saturating_add(1) };
        let moved = !self.is_close_to(&new);
        if moved {
            self.correction = new;
        }
        moved
    }

    /// Whether both corrections say much the same of requests like those that were seen.
    fn is_close_to(&self, new: &Correction) -> bool {
        let counted = || self.samples.iter().map(|sample| f64::from(sample.counted));
        let sizes = [counted().fold(f64::MAX, f64::min), counted().fold(0.0, f64::max)];
        sizes.iter().all(|&size| {
            let (old, new) = (self.correction.apply(size), new.apply(size));
            // A token or two more on a tiny prompt moves no cut.
            (new - old).abs() <= (HYSTERESIS * old).max(2.0)
        })
    }
}

/// Fits ratio and overhead.
fn fit(samples: &[Sample]) -> (f64, f64) {
    let pairs: Vec<(f64, f64)> = samples.iter().map(|s| (f64::from(s.counted), f64::from(s.reported))).collect();
    let size = |x: f64| (x * x + NOISE_TOKENS * NOISE_TOKENS).sqrt();
    let mut ratio = median(pairs.iter().map(|(x, y)| y / x).collect()).clamp(RATIOS.0, RATIOS.1);
    let mut overhead = 0.0;
    let mut round = 0;
    while round < HUBER_ROUNDS + BIWEIGHT_ROUNDS {
        let before = (ratio, overhead);
        let residual = |&(x, y): &(f64, f64)| ((y - ratio * x - overhead) / size(x)).abs();
        // 1.4826 makes a standard deviation of a median deviation.
        let scale = (1.4826 * median(pairs.iter().map(residual).collect())).max(NOISE);
        // The normal equations, begun with what is expected before anything is seen.
        let (ratio_prior, overhead_prior) = (RATIO_SPREAD.powi(-2), OVERHEAD_SPREAD.powi(-2));
        let (mut xx, mut x1, mut n, mut xy, mut y1) = (ratio_prior, 0.0, overhead_prior, ratio_prior, 0.0);
        for pair in &pairs {
            let (x, y) = *pair;
            let far = residual(pair) / scale;
            let trust = if round < HUBER_ROUNDS {
                (HUBER / far.max(HUBER)).min(1.0)
            } else {
                (1.0 - (far / BIWEIGHT).powi(2)).max(0.0).powi(2)
            };
            let weight = trust / (NOISE * size(x)).powi(2);
            xx += weight * x * x;
            x1 += weight * x;
            n += weight;
            xy += weight * x * y;
            y1 += weight * y;
        }
        // Positive: the priors alone make it so.
        let determinant = xx * n - x1 * x1;
        (ratio, overhead) = ((xy * n - x1 * y1) / determinant, (xx * y1 - x1 * xy) / determinant);
        if overhead < 0.0 {
            (ratio, overhead) = (xy / xx, 0.0);
        }
        (ratio, overhead) = (ratio.clamp(RATIOS.0, RATIOS.1), overhead.min(MAX_OVERHEAD));
        round += 1;
        if (ratio - before.0).abs() <= SETTLED && (overhead - before.1).abs() <= SETTLED {
            if round > HUBER_ROUNDS {
                break;
            }
            round = HUBER_ROUNDS;
        }
    }
    (ratio, overhead)
}

/// The middle value; of an even number the upper one of the two.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() { 1.0 } else { *values.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tokenizer that differs from ours by a ratio, a template and some noise.
    #[derive(Clone, Copy, Debug)]
    struct Simulated {
        ratio: f64,
        overhead: f64,
        noise: f64,
    }

    impl Simulated {
        /// `luck` from -1 to 1.
        fn count(self, counted: u32, luck: f64) -> u32 {
            (f64::from(counted) * self.ratio * (1.0 + luck * self.noise) + self.overhead).round() as u32
        }
    }

    fn simulated() -> impl Strategy<Value = Simulated> {
        (0.6..1.7_f64, 0.0..40.0_f64, 0.0..0.015_f64).prop_map(|(ratio, overhead, noise)| Simulated {
            ratio,
            overhead,
            noise,
        })
    }

    /// Sizes of prompts as they come, from `e^least` on: many small ones, few large ones; and the luck of each.
    fn exchanges(n: usize, least: f64) -> impl Strategy<Value = Vec<(u32, f64)>> {
        prop::collection::vec((least..11.0_f64, -1.0..1.0_f64), n)
            .prop_map(|all| all.into_iter().map(|(log, luck)| (log.exp() as u32, luck)).collect())
    }

    fn learned(tokenizer: Simulated, exchanges: &[(u32, f64)]) -> Corrector {
        let mut corrector = Corrector::default();
        for (at, &(counted, luck)) in (0..).zip(exchanges) {
            corrector.observe(Sample { at, counted, reported: tokenizer.count(counted, luck) });
        }
        corrector
    }

    /// Of requests within what was seen, or up to twice as large.
    fn is_within(
        correction: Correction,
        tokenizer: Simulated,
        seen: &[(u32, f64)],
        share: f64,
    ) -> Result<(), TestCaseError> {
        let smallest = seen.iter().map(|(n, _)| *n).min().unwrap_or(1).max(30);
        let largest = seen.iter().map(|(n, _)| *n).max().unwrap_or(1);
        for size in [smallest, (smallest + largest) / 2, largest, 2 * largest] {
            let real = f64::from(size) * tokenizer.ratio + tokenizer.overhead;
            let error = (correction.apply(f64::from(size)) - real).abs();
            prop_assert!(error <= (share * real).max(3.0), "{size}: {error} of {real}, {correction:?}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn after_twenty_exchanges_the_error_is_below_two_percent(tokenizer in simulated(), seen in exchanges(20, 3.0)) {
            is_within(learned(tokenizer, &seen).correction(), tokenizer, &seen, 0.02)?;
        }

        /// Some providers leave cached tokens out of the count, now and then.
        #[test]
        fn outliers_do_not_sway_it(tokenizer in simulated(), seen in exchanges(32, 5.0), share in 0.02..0.5_f64) {
            let mut corrector = Corrector::default();
            for (at, &(counted, luck)) in (0..).zip(&seen) {
                let whole = tokenizer.count(counted, luck);
                let reported = if at % 8 == 7 { ((f64::from(whole) * share) as u32).max(1) } else { whole };
                corrector.observe(Sample { at, counted, reported });
            }
            let honest: Vec<_> = seen.iter().enumerate().filter(|(at, _)| at % 8 != 7).map(|(_, s)| *s).collect();
            is_within(corrector.correction(), tokenizer, &honest, 0.025)?;
        }

        /// What decides about a cut is whether the estimate passes the budget.
        #[test]
        fn an_estimate_is_over_a_budget_only_where_the_real_count_nearly_is(
            tokenizer in simulated(), seen in exchanges(20, 3.0), budget in 1_000..100_000_u32,
        ) {
            let correction = learned(tokenizer, &seen).correction();
            let largest = seen.iter().map(|(n, _)| *n).max().unwrap_or(1);
            // The largest request of ours that is within the budget, when upstream counts it.
            let counted = (f64::from(budget) - tokenizer.overhead) / tokenizer.ratio;
            if counted <= 2.0 * f64::from(largest) {
                prop_assert!(correction.apply(counted * 0.98) <= f64::from(budget) + 3.0, "{correction:?}");
            }
        }

        #[test]
        fn changes_are_rare_and_every_one_is_a_generation(tokenizer in simulated(), seen in exchanges(120, 3.0)) {
            let mut corrector = Corrector::default();
            let mut changes = 0;
            for (at, &(counted, luck)) in (0..).zip(&seen) {
                let before = corrector.correction();
                let changed = corrector.observe(Sample { at, counted, reported: tokenizer.count(counted, luck) });
                prop_assert_eq!(changed, before != corrector.correction());
                prop_assert_eq!(corrector.correction().generation, before.generation + u32::from(changed));
                changes += u32::from(changed);
            }
            prop_assert!(changes <= 20, "{changes} changes");
        }

        #[test]
        fn any_counts_leave_it_within_bounds(all in prop::collection::vec((any::<u32>(), any::<u32>()), 0..50)) {
            let mut corrector = Corrector::default();
            for (at, (counted, reported)) in (0..).zip(all) {
                corrector.observe(Sample { at, counted, reported });
                let Correction { ratio, overhead, .. } = corrector.correction();
                prop_assert!((0.25..=4.0).contains(&ratio) && (0.0..=512.0).contains(&overhead));
                prop_assert!(corrector.n_samples() <= MAX_SAMPLES);
            }
        }
    }

    #[test]
    fn two_exchanges_change_nothing() {
        let mut corrector = Corrector::default();
        for at in 0..2 {
            assert!(!corrector.observe(Sample { at, counted: 1_000, reported: 1_500 }));
        }
        assert_eq!(corrector.correction(), Correction::default());
        assert!(corrector.observe(Sample { at: 2, counted: 1_000, reported: 1_500 }));
    }

    /// A template's tokens must not be taken for a ratio: large prompts would be cut that fit.
    #[test]
    fn tiny_prompts_with_a_template_say_little_about_large_ones() {
        let template = Simulated { ratio: 1.0, overhead: 30.0, noise: 0.0 };
        let tiny: Vec<_> = (0..20).map(|n| (15 + n % 6, 0.0)).collect();
        let correction = learned(template, &tiny).correction();
        assert!((correction.apply(17.0) - 47.0).abs() < 3.0, "{correction:?}");
        assert!(correction.ratio < 1.35, "{correction:?}");
    }

    #[test]
    fn a_model_that_was_changed_is_learned_anew() {
        let exchanges: Vec<_> = (0..40).map(|n| (500 + 100 * n, 0.0)).collect();
        let mut corrector = learned(Simulated { ratio: 1.5, overhead: 0.0, noise: 0.0 }, &exchanges);
        for (at, &(counted, _)) in (100..).zip(&exchanges) {
            corrector.observe(Sample { at, counted, reported: counted * 4 / 5 });
        }
        assert!((corrector.correction().ratio - 0.8).abs() < 0.01, "{:?}", corrector.correction());
    }

    #[test]
    fn replicas_come_to_the_same_correction() {
        let tokenizer = Simulated { ratio: 1.3, overhead: 9.0, noise: 0.0 };
        let exchanges: Vec<_> = (0..20).map(|n| (200 * (n + 1), 0.0)).collect();
        let (mut one, two) = (learned(tokenizer, &exchanges[..10]), learned(tokenizer, &exchanges));
        assert!(one.merge(&two) || one.correction() == two.correction());
        assert_eq!(one.correction(), two.correction());
        assert!(!one.merge(&two));
    }

    #[test]
    fn what_was_stored_out_of_bounds_is_brought_back() {
        let text = r#"{"samples":[{"at":2,"counted":0,"reported":5}],"correction":{"ratio":900.0,"overhead":-3.0,"generation":7}}"#;
        let corrector = serde_json::from_str::<Corrector>(text).unwrap().checked();
        assert_eq!(corrector.correction(), Correction { ratio: 4.0, overhead: 0.0, generation: 7 });
        assert_eq!(corrector.n_samples(), 0);
    }
}
