//! A key's limits, in this process: requests at a time, requests and tokens per minute.
//!
//! A limit is reserved before the work and settled after it: tokens by an estimate first, by what upstream counted in the end. What is
//! left refills evenly over the minute (a token bucket that holds one minute's worth).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::{ErrorKind, GatewayError};
use crate::exchange::{LimitRules, Principal};

/// How long a client is told to wait for a free slot, which nobody can foresee.
const SLOT_RETRY: Duration = Duration::from_secs(1);

/// The limits of every key that has any, by the key. As many as there are keys.
#[derive(Debug, Default)]
pub struct LimitTable(RwLock<HashMap<u128, Arc<Limits>>>);

impl LimitTable {
    /// Returns the limits of a key; `None` when it has none. Where its rules have changed it begins anew, but for the
    /// requests that run.
    #[must_use]
    pub fn of(&self, principal: &Principal) -> Option<Arc<Limits>> {
        if principal.limits.is_empty() {
            return None;
        }
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&principal.key).cloned();
        if let Some(limits) = known.filter(|limits| limits.rules == principal.limits) {
            return Some(limits);
        }
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let limits = table.entry(principal.key).or_insert_with(|| Arc::new(Limits::new(principal.limits)));
        if limits.rules != principal.limits {
            *limits = Arc::new(Limits::new(principal.limits));
        }
        Some(Arc::clone(limits))
    }
}

/// The limits of one key. `None` = no limit.
#[derive(Debug, Default)]
pub struct Limits {
    rules: LimitRules,
    slots: Option<Arc<Semaphore>>,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// What one request has taken; the slot is given back when this is dropped, and tokens that were never settled are too.
#[derive(Debug, Default)]
pub struct Taken {
    _slot: Option<OwnedSemaphorePermit>,
    limits: Option<Arc<Limits>>,
    tokens: u64,
}

impl Limits {
    /// Makes full limits of a key's rules.
    #[must_use]
    pub fn new(rules: LimitRules) -> Self {
        Self {
            rules,
            slots: rules.max_concurrency.map(|n| Arc::new(Semaphore::new(n as usize))),
            requests: rules.requests_per_minute.map(Bucket::new),
            tokens: rules.tokens_per_minute.map(Bucket::new),
        }
    }

    /// Whether a request's tokens count.
    #[must_use]
    pub fn counts_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// Takes what one request needs: all of it or nothing.
    ///
    /// # Errors
    /// 429 with the time after which it is worth trying again.
    pub fn take(self: &Arc<Self>, tokens: u64, now: Instant) -> Result<Taken, GatewayError> {
        let slot = match &self.slots {
            None => None,
            Some(slots) => Some(
                Arc::clone(slots)
                    .try_acquire_owned()
                    .map_err(|_| limited("this key's limit of requests at a time is reached", SLOT_RETRY))?,
            ),
        };
        if let Some(bucket) = &self.requests {
            bucket.take(1, now).map_err(|wait| limited("this key's limit of requests per minute is reached", wait))?;
        }
        if let Some(bucket) = &self.tokens
            && let Err(wait) = bucket.take(tokens, now)
        {
            if let Some(requests) = &self.requests {
                requests.give_back(1);
            }
            return Err(limited("this key's limit of tokens per minute is reached", wait));
        }
        Ok(Taken { _slot: slot, limits: Some(Arc::clone(self)), tokens })
    }
}

impl Taken {
    /// Replaces the estimate by what was really used.
    pub fn settle(&mut self, used: u64) {
        let estimated = std::mem::take(&mut self.tokens);
        if let Some(bucket) = self.limits.take().as_ref().and_then(|limits| limits.tokens.as_ref()) {
            bucket.correct(estimated, used);
        }
    }

    /// The request was served; how much it used is not known, so the estimate stands.
    pub fn keep_estimate(&mut self) {
        self.limits = None;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Nothing was served: nothing was used.
        self.settle(0);
    }
}

fn limited(public: &str, wait: Duration) -> GatewayError {
    GatewayError::new(ErrorKind::RateLimited, public).with_retry_after(wait)
}

/// A token bucket that holds one minute's worth.
#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    level: Mutex<Level>,
}

#[derive(Debug)]
struct Level {
    left: f64,
    at: Option<Instant>,
}

impl Bucket {
    fn new(per_minute: u32) -> Self {
        let per_minute = f64::from(per_minute);
        Self { per_minute, level: Mutex::new(Level { left: per_minute, at: None }) }
    }

    /// Takes `n`, or says how long it takes until there are as many. More than a whole bucket is taken from a full one: it would never fit else.
    fn take(&self, n: u64, now: Instant) -> Result<(), Duration> {
        let needed = (n as f64).min(self.per_minute);
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = level.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        level.left = (level.left + passed * self.per_minute / 60.0).min(self.per_minute);
        level.at = Some(level.at.map_or(now, |at| at.max(now)));
        if level.left >= needed {
            level.left -= n as f64;
            return Ok(());
        }
        Err(Duration::from_secs_f64((needed - level.left) * 60.0 / self.per_minute))
    }

    fn give_back(&self, n: u64) {
        self.correct(n, 0);
    }

    fn correct(&self, estimated: u64, used: u64) {
        let mut level = self.level.lock().unwrap_or_else(PoisonError::into_inner);
        level.left = (level.left + estimated as f64 - used as f64).min(self.per_minute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(slots: Option<u32>, requests: Option<u32>, tokens: Option<u32>) -> Arc<Limits> {
        let rules = LimitRules { max_concurrency: slots, requests_per_minute: requests, tokens_per_minute: tokens };
        Arc::new(Limits::new(rules))
    }

    #[test]
    fn a_slot_is_held_until_it_is_dropped() {
        let (limits, now) = (limits(Some(1), None, None), Instant::now());
        let taken = limits.take(0, now).unwrap();
        assert_eq!(limits.take(0, now).unwrap_err().kind, ErrorKind::RateLimited);
        drop(taken);
        assert!(limits.take(0, now).is_ok());
    }

    #[test]
    fn requests_refill_evenly_and_say_when_to_come_back() {
        let (limits, now) = (limits(None, Some(60), None), Instant::now());
        for _ in 0..60 {
            limits.take(0, now).unwrap().keep_estimate();
        }
        let refused = limits.take(0, now).unwrap_err();
        assert_eq!(refused.retry_after, Some(Duration::from_secs(1)));
        assert!(limits.take(0, now + Duration::from_secs(1)).is_ok());
    }

    /// BerriAI/litellm#18730, #26672: reserve before, settle after; only what fits passes.
    #[test]
    fn tokens_are_reserved_settled_and_given_back() {
        let (limits, now) = (limits(None, None, Some(1_000)), Instant::now());
        let mut first = limits.take(600, now).unwrap();
        assert!(limits.take(600, now).is_err());
        first.settle(100);
        let second = limits.take(600, now).unwrap();
        drop(second);
        assert!(limits.take(900, now).is_ok());
    }

    #[test]
    fn a_request_larger_than_a_minute_passes_a_full_bucket() {
        let (limits, now) = (limits(None, None, Some(100)), Instant::now());
        limits.take(250, now).unwrap().keep_estimate();
        assert!(limits.take(1, now + Duration::from_secs(60)).is_err());
        assert!(limits.take(1, now + Duration::from_secs(120)).is_ok());
    }
}
