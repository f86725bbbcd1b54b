//! The keys of one provider: taken in turn, and one that is refused is left out for a while.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::mono::later;
use crate::base::Secret;

/// A key that upstream refused is left out for so long: somebody has to mend it first.
pub(super) const REFUSED: Duration = Duration::from_secs(600);

/// The most keys that a provider can have: which ones were tried is a mask of bits.
pub const MAX_KEYS: usize = 64;

/// Keys of ours for one provider. Its debug text shows how many, never which.
pub(super) struct Keyring {
    keys: Vec<Key>,
    next: AtomicUsize,
}

struct Key {
    secret: Secret,
    /// What the provider's API wants in its header, made once; `None` when the key cannot be one.
    header: Option<(HeaderName, HeaderValue)>,
    /// Until then it is left out; monotonic milliseconds.
    refused_until: AtomicU64,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("keys", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Keyring {
    /// Keeps the first [`MAX_KEYS`] keys, as `header` writes them.
    pub(super) fn new(secrets: Vec<Secret>, header: impl Fn(&Secret) -> Option<(HeaderName, HeaderValue)>) -> Self {
        let key = |secret: Secret| Key { header: header(&secret), secret, refused_until: AtomicU64::new(0) };
        Self { keys: secrets.into_iter().take(MAX_KEYS).map(key).collect(), next: AtomicUsize::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The places of all keys, beginning at another one each time.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let n = self.keys.len();
        let start = if n > 1 { self.next.fetch_add(1, Ordering::Relaxed) % n } else { 0 };
        (start..n).chain(0..start)
    }

    /// The key for a request that goes past routing, in turn.
    pub(super) fn any(&self, now_ms: u64) -> Option<usize> {
        let all_refused = self.all_refused(now_ms);
        self.in_turn().find(|&at| all_refused || !self.is_refused(at, now_ms))
    }

    /// Whether a key is left out: upstream refused it. Where all are, none is, since upstream's own answer is the best there is.
    pub(super) fn is_left_out(&self, at: usize, now_ms: u64) -> bool {
        self.is_refused(at, now_ms) && !self.all_refused(now_ms)
    }

    fn is_refused(&self, at: usize, now_ms: u64) -> bool {
        self.keys.get(at).is_some_and(|key| key.refused_until.load(Ordering::Relaxed) > now_ms)
    }

    fn all_refused(&self, now_ms: u64) -> bool {
        (0..self.keys.len()).all(|at| self.is_refused(at, now_ms))
    }

    /// Leaves a key out for [`REFUSED`]; returns whether that is news.
    pub(super) fn refuse(&self, at: usize, now_ms: u64) -> bool {
        let Some(key) = self.keys.get(at) else { return false };
        let until = later(now_ms, REFUSED);
        key.refused_until.fetch_max(until, Ordering::Relaxed) <= now_ms
    }

    /// The header of a key.
    pub(super) fn header(&self, at: usize) -> Option<&(HeaderName, HeaderValue)> {
        self.keys.get(at)?.header.as_ref()
    }

    /// All keys, to be masked where they show.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.keys.iter().map(|key| &key.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::api::Api;

    fn ring(n: usize) -> Keyring {
        let secrets = (0..n).map(|i| Secret::from(format!("sk-number-{i}").as_str())).collect();
        Keyring::new(secrets, |secret| Api::default().credential(secret))
    }

    #[test]
    fn keys_are_taken_in_turn() {
        let ring = ring(3);
        let taken: Vec<usize> = (0..6).map(|_| ring.any(0).unwrap()).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_refused_key_is_left_out_for_a_while_and_where_all_are_none_is() {
        let ring = ring(2);
        let later = 1 + u64::try_from(REFUSED.as_millis()).unwrap();
        assert!(ring.refuse(0, 1), "news");
        assert!(!ring.refuse(0, 2), "known already");
        assert!((0..4).all(|_| ring.any(2) == Some(1)));
        assert!(ring.is_left_out(0, 2) && !ring.is_left_out(0, later + 1));
        ring.refuse(1, 2);
        assert!(!ring.is_left_out(0, 3) && !ring.is_left_out(1, 3));
        assert!(ring.any(3).is_some());
    }

    #[test]
    fn no_key_is_in_its_debug_text() {
        assert!(!format!("{:?} {:?}", ring(2), ring(1).header(0)).contains("sk-"));
    }
}
