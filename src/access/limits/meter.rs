//! What one account uses, and whether there is room for more.

use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::bucket::{Bucket, Share};
use super::ledger::{Ledger, Used};
use super::period::Period;
use crate::base::Time;
use crate::exchange::Limits;
use crate::shared::Figure;
use crate::telemetry::Limit;

/// How long a client is told to wait for a free slot, which nobody can foresee.
const SLOT_RETRY: Duration = Duration::from_secs(1);

/// For so long it is taken to be known what the store says of an account that is near a limit: then other processes may have written.
const NEAR: Duration = Duration::from_secs(1);
/// The same of one that has used less than half of each. It is written as often, too: most accounts are, and each row costs.
const CALM: Duration = Duration::from_secs(10);
/// What writing takes at most, usually: it tells what others have used, so that nobody need ask.
const WRITING: Duration = Duration::from_secs(3);

/// What one account uses.
#[derive(Debug)]
pub(super) struct Meter {
    /// Its name in the store.
    pub(super) name: String,
    state: Mutex<State>,
}

/// What one account uses now.
#[derive(Debug)]
pub(super) struct State {
    pub(super) running: u64,
    /// Requests of other processes that run, as was heard last; 0 where this process goes by itself.
    elsewhere: u64,
    /// When that was heard, by the clock of who said it, in milliseconds.
    heard: f64,
    requests: Bucket,
    tokens: Bucket,
    pub(super) ledger: Ledger,
    /// It is on the list of those to be written.
    pub(super) listed: bool,
    /// The limits that held last, and when.
    limits: Limits,
    touched: Instant,
}

/// The times of one request: the monotone clock for minutes, the wall clock for days and months.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) now: Instant,
    pub(super) wall: Time,
    pub(super) day: Period,
    pub(super) month: Period,
}

impl When {
    pub(super) fn new(now: Instant, wall: Time) -> Self {
        Self { now, wall, day: Period::day(wall), month: Period::month(wall) }
    }
}

/// What a limit lacks for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shortage {
    pub(super) limit: Limit,
    /// How much the limit is, how much of it is left, and how much the request needs.
    pub(super) max: u64,
    pub(super) left: u64,
    pub(super) needed: u64,
    pub(super) wait: Wait,
}

/// When there will be enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// After so long.
    For(Duration),
    /// When this period of the calendar is over, after so long.
    Until(Duration, Time),
    /// Never: the request alone needs more than the limit is.
    Never,
}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By how long it takes.
impl Ord for Wait {
    fn cmp(&self, other: &Self) -> Ordering {
        let time = |wait: &Self| wait.time().unwrap_or(Duration::MAX);
        time(self).cmp(&time(other))
    }
}

impl Wait {
    /// How long it takes; `None` = for ever.
    pub(super) fn time(self) -> Option<Duration> {
        match self {
            Self::For(time) | Self::Until(time, _) => Some(time),
            Self::Never => None,
        }
    }
}

impl Meter {
    pub(super) fn new(name: String, now: Instant) -> Self {
        let state = State {
            running: 0,
            elsewhere: 0,
            heard: f64::MIN,
            requests: Bucket::default(),
            tokens: Bucket::default(),
            ledger: Ledger::default(),
            listed: false,
            limits: Limits::default(),
            touched: now,
        };
        Self { name, state: Mutex::new(state) }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets drain what has drained; before anything is asked of it.
    pub(super) fn at(&mut self, limits: &Limits, now: Instant) {
        if let Some(per_minute) = limits.requests_per_minute {
            self.requests.drain(per_minute, now);
        }
        if let Some(per_minute) = limits.tokens_per_minute {
            self.tokens.drain(per_minute, now);
        }
        self.limits = *limits;
        self.touched = self.touched.max(now);
    }

    /// Takes over what all processes together use of the minute.
    pub(super) fn hear(&mut self, figure: &Figure) {
        // Of two answers the later one may come first.
        if figure.at < self.heard {
            return;
        }
        self.heard = figure.at;
        self.requests.set_used(figure.requests);
        self.tokens.set_used(figure.tokens);
        self.elsewhere = figure.running.saturating_sub(self.running);
    }

    /// Goes by itself: of what runs elsewhere nobody knows.
    pub(super) fn go_alone(&mut self) {
        self.elsewhere = 0;
    }

    /// Returns what there is not enough of for one request; of several the one that takes longest.
    pub(super) fn shortage(&self, limits: &Limits, need: Used, when: &When) -> Option<Shortage> {
        let Used { tokens, nanos } = need;
        let mut worst: Option<Shortage> = None;
        let mut short = |limit, max, left, needed, wait| {
            if worst.is_none_or(|worst| wait > worst.wait) {
                worst = Some(Shortage { limit, max, left, needed, wait });
            }
        };
        if let Some(max) = limits.max_concurrency
            && self.running.saturating_add(self.elsewhere) >= max
        {
            short(Limit::MaxConcurrency, max, 0, 1, Wait::For(SLOT_RETRY));
        }
        if let Some(max) = limits.requests_per_minute
            && !self.requests.has_room(max, 1)
        {
            short(Limit::RequestsPerMinute, max, self.requests.left(max), 1, Wait::For(self.requests.wait(max, 1)));
        }
        if let Some(max) = limits.tokens_per_minute
            && !self.tokens.has_room(max, tokens)
        {
            let wait = if tokens > max { Wait::Never } else { Wait::For(self.tokens.wait(max, tokens)) };
            short(Limit::TokensPerMinute, max, self.tokens.left(max), tokens, wait);
        }
        for (limit, period, needed) in [
            (Limit::TokensPerDay, when.day, tokens),
            (Limit::TokensPerMonth, when.month, tokens),
            (Limit::UsdPerDay, when.day, nanos),
            (Limit::UsdPerMonth, when.month, nanos),
        ] {
            let Some(max) = limits.get(limit) else { continue };
            let used = self.ledger.used(period);
            let used = if matches!(limit, Limit::UsdPerDay | Limit::UsdPerMonth) { used.nanos } else { used.tokens };
            let left = max.saturating_sub(used);
            if left < needed {
                let end = period.end();
                let time = Duration::from_millis(end.since(when.wall).unsigned_abs().max(1));
                let wait = if needed > max { Wait::Never } else { Wait::Until(time, end) };
                short(limit, max, left, needed, wait);
            }
        }
        worst
    }

    /// Whether less than half of each limit of the day and the month is used: then it matters little for a while what others use of it.
    pub(super) fn is_calm(&self, limits: &Limits, day: Period, month: Period) -> bool {
        let (day, month) = (self.ledger.used(day), self.ledger.used(month));
        let calm = |max: Option<u64>, used: u64| max.is_none_or(|max| used < max / 2);
        calm(limits.tokens_per_day, day.tokens)
            && calm(limits.tokens_per_month, month.tokens)
            && calm(limits.usd_per_day, day.nanos)
            && calm(limits.usd_per_month, month.nanos)
    }

    /// Whether what came to it is to be written now, or can wait for a while.
    pub(super) fn is_due(&self, when: &When) -> bool {
        !self.is_calm(&self.limits, when.day, when.month) || !self.ledger.heard(when.now, CALM)
    }

    /// Whether it is known what all processes used in a period: near a limit until a second ago.
    pub(super) fn is_fresh(&self, limits: &Limits, period: Period, when: &When) -> bool {
        let within = if self.is_calm(limits, when.day, when.month) { CALM + WRITING } else { NEAR };
        self.ledger.is_fresh(period, when.now, within)
    }

    /// The same for a request that holds `before` and is to hold `after`; nothing is changed by it.
    pub(super) fn shortage_of_change(
        &mut self,
        mut share: Share,
        before: Used,
        after: Used,
        when: &When,
    ) -> Option<Shortage> {
        // It has its slot and its request.
        let limits = Limits { max_concurrency: None, requests_per_minute: None, ..self.limits };
        let tokens = self.tokens;
        self.change(&mut share, before, Used::default(), when);
        let shortage = self.shortage(&limits, after, when);
        self.tokens = tokens;
        self.change_ledger(Used::default(), before, when);
        shortage
    }

    /// Takes what one request needs; there must be room.
    pub(super) fn take(&mut self, need: Used, when: &When) -> Share {
        self.running += 1;
        // What is not limited is not counted: nothing would ever drain it.
        if self.limits.requests_per_minute.is_some() {
            self.requests.add(1);
        }
        self.change_ledger(Used::default(), need, when);
        if self.limits.tokens_per_minute.is_some() { self.tokens.add(need.tokens) } else { Share::default() }
    }

    /// Replaces what a request holds.
    pub(super) fn change(&mut self, share: &mut Share, before: Used, after: Used, when: &When) {
        if self.limits.tokens_per_minute.is_some() {
            self.tokens.correct(share, before.tokens, after.tokens);
        }
        self.change_ledger(before, after, when);
    }

    fn change_ledger(&mut self, before: Used, after: Used, when: &When) {
        if self.limits.of_day() {
            self.ledger.change(when.day, before, after);
        }
        if self.limits.of_month() {
            self.ledger.change(when.month, before, after);
        }
    }

    /// How many tokens are left of the tightest limit of tokens: what it is, what is left, and after how long all of it
    /// is there again.
    pub(super) fn tokens_left(&self, limits: &Limits, when: &When) -> Option<(u64, u64, Duration)> {
        let minute = limits.tokens_per_minute.map(|max| (max, self.tokens.left(max), self.tokens.reset(max)));
        let period = |max: Option<u64>, period: Period| {
            let used = self.ledger.used(period).tokens;
            let reset = Duration::from_millis(period.end().since(when.wall).unsigned_abs());
            max.map(|max| (max, max.saturating_sub(used), reset))
        };
        let all = [minute, period(limits.tokens_per_day, when.day), period(limits.tokens_per_month, when.month)];
        all.into_iter().flatten().min_by_key(|(_, left, _)| *left)
    }

    /// The same of requests.
    pub(super) fn requests_left(&self, limits: &Limits) -> Option<(u64, u64, Duration)> {
        limits.requests_per_minute.map(|max| (max, self.requests.left(max), self.requests.reset(max)))
    }

    /// Whether nothing would be lost with it: nothing runs, the minute is over, and the store knows the rest.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.running == 0
            && !self.listed
            && self.requests.is_empty(self.limits.requests_per_minute, now)
            && self.tokens.is_empty(self.limits.tokens_per_minute, now)
            && self.ledger.is_written()
    }

    /// For how long nobody has asked.
    pub(super) fn untouched(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.touched)
    }
}
