//! Limits: requests, tokens and money, of keys, people, tenants and models.
//!
//! A request reserves what it may need before the work (all of it, of all whose limits it touches, or nothing), learns
//! better on its way, and settles what it used in the end. Minutes are counted by the monotone clock and held in this
//! process alone, or by all replicas together through Redis (`across`); days and months by the calendar in UTC, in whole tokens and billionths of a dollar, and written to the
//! store every second: kill -9 forgets what was settled in the last second, and counts what was running as it was
//! reserved. Processes over one store learn of each other's use after two seconds: one until it is written, one until it is read.
//!
//! Start with [`LimitTable`]: who has which account. `meter` is what one account uses, `hold` what one request holds.
//! Nothing here knows how tokens are counted or what a model costs; it is told.

mod accounts;
mod across;
mod books;
mod bucket;
mod hold;
mod keep;
mod ledger;
mod meter;
mod period;
mod refusal;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use foldhash::HashMap as FastMap;

pub use accounts::Accounts;
pub use hold::{Need, Running, Spent, Taken};
pub use keep::keep_budgets;
pub use standing::Standing;

use accounts::Account;
use books::Books;
use hold::Across;
use meter::{Meter, When};
use period::Period;
use refusal::{no_books, no_place};

use crate::base::{GatewayError, Time};
use crate::exchange::{Limits, Principal};
use crate::shared::{Figure, Shared};
use crate::store::BudgetStore;
use crate::telemetry::{Label, LimitOf, Metrics};

/// Accounts of people and tenants that are held; one is some 400 bytes. Those of keys and models always have a place:
/// there are only as many as the operator made.
const MAX_ACCOUNTS: usize = 200_000;
/// How often it is looked, at most, whether the full table has a place again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const SHARDS: usize = 16;
/// A wall clock that jumps back by up to so much is not followed: a budget that was used up stays so. What is corrected by
/// more is, with the counts that the store has of that day.
const MAX_JUMP_BACK_MILLIS: i64 = 2 * 24 * 3_600 * 1_000;
/// While there is room for so many times what a request can need at most, nobody counts what it needs exactly.
const AMPLE: u64 = 8;

/// The limits that stand beside those of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules {
    /// Of tenants, by name.
    pub tenants: HashMap<String, Limits>,
    /// Of every other tenant.
    pub each_tenant: Limits,
    /// Of every person whose key says nothing of its people.
    pub each_subject: Limits,
    /// Of models, by name; whoever asks.
    pub models: HashMap<String, Limits>,
    /// Other names of models, and the name whose limits hold for them.
    pub aliases: HashMap<String, String>,
}

impl LimitRules {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let each = self.tenants.values().chain(self.models.values()).chain([&self.each_tenant, &self.each_subject]);
        each.into_iter().all(Limits::is_empty)
    }

    /// Whether money is limited for a key of `tenant` with these limits of its own and of its people.
    #[must_use]
    pub fn limit_money(&self, tenant: &str, own: &Limits, each_subject: &Limits) -> bool {
        [own, self.of_person(each_subject), self.of_tenant(tenant)].into_iter().any(Limits::count_money)
    }

    /// The limits of a person, where this is what the key says of its people.
    fn of_person<'a>(&'a self, each_subject: &'a Limits) -> &'a Limits {
        if each_subject.is_empty() { &self.each_subject } else { each_subject }
    }

    fn of_tenant(&self, name: &str) -> &Limits {
        self.tenants.get(name).unwrap_or(&self.each_tenant)
    }
}

/// Who asks for what, and when.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Whose key it is.
    pub principal: &'a Principal,
    /// The person, if there is one.
    pub subject: Option<&'a str>,
    /// The model that is asked for; `None` where none is known.
    pub model: Option<&'a str>,
    /// On the monotone clock.
    pub now: Instant,
    /// On the wall clock.
    pub at: Time,
}

type Shard = RwLock<FastMap<u128, Arc<Meter>>>;

/// Everyone's account, and the limits of one configuration.
pub struct LimitTable {
    rules: LimitRules,
    has_rules: bool,
    held: Arc<Held>,
}

/// What was used; the same under every configuration.
struct Held {
    /// Accounts are known by a salted hash: no name of a person or a key is in the store.
    salt: [u8; 32],
    shards: [Shard; SHARDS],
    n_accounts: AtomicUsize,
    max_accounts: usize,
    looked_at: AtomicU64,
    started: Instant,
    /// The latest moment that the wall clock has shown.
    latest: AtomicI64,
    books: Arc<Books>,
    /// `None`: what was used of days and months is forgotten with the process.
    store: Option<Arc<dyn BudgetStore>>,
    /// `None`: minutes are counted in this process alone.
    shared: Option<Arc<Shared>>,
}

impl fmt::Debug for LimitTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitTable").field("accounts", &self.len()).finish_non_exhaustive()
    }
}

impl LimitTable {
    /// Makes a table without accounts. They come up with the requests, and what was used of days and months comes from
    /// `store`.
    #[must_use]
    pub fn new(rules: LimitRules, salt: [u8; 32], store: Option<Arc<dyn BudgetStore>>, metrics: Arc<Metrics>) -> Self {
        Self {
            has_rules: !rules.is_empty(),
            rules,
            held: Arc::new(Held {
                salt,
                shards: std::array::from_fn(|_| Shard::default()),
                n_accounts: AtomicUsize::new(0),
                max_accounts: MAX_ACCOUNTS,
                looked_at: AtomicU64::new(0),
                started: Instant::now(),
                latest: AtomicI64::new(i64::MIN),
                books: Arc::new(Books::new(metrics)),
                store,
                shared: None,
            }),
        }
    }

    /// The same table, whose minutes all replicas share. For a table that nobody uses yet.
    #[must_use]
    pub fn shared_by(mut self, shared: Option<Arc<Shared>>) -> Self {
        let held = Arc::get_mut(&mut self.held).expect("nobody uses it yet");
        held.shared = shared;
        self
    }

    /// The same accounts under other limits: what was used counts against these from now on. Requests that run keep to those that
    /// they began under.
    #[must_use]
    pub fn under(&self, rules: LimitRules) -> Self {
        Self { has_rules: !rules.is_empty(), rules, held: Arc::clone(&self.held) }
    }

    /// Returns the accounts that a request touches; `None` when nothing limits it, which costs nothing.
    ///
    /// # Errors
    /// 503 when what was used of a day or a month cannot be read, or could not be written for a minute; and for people and tenants
    /// who are new while the table is full.
    pub async fn accounts(&self, asking: &Asking<'_>) -> Result<Option<Accounts>, GatewayError> {
        let Asking { principal, subject, model, now, at } = *asking;
        if !self.has_rules && principal.limits.is_empty() && principal.each_subject.is_empty() {
            return Ok(None);
        }
        let mut accounts = Accounts::new(When::new(now, self.wall(at)));
        let tenant = &*principal.tenant;
        let mut add = |of, limits: &Limits, parts: [&[u8]; 2]| {
            if !limits.is_empty() {
                let meter = self.meter(of, parts, now)?;
                accounts.add(Account { of, limits: *limits, meter });
            }
            Ok(())
        };
        add(LimitOf::Key, &principal.limits, [&principal.key.to_be_bytes(), b""])?;
        if let Some(subject) = subject {
            let limits = self.rules.of_person(&principal.each_subject);
            add(LimitOf::Subject, limits, [tenant.as_bytes(), subject.as_bytes()])?;
        }
        add(LimitOf::Tenant, self.rules.of_tenant(tenant), [tenant.as_bytes(), b""])?;
        let model = model.map(|model| self.rules.aliases.get(model).map_or(model, String::as_str));
        if let Some((model, limits)) = model.and_then(|model| self.rules.models.get_key_value(model)) {
            add(LimitOf::Model, limits, [model.as_bytes(), b""])?;
        }
        if accounts.is_empty() {
            return Ok(None);
        }
        self.read_budgets(&accounts).await?;
        Ok(Some(accounts))
    }

    /// Takes what a request can need at most, where there is so much room that nobody needs to count exactly; `None` where it
    /// has to be counted.
    ///
    /// # Errors
    /// 429 when there is not even room for `least`.
    pub fn take_if_ample(&self, accounts: &Accounts, least: &Need, most: &Need) -> Result<Option<Taken>, GatewayError> {
        self.take_here_if_ample(accounts, least, most, Across::default())
    }

    /// The same, of what this process knows, for a request that holds something elsewhere.
    fn take_here_if_ample(
        &self,
        accounts: &Accounts,
        least: &Need,
        most: &Need,
        across: Across,
    ) -> Result<Option<Taken>, GatewayError> {
        let mut locked = accounts.lock();
        locked.go_alone();
        if locked.shortage(most.times(AMPLE).used().at_least_one()).is_none() {
            return Ok(Some(self.take_locked(accounts, locked, most, across, &[])));
        }
        match locked.shortage(least.used().at_least_one()) {
            Some((of, shortage)) => Err(self.held.books.refuse(of, &shortage, &locked.standing())),
            None => Ok(None),
        }
    }

    /// Takes what a request needs of which only that it is one is known.
    ///
    /// # Errors
    /// As [`accounts`](Self::accounts) and [`take`](Self::take).
    pub async fn take_request(&self, asking: &Asking<'_>) -> Result<Taken, GatewayError> {
        match self.accounts(asking).await? {
            Some(accounts) => self.take_of_all(&accounts, &Need::default()).await,
            None => Ok(Taken::default()),
        }
    }

    /// Takes what a request needs: all of it, of all accounts, or nothing.
    ///
    /// # Errors
    /// 429 that says which limit it is, whose, and when to come again.
    pub fn take(&self, accounts: &Accounts, need: &Need) -> Result<Taken, GatewayError> {
        self.take_here(accounts, need, Across::default())
    }

    fn take_here(&self, accounts: &Accounts, need: &Need, across: Across) -> Result<Taken, GatewayError> {
        let mut locked = accounts.lock();
        locked.go_alone();
        match locked.shortage(need.used().at_least_one()) {
            Some((of, shortage)) => Err(self.held.books.refuse(of, &shortage, &locked.standing())),
            None => Ok(self.take_locked(accounts, locked, need, across, &[])),
        }
    }

    fn take_locked(
        &self,
        accounts: &Accounts,
        mut locked: accounts::Locked<'_>,
        need: &Need,
        across: Across,
        figures: &[Figure],
    ) -> Taken {
        let shares = locked.take(need.used());
        locked.hear(figures);
        let standing = locked.standing();
        let listed = locked.list();
        drop(locked);
        self.held.books.list(listed);
        if need.price.is_none() && accounts.count_money() {
            self.held.books.metrics.limit_unpriced.inc();
        }
        Taken::new(accounts.clone(), Arc::clone(&self.held.books), (*need, shares), standing, across)
    }

    /// How many accounts are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.n_accounts.load(Ordering::Relaxed)
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many requests run in all accounts together: one counts in each that it touches.
    #[must_use]
    pub fn running(&self) -> u64 {
        let running = |shard: &Shard| {
            let shard = shard.read().unwrap_or_else(PoisonError::into_inner);
            shard.values().map(|meter| meter.lock().running).sum::<u64>()
        };
        self.held.shards.iter().map(running).sum()
    }

    /// Reads what was used of the days and months that are not known, or were known last a while ago: other processes use them too.
    async fn read_budgets(&self, accounts: &Accounts) -> Result<(), GatewayError> {
        let when = accounts.when;
        let mut asked: Vec<(&Arc<Meter>, Period)> = Vec::new();
        for account in accounts.iter().filter(|account| account.limits.last()) {
            if self.held.books.are_broken() {
                return Err(no_books());
            }
            let state = account.meter.lock();
            let wanted = [(account.limits.of_day(), when.day), (account.limits.of_month(), when.month)];
            let stale = wanted
                .into_iter()
                .filter(|&(is_limited, period)| is_limited && !state.is_fresh(&account.limits, period, &when));
            asked.extend(stale.map(|(_, period)| (&account.meter, period)));
        }
        if asked.is_empty() {
            return Ok(());
        }
        let of: Vec<_> = asked.iter().map(|(meter, period)| (meter.name.clone(), period.name())).collect();
        let totals = match &self.held.store {
            Some(store) => store.budget_totals(&of).await,
            None => Ok(vec![Default::default(); of.len()]),
        };
        match totals {
            Ok(totals) => {
                for ((meter, period), total) in asked.into_iter().zip(totals) {
                    meter.lock().ledger.learn(period, total, when.now);
                }
                Ok(())
            }
            // What this process knows holds until writing has failed for too long.
            Err(_) if asked.iter().all(|(meter, period)| meter.lock().ledger.knows(*period)) => Ok(()),
            Err(error) => Err(no_books().with_source(error)),
        }
    }

    /// The account's meter, made where there is none.
    fn meter(&self, of: LimitOf, parts: [&[u8]; 2], now: Instant) -> Result<Arc<Meter>, GatewayError> {
        let id = self.id(of, parts);
        let shard = &self.held.shards[id as usize % SHARDS];
        if let Some(meter) = shard.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(Arc::clone(meter));
        }
        let always = matches!(of, LimitOf::Key | LimitOf::Model);
        if !always && self.len() >= self.held.max_accounts && !self.makes_room(now) {
            return Err(no_place(of));
        }
        let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
        let meter = shard.entry(id).or_insert_with(|| {
            self.held.n_accounts.fetch_add(1, Ordering::Relaxed);
            Arc::new(Meter::new(format!("{}:{id:032x}", of.text()), now))
        });
        Ok(Arc::clone(meter))
    }

    fn id(&self, of: LimitOf, parts: [&[u8]; 2]) -> u128 {
        let mut text = Vec::with_capacity(64);
        text.push(of as u8);
        for part in parts {
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part);
        }
        let hash = blake3::keyed_hash(&self.held.salt, &text);
        let half: [u8; 16] = hash.as_bytes()[..16].try_into().expect("half of 32 bytes");
        u128::from_le_bytes(half)
    }

    /// Drops idle accounts, unless that was done a moment ago; whether there is room now.
    fn makes_room(&self, now: Instant) -> bool {
        let millis = u64::try_from(self.held.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let looked = self.held.looked_at.load(Ordering::Relaxed);
        let due = looked == 0 || millis.saturating_sub(looked) >= LOOK_AGAIN.as_millis() as u64;
        // Of all that find the table full, one looks.
        if due
            && self.held.looked_at.compare_exchange(looked, millis.max(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.drop_idle(now, Duration::ZERO);
        }
        self.len() < self.held.max_accounts
    }

    /// Drops the accounts that nobody has asked for in `untouched`, and of which nothing would be lost.
    fn drop_idle(&self, now: Instant, untouched: Duration) {
        for shard in &self.held.shards {
            let mut shard = shard.write().unwrap_or_else(PoisonError::into_inner);
            let before = shard.len();
            shard.retain(|_, meter| {
                // Whoever holds it may be about to take something.
                let is_held = Arc::strong_count(meter) > 1;
                let state = meter.lock();
                is_held || state.untouched(now) < untouched || !state.is_idle(now)
            });
            self.held.n_accounts.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
    }

    /// Drops what is known of days and months that are over.
    fn drop_past(&self, at: Time) {
        let wall = self.wall(at);
        for shard in &self.held.shards {
            for meter in shard.read().unwrap_or_else(PoisonError::into_inner).values() {
                let mut state = meter.lock();
                if state.running == 0 {
                    state.ledger.keep_only([Period::day(wall), Period::month(wall)]);
                }
            }
        }
    }

    /// The moment that counts: that of the clock, but for one that jumped back a little.
    fn wall(&self, at: Time) -> Time {
        let latest = self.held.latest.fetch_max(at.0, Ordering::Relaxed);
        if latest <= at.0 {
            return at;
        }
        if latest.saturating_sub(at.0) <= MAX_JUMP_BACK_MILLIS {
            return Time(latest);
        }
        self.held.latest.store(at.0, Ordering::Relaxed);
        at
    }
}
