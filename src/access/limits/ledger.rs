//! What was used of days and months: counted in whole tokens and billionths of a dollar, kept in the store.

use std::time::{Duration, Instant};

use super::period::Period;
use crate::base::{MAX_FIGURE, MAX_SUM};
use crate::store::BudgetTotal;

/// What one account has used, by day and month. Only periods that were read from the store are in it, and of those that
/// are over only what is not written yet.
#[derive(Debug, Default)]
pub(super) struct Ledger(Vec<Entry>);

/// What was used in one period.
#[derive(Debug)]
struct Entry {
    period: Period,
    tokens: Amount,
    nanos: Amount,
    /// When the store said it last.
    at: Instant,
}

/// A sum, as far as it is in the store and beyond.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    /// As the store said last: what other processes wrote is in it.
    stored: u64,
    /// What came to it here and is not in the store yet; what running requests hold is in it.
    unwritten: i64,
}

/// What came to a period since it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unwritten {
    pub(super) period: Period,
    pub(super) tokens: i64,
    pub(super) nanos: i64,
}

/// What was used in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) tokens: u64,
    pub(super) nanos: u64,
}

impl Used {
    /// Of so many tokens and billionths of a dollar; what is too much to be true counts as [`MAX_FIGURE`].
    pub(super) fn new(tokens: u64, nanos: u64) -> Self {
        Self { tokens: tokens.min(MAX_FIGURE), nanos: nanos.min(MAX_FIGURE) }
    }

    /// The same for a request that is to begin: where nothing is left nothing begins, also what needs nothing that we
    /// know of.
    pub(super) fn at_least_one(self) -> Self {
        Self { tokens: self.tokens.max(1), nanos: self.nanos.max(1) }
    }
}

impl Amount {
    fn used(self) -> u64 {
        self.stored.saturating_add_signed(self.unwritten)
    }

    fn change(&mut self, before: u64, after: u64) {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let change = signed(after).saturating_sub(signed(before));
        self.unwritten = self.unwritten.saturating_add(change).clamp(-MAX_SUM, MAX_SUM);
    }
}

impl Ledger {
    /// Whether it is known what was used in a period, by this process at least.
    pub(super) fn knows(&self, period: Period) -> bool {
        self.0.iter().any(|entry| entry.period == period)
    }

    /// Whether it is known what was used in a period by all processes, until less than `within` before `now`.
    pub(super) fn is_fresh(&self, period: Period, now: Instant, within: Duration) -> bool {
        self.0.iter().any(|entry| entry.period == period && now.saturating_duration_since(entry.at) < within)
    }

    /// Whether the store was heard of all that is not written less than `within` before `now`.
    pub(super) fn heard(&self, now: Instant, within: Duration) -> bool {
        self.unwritten().all(|unwritten| self.is_fresh(unwritten.period, now, within))
    }

    /// Takes in what the store says of a period, which was asked at `asked`. What was heard of it since then is newer.
    pub(super) fn learn(&mut self, period: Period, total: BudgetTotal, asked: Instant) {
        match self.0.iter_mut().find(|entry| entry.period == period) {
            Some(entry) if entry.at > asked => {}
            Some(entry) => {
                (entry.tokens.stored, entry.nanos.stored, entry.at) = (total.tokens, total.nanos, asked);
            }
            None => {
                let stored = |stored| Amount { stored, unwritten: 0 };
                self.0.push(Entry { period, tokens: stored(total.tokens), nanos: stored(total.nanos), at: asked });
            }
        }
    }

    /// What was used in a period; nothing while it is not known.
    pub(super) fn used(&self, period: Period) -> Used {
        let entry = self.0.iter().find(|entry| entry.period == period);
        entry.map_or_else(Used::default, |entry| Used { tokens: entry.tokens.used(), nanos: entry.nanos.used() })
    }

    /// Replaces what a request held in a period. It stays in that period, however long it takes.
    pub(super) fn change(&mut self, period: Period, before: Used, after: Used) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.period == period) {
            entry.tokens.change(before.tokens, after.tokens);
            entry.nanos.change(before.nanos, after.nanos);
        }
    }

    /// What is to be written.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = Unwritten> {
        let all = self.0.iter().map(|entry| Unwritten {
            period: entry.period,
            tokens: entry.tokens.unwritten,
            nanos: entry.nanos.unwritten,
        });
        all.filter(|unwritten| unwritten.tokens != 0 || unwritten.nanos != 0)
    }

    /// Notes that something was written, and what the store says now.
    pub(super) fn written(&mut self, written: &Unwritten, total: BudgetTotal, now: Instant) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.period == written.period) {
            entry.tokens = Amount { stored: total.tokens, unwritten: entry.tokens.unwritten - written.tokens };
            entry.nanos = Amount { stored: total.nanos, unwritten: entry.nanos.unwritten - written.nanos };
            entry.at = now;
        }
    }

    /// Drops what was written of all periods but these.
    pub(super) fn keep_only(&mut self, periods: [Period; 2]) {
        self.0.retain(|entry| {
            periods.contains(&entry.period) || entry.tokens.unwritten != 0 || entry.nanos.unwritten != 0
        });
    }

    /// Whether the store knows all of it.
    pub(super) fn is_written(&self) -> bool {
        self.unwritten().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Period = Period::Day(20_000);

    fn used(tokens: u64) -> Used {
        Used { tokens, nanos: tokens * 10 }
    }

    fn total(tokens: u64) -> BudgetTotal {
        BudgetTotal { tokens, nanos: tokens * 10 }
    }

    #[test]
    fn what_the_store_knew_counts_and_is_not_written_again() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        ledger.learn(DAY, total(100), now);
        ledger.change(DAY, used(0), used(7));
        // Another request found the period unknown at the same time.
        ledger.learn(DAY, total(100), now);
        assert_eq!(ledger.used(DAY), used(107));
        let unwritten: Vec<_> = ledger.unwritten().collect();
        assert_eq!(unwritten, [Unwritten { period: DAY, tokens: 7, nanos: 70 }]);
    }

    #[test]
    fn what_others_wrote_comes_back_with_a_write_and_what_came_meanwhile_stays_unwritten() {
        let mut ledger = Ledger::default();
        ledger.learn(DAY, total(0), Instant::now());
        ledger.change(DAY, used(0), used(5));
        let written = ledger.unwritten().next().unwrap();
        ledger.change(DAY, used(0), used(2));
        ledger.written(&written, total(5 + 50), Instant::now());
        assert_eq!(ledger.used(DAY), used(57));
        assert_eq!(ledger.unwritten().next(), Some(Unwritten { period: DAY, tokens: 2, nanos: 20 }));
    }

    #[test]
    fn what_others_wrote_is_looked_up_after_a_while_and_never_replaces_what_is_newer() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let later = |millis| now + Duration::from_millis(millis);
        ledger.learn(DAY, total(0), now);
        ledger.change(DAY, used(0), used(5));
        let second = Duration::from_secs(1);
        assert!(ledger.is_fresh(DAY, later(999), second) && !ledger.is_fresh(DAY, later(1_000), second));
        assert!(ledger.heard(later(999), second) && !ledger.heard(later(1_000), second));
        ledger.learn(DAY, total(50), later(1_000));
        assert_eq!(ledger.used(DAY), used(55));
        assert!(ledger.is_fresh(DAY, later(1_500), second));
        // What was asked before this was written came in after it.
        let written = ledger.unwritten().next().unwrap();
        ledger.written(&written, total(55), later(2_010));
        ledger.learn(DAY, total(50), later(2_000));
        assert_eq!(ledger.used(DAY), used(55));
    }

    #[test]
    fn a_period_that_is_over_is_kept_until_it_is_written() {
        let mut ledger = Ledger::default();
        let next = Period::Day(20_001);
        ledger.learn(DAY, total(0), Instant::now());
        ledger.learn(next, total(0), Instant::now());
        ledger.change(DAY, used(0), used(5));
        ledger.keep_only([next, Period::Month(1)]);
        assert!(ledger.knows(DAY));
        let written = ledger.unwritten().next().unwrap();
        ledger.written(&written, total(5), Instant::now());
        ledger.keep_only([next, Period::Month(1)]);
        assert!(!ledger.knows(DAY) && ledger.knows(next));
    }

    proptest! {
        /// However writes and changes interleave, the sum is that of what was settled.
        #[test]
        fn nothing_is_lost_or_counted_twice(steps in prop::collection::vec((0..1_000_u64, 0..1_000_u64, any::<bool>()), 0..60)) {
            let mut ledger = Ledger::default();
            ledger.learn(DAY, total(0), Instant::now());
            let (mut store, mut sum) = (0_i64, 0);
            for (estimate, actual, write) in steps {
                ledger.change(DAY, used(0), used(estimate));
                let unwritten = ledger.unwritten().next();
                if let Some(unwritten) = unwritten.filter(|_| write) {
                    store += unwritten.tokens;
                    ledger.written(&unwritten, total(u64::try_from(store).unwrap()), Instant::now());
                }
                ledger.change(DAY, used(estimate), used(actual));
                sum += actual;
                prop_assert_eq!(ledger.used(DAY), used(sum));
            }
            let rest = ledger.unwritten().next().map_or(0, |unwritten| unwritten.tokens);
            prop_assert_eq!(u64::try_from(store + rest).unwrap(), sum);
        }
    }
}
