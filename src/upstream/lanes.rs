//! A target with each credential that it can be asked with: its lanes. Health is kept per lane.

use std::sync::Arc;
use std::time::Duration;

use super::health::{Failed, Health, Leave, State};
use super::keyring::Keyring;
use super::mono::now_ms;

/// The lanes of one target: one for each key of its provider, at least one. A clone has the same health.
#[derive(Clone, Debug)]
pub(super) struct Lanes(Vec<Arc<Health>>);

/// One lane, and leave to use it for one try.
#[derive(Debug)]
pub(super) struct Lane {
    /// The place of its key in the provider's ring.
    pub(super) key: usize,
    health: Arc<Health>,
    _leave: Leave,
}

/// Keys that one request has tried at one target.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tried(u64);

impl Tried {
    fn has(self, key: usize) -> bool {
        self.0 & (1 << key) != 0
    }

    /// Notes one more.
    pub(super) fn add(&mut self, key: usize) {
        self.0 |= 1 << key;
    }
}

impl Lanes {
    /// The lanes of a target whose provider has so many keys.
    pub(super) fn new(n_keys: usize) -> Self {
        Self((0..n_keys.max(1)).map(|_| Arc::default()).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether any lane may be used; else how soon, and whether all of them were limited.
    pub(super) fn state(&self, keys: &Keyring, now_ms: u64) -> State {
        let mut best = State::Cooling { left: Duration::MAX, limited: true };
        for (at, health) in self.0.iter().enumerate() {
            if keys.is_left_out(at, now_ms) {
                continue;
            }
            best = match (best, health.state(now_ms)) {
                (_, State::Ready) => return State::Ready,
                (State::Cooling { left, limited }, State::Cooling { left: l, limited: lim }) => {
                    State::Cooling { left: left.min(l), limited: limited && lim }
                }
                (_, State::Probing) | (State::Probing | State::Ready, _) => State::Probing,
            };
        }
        best
    }

    /// Takes a lane that may be used and was not tried yet, in turn.
    pub(super) fn enter(&self, keys: &Keyring, tried: Tried, now_ms: u64) -> Option<Lane> {
        // One lane needs no turns.
        let only = (self.0.len() == 1).then_some(0);
        let turns = only.into_iter().chain(only.is_none().then(|| keys.in_turn()).into_iter().flatten());
        for key in turns {
            if tried.has(key) || keys.is_left_out(key, now_ms) {
                continue;
            }
            if let Some(health) = self.0.get(key)
                && let Some(leave) = health.enter(now_ms)
            {
                return Some(Lane { key, health: Arc::clone(health), _leave: leave });
            }
        }
        None
    }

    /// Takes the lane that may be used soonest: there is nobody else. A probe that is under way is waited for first, at most for
    /// `longest`. One that cools is taken only with `cooling`.
    pub(super) async fn enter_anyway(
        &self,
        keys: &Keyring,
        tried: Tried,
        cooling: bool,
        longest: Duration,
    ) -> Option<Lane> {
        let now = now_ms();
        let wait = |key: usize| match self.0[key].state(now) {
            State::Ready => Duration::ZERO,
            State::Probing => Duration::from_nanos(1),
            State::Cooling { left, .. } => left,
        };
        let cools = |key: usize, now_ms: u64| matches!(self.0[key].state(now_ms), State::Cooling { .. });
        let free = (0..self.0.len()).filter(|&key| !tried.has(key) && !keys.is_left_out(key, now));
        let key = free.filter(|&key| cooling || !cools(key, now)).min_by_key(|&key| wait(key))?;
        let health = Arc::clone(&self.0[key]);
        health.probed(longest).await;
        let now = now_ms();
        // The probe failed.
        if !cooling && cools(key, now) {
            return None;
        }
        let leave = health.enter(now).unwrap_or_else(|| health.enter_anyway());
        Some(Lane { key, health, _leave: leave })
    }
}

impl Lane {
    /// The target answered as it should.
    pub(super) fn succeeded(&self) {
        self.health.succeeded();
    }

    /// It failed.
    pub(super) fn failed(&self, why: Failed, retry_after: Option<Duration>, cooldown: Duration, now_ms: u64) {
        self.health.failed(why, retry_after, cooldown, now_ms);
    }

    /// Whether it cools now.
    pub(super) fn cools(&self, now_ms: u64) -> bool {
        matches!(self.health.state(now_ms), State::Cooling { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Secret;

    const COOLDOWN: Duration = Duration::from_secs(30);

    fn ring(n: usize) -> Keyring {
        let secrets = (0..n).map(|i| Secret::from(format!("sk-number-{i}").as_str())).collect();
        Keyring::new(secrets, |_| None)
    }

    #[test]
    fn a_target_cools_when_all_its_lanes_do() {
        let (keys, lanes) = (ring(2), Lanes::new(2));
        let first = lanes.enter(&keys, Tried::default(), 0).unwrap();
        first.failed(Failed::Limited, Some(Duration::from_secs(9)), COOLDOWN, 0);
        assert_eq!(lanes.state(&keys, 0), State::Ready);
        let second = lanes.enter(&keys, Tried::default(), 0).unwrap();
        assert_ne!(first.key, second.key);
        second.failed(Failed::Limited, Some(Duration::from_secs(4)), COOLDOWN, 0);
        assert_eq!(lanes.state(&keys, 0), State::Cooling { left: Duration::from_secs(4), limited: true });
        assert!(lanes.enter(&keys, Tried::default(), 0).is_none());
    }

    #[test]
    fn a_request_tries_each_key_once_and_passes_over_refused_ones() {
        let (keys, lanes) = (ring(3), Lanes::new(3));
        keys.refuse(1, 0);
        let mut tried = Tried::default();
        let mut seen = Vec::new();
        while let Some(lane) = lanes.enter(&keys, tried, 5) {
            tried.add(lane.key);
            seen.push(lane.key);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 2]);
    }

    #[tokio::test]
    async fn where_nobody_else_is_left_the_soonest_lane_is_taken() {
        let (keys, lanes) = (ring(2), Lanes::new(2));
        for seconds in [9, 4] {
            let lane = lanes.enter(&keys, Tried::default(), 0).unwrap();
            lane.failed(Failed::Limited, Some(Duration::from_secs(seconds)), COOLDOWN, 0);
        }
        let lane = lanes.enter_anyway(&keys, Tried::default(), true, Duration::ZERO).await.unwrap();
        assert_eq!(lane.key, 1);
    }

    #[test]
    fn a_provider_without_keys_has_one_lane() {
        let (keys, lanes) = (ring(0), Lanes::new(0));
        assert_eq!(lanes.state(&keys, 0), State::Ready);
        assert_eq!(lanes.enter(&keys, Tried::default(), 0).unwrap().key, 0);
    }
}
