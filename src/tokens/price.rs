//! What tokens cost. Prices are read as decimals once; from then on all is integers, so that sums are exact.

use std::fmt;
use std::iter::Sum;

use serde::Deserialize;

use crate::wire::Usage;

/// An amount of money in billionths of a US dollar: one token of a cheap model costs some dozens of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost {
    /// Billionths of a US dollar.
    pub nanos: u64,
}

impl Cost {
    /// Of so many billionths of a US dollar.
    #[must_use]
    pub fn from_nanos(nanos: u64) -> Self {
        Self { nanos }
    }

    /// Of so many millionths of a US dollar.
    #[must_use]
    pub fn from_micros(micros: u64) -> Self {
        Self { nanos: micros.saturating_mul(1_000) }
    }

    /// In millionths of a US dollar, to the nearest. Round sums, not what is summed up.
    #[must_use]
    pub fn micros(self) -> u64 {
        self.nanos / 1_000 + u64::from(self.nanos % 1_000 >= 500)
    }

    /// Both together; the largest amount when that is too much to be told.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Self::plus)
    }
}

impl fmt::Display for Cost {
    /// In dollars with six decimals, as in `0.001234`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.micros();
        f.pad(&format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000))
    }
}

/// The price of a token, in trillionths of a US dollar: as many as a million tokens cost millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "f64")]
pub struct Rate(u64);

/// A price that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a price must be a number from 0 to {} US dollars per million tokens", Rate::MAX_DOLLARS)]
pub struct RateError;

impl Rate {
    /// No list price is near it: more is a mistake of units.
    pub const MAX_DOLLARS: f64 = 100_000.0;

    /// The price of a token where a million cost so many US dollars.
    ///
    /// # Errors
    /// What is negative, no number, or above [`Rate::MAX_DOLLARS`].
    pub fn per_million(dollars: f64) -> Result<Self, RateError> {
        if !(0.0..=Self::MAX_DOLLARS).contains(&dollars) {
            return Err(RateError);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was just checked")]
        Ok(Self((dollars * 1e6).round() as u64))
    }

    /// In trillionths of a dollar.
    fn of(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }
}

impl TryFrom<f64> for Rate {
    type Error = RateError;

    fn try_from(dollars: f64) -> Result<Self, RateError> {
        Self::per_million(dollars)
    }
}

/// What the tokens of a model cost. In the files that people write: US dollars per million.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of the prompt.
    pub input: Rate,
    /// Of the prompt, taken from the provider's cache; `None` = as `input`.
    pub cached: Option<Rate>,
    /// Of the prompt, written to the provider's cache; `None` = as `input`.
    pub cache_write: Option<Rate>,
    /// Of the reply.
    pub output: Rate,
    /// Of the reply, spent on reasoning; `None` = as `output`.
    pub reasoning: Option<Rate>,
}

impl Price {
    /// Returns what an exchange cost. Parts that are larger than their whole, as some servers report them, count as the whole.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Cost {
        let cached = usage.cached_tokens.min(usage.prompt_tokens);
        let written = usage.cache_write_tokens.min(usage.prompt_tokens - cached);
        let reasoning = usage.reasoning_tokens.min(usage.completion_tokens);
        rounded(
            self.input.of(usage.prompt_tokens - cached - written)
                + self.cached.unwrap_or(self.input).of(cached)
                + self.cache_write.unwrap_or(self.input).of(written)
                + self.output.of(usage.completion_tokens - reasoning)
                + self.reasoning.unwrap_or(self.output).of(reasoning),
        )
    }

    /// Returns what so many tokens of a prompt cost that no cache has.
    #[must_use]
    pub fn input_cost(&self, tokens: u64) -> Cost {
        rounded(self.input.of(tokens))
    }
}

/// From trillionths to billionths of a dollar, to the nearest.
fn rounded(picos: u128) -> Cost {
    Cost { nanos: u64::try_from((picos + 500) / 1_000).unwrap_or(u64::MAX) }
}

/// What a configuration says of a price: what stands there goes before the table of known models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PriceChanges {
    /// Instead of [`Price::input`].
    pub input: Option<Rate>,
    /// Instead of [`Price::cached`].
    pub cached: Option<Rate>,
    /// Instead of [`Price::cache_write`].
    pub cache_write: Option<Rate>,
    /// Instead of [`Price::output`].
    pub output: Option<Rate>,
    /// Instead of [`Price::reasoning`].
    pub reasoning: Option<Rate>,
}

impl PriceChanges {
    /// Returns the price in force, on top of what is known; `None` while the price of either side is not known.
    ///
    /// A part of a side whose price was changed costs as its side does, unless the configuration says what it costs: the
    /// table's discount belongs to the table's price.
    #[must_use]
    pub fn over(&self, known: Option<Price>) -> Option<Price> {
        let side = |own: Option<Rate>, part: Option<Rate>, known: Option<Rate>| {
            part.or_else(|| known.filter(|_| own.is_none()))
        };
        Some(Price {
            input: self.input.or_else(|| known.map(|k| k.input))?,
            cached: side(self.input, self.cached, known.and_then(|k| k.cached)),
            cache_write: side(self.input, self.cache_write, known.and_then(|k| k.cache_write)),
            output: self.output.or_else(|| known.map(|k| k.output))?,
            reasoning: side(self.output, self.reasoning, known.and_then(|k| k.reasoning)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(dollars: f64) -> Rate {
        Rate::per_million(dollars).unwrap()
    }

    fn price() -> Price {
        Price { input: rate(1.25), cached: Some(rate(0.125)), output: rate(10.0), ..Price::default() }
    }

    fn usage(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64, reasoning_tokens: u64) -> Usage {
        Usage { prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, ..Usage::default() }
    }

    #[test]
    fn an_exchange_costs_the_sum_of_its_parts() {
        // 600 × 1.25 + 400 × 0.125 + 50 × 10 millionths of a dollar.
        assert_eq!(price().cost(&usage(1_000, 400, 50, 20)), Cost::from_micros(750 + 50 + 500));
        let apart = Price { reasoning: Some(rate(2.0)), ..price() };
        assert_eq!(apart.cost(&usage(1_000, 400, 50, 20)), Cost::from_micros(750 + 50 + 300 + 40));
        let writing = Price { cache_write: Some(rate(1.5625)), ..price() };
        let written = Usage { cache_write_tokens: 400, ..usage(1_000, 400, 0, 0) };
        assert_eq!(writing.cost(&written), Cost::from_micros(250 + 50 + 625));
    }

    #[test]
    fn a_single_cheap_token_is_not_free() {
        let cheap = Price { input: rate(0.02), ..Price::default() };
        assert_eq!(cheap.cost(&usage(1, 0, 0, 0)), Cost::from_nanos(20));
        assert_eq!(cheap.cost(&usage(1_000_000, 0, 0, 0)).to_string(), "0.020000");
    }

    /// Some servers report more cached tokens than tokens.
    #[test]
    fn a_part_is_never_more_than_its_whole() {
        assert_eq!(price().cost(&usage(100, 5_000, 10, 9_000)), price().cost(&usage(100, 100, 10, 10)));
        assert!(price().cost(&usage(u64::MAX, 0, u64::MAX, 0)).nanos > 0);
    }

    #[test]
    fn an_amount_is_told_in_dollars() {
        assert_eq!(Cost::from_nanos(1_234_567_499).to_string(), "1.234567");
        assert_eq!(Cost::from_nanos(500).micros(), 1);
        assert_eq!(Cost::from_nanos(499).micros(), 0);
        assert_eq!(format!("{:>10}", Cost::default()), "  0.000000");
    }

    #[test]
    fn a_changed_price_does_not_keep_the_discount_of_another() {
        let known = Price { reasoning: Some(rate(9.0)), ..price() };
        let lower = PriceChanges { input: Some(rate(1.0)), ..PriceChanges::default() };
        let price = lower.over(Some(known)).unwrap();
        assert_eq!((price.input, price.cached), (rate(1.0), None));
        assert_eq!((price.output, price.reasoning), (known.output, known.reasoning));
        assert_eq!(PriceChanges::default().over(Some(known)), Some(known));
    }

    #[test]
    fn half_a_price_is_no_price() {
        let half = PriceChanges { input: Some(rate(1.0)), ..PriceChanges::default() };
        assert_eq!(half.over(None), None);
        let whole = PriceChanges { output: Some(rate(0.0)), ..half };
        assert_eq!(whole.over(None).map(|p| p.input), Some(rate(1.0)));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for dollars in [-0.1, f64::NAN, f64::INFINITY, 1e9] {
            assert_eq!(Rate::per_million(dollars), Err(RateError), "{dollars}");
        }
    }

    proptest! {
        #[test]
        fn more_tokens_never_cost_less(a in 0..1_000_000_u64, b in 0..1_000_000_u64, more in 0..1_000_u64) {
            prop_assert!(price().cost(&usage(a, 0, b, 0)) <= price().cost(&usage(a + more, 0, b + more, 0)));
        }

        #[test]
        fn what_a_cache_gives_never_costs_more(input in 0..1_000_000_u64, cached in 0..1_000_000_u64) {
            prop_assert!(price().cost(&usage(input, cached, 0, 0)) <= price().input_cost(input));
        }
    }
}
