//! The accounts of one request: its key's, its person's, its tenant's and its model's, as far as any of them has limits.

use std::sync::{Arc, MutexGuard};

use super::bucket::Share;
use super::ledger::Used;
use super::meter::{Meter, Shortage, State, When};
use super::standing::{Left, Standing};
use crate::exchange::Limits;
use crate::shared::{self, Figure};
use crate::telemetry::{Label, LimitOf};

/// How many accounts a request can have.
const N: usize = LimitOf::ALL.len();

/// What a request took of the minutes of its accounts.
pub(super) type Shares = [Share; N];

/// One account and the limits that hold for this request.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) of: LimitOf,
    pub(super) limits: Limits,
    pub(super) meter: Arc<Meter>,
}

/// The accounts of one request, at most one of each kind.
#[derive(Clone, Debug)]
pub struct Accounts {
    /// In the order of [`LimitOf`]: that in which they are locked, by all requests alike, so that none waits for another
    /// that waits for it.
    list: [Option<Account>; N],
    pub(super) when: When,
}

/// The locked accounts of one request: what is asked of them and done to them is one step.
pub(super) struct Locked<'a>(Vec<(&'a Account, MutexGuard<'a, State>)>, When);

impl Accounts {
    pub(super) fn new(when: When) -> Self {
        Self { list: [const { None }; N], when }
    }

    pub(super) fn add(&mut self, account: Account) {
        let place = account.of.index();
        self.list[place] = Some(account);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.list.iter().flatten()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether tokens count, as such or by what they cost.
    #[must_use]
    pub fn count_tokens(&self) -> bool {
        self.iter().any(|account| account.limits.count_tokens())
    }

    /// Whether money counts.
    #[must_use]
    pub fn count_money(&self) -> bool {
        self.iter().any(|account| account.limits.count_money())
    }

    /// Those of which replicas share what is used, in order.
    pub(super) fn shared(&self) -> Vec<shared::Account<'_>> {
        let shared = self.iter().filter(|account| account.limits.of_minute());
        let asked = shared.map(|account| shared::Account {
            name: &account.meter.name,
            requests: account.limits.requests_per_minute,
            tokens: account.limits.tokens_per_minute,
            slots: account.limits.max_concurrency,
        });
        asked.collect()
    }

    /// The smallest limit of tokens.
    #[must_use]
    pub fn fewest_tokens(&self) -> Option<u64> {
        self.iter().filter_map(|account| account.limits.fewest_tokens()).min()
    }

    /// Locks all of them and lets drain what has drained.
    pub(super) fn lock(&self) -> Locked<'_> {
        let mut locked: Vec<_> = Vec::with_capacity(N);
        for account in self.iter() {
            let mut state = account.meter.lock();
            state.at(&account.limits, self.when.now);
            locked.push((account, state));
        }
        Locked(locked, self.when)
    }
}

impl Locked<'_> {
    /// Returns what there is not enough of for a new request, and whose it is; of several what takes longest.
    pub(super) fn shortage(&self, need: Used) -> Option<(LimitOf, Shortage)> {
        self.worst(|account, state, when| state.shortage(&account.limits, need, when))
    }

    /// The same of days and months alone.
    pub(super) fn lasting_shortage(&self, need: Used) -> Option<(LimitOf, Shortage)> {
        self.worst(|account, state, when| state.shortage(&account.limits.lasting(), need, when))
    }

    /// Takes over what all processes together use of those that are [shared](Accounts::shared).
    pub(super) fn hear(&mut self, figures: &[Figure]) {
        let shared = self.0.iter_mut().filter(|(account, _)| account.limits.of_minute());
        shared.zip(figures).for_each(|((_, state), figure)| state.hear(figure));
    }

    /// Goes by what this process knows.
    pub(super) fn go_alone(&mut self) {
        self.0.iter_mut().for_each(|(_, state)| state.go_alone());
    }

    /// The same for a request that holds `before` and is to hold `after`.
    pub(super) fn shortage_of_change(
        &mut self,
        shares: &Shares,
        before: Used,
        after: Used,
    ) -> Option<(LimitOf, Shortage)> {
        let when = self.1;
        let shortages = self.0.iter_mut().map(|(account, state)| {
            (account.of, state.shortage_of_change(shares[account.of.index()], before, after, &when))
        });
        let found: Vec<_> = shortages.filter_map(|(of, shortage)| Some((of, shortage?))).collect();
        found.into_iter().max_by_key(|(_, shortage)| shortage.wait)
    }

    fn worst(&self, find: impl Fn(&Account, &State, &When) -> Option<Shortage>) -> Option<(LimitOf, Shortage)> {
        let all = self.0.iter().filter_map(|(account, state)| Some((account.of, find(account, state, &self.1)?)));
        all.max_by_key(|(_, shortage)| shortage.wait)
    }

    /// Takes what a new request needs; there must be room.
    pub(super) fn take(&mut self, need: Used) -> Shares {
        let mut shares = Shares::default();
        for (account, state) in &mut self.0 {
            shares[account.of.index()] = state.take(need, &self.1);
        }
        shares
    }

    /// Replaces what a request holds.
    pub(super) fn change(&mut self, shares: &mut Shares, before: Used, after: Used) {
        for (account, state) in &mut self.0 {
            state.change(&mut shares[account.of.index()], before, after, &self.1);
        }
    }

    /// What is left to all of them.
    pub(super) fn standing(&self) -> Standing {
        let mut standing = Standing::default();
        let left = |(limit, remaining, reset)| Left { limit, remaining, reset };
        for (account, state) in &self.0 {
            let requests = state.requests_left(&account.limits).map(left);
            standing.tighten(requests, state.tokens_left(&account.limits, &self.1).map(left));
        }
        standing
    }

    /// Marks those to be written, and returns those that were not yet.
    pub(super) fn list(&mut self) -> Vec<Arc<Meter>> {
        let mut new = Vec::new();
        for (account, state) in &mut self.0 {
            if account.limits.last() && !std::mem::replace(&mut state.listed, true) {
                new.push(Arc::clone(&account.meter));
            }
        }
        new
    }
}
