//! What the mock was asked, kept for tests.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::HeaderMap;

/// The most requests that are kept; the oldest goes first.
const MAX_REQUESTS: usize = 1_000;

/// The most bytes of bodies that are kept.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// One request as it came in.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The method.
    pub method: http::Method,
    /// Path and query.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Recorded {
    /// The path alone.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The query alone, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// Returns a header's text; `None` when it is absent or not text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as JSON; `null` when it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The last requests, and counts of everything since the start.
#[derive(Debug, Default)]
pub(super) struct Log {
    kept: Mutex<Kept>,
    pub(super) accepted: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) cancelled: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    requests: VecDeque<Recorded>,
    bytes: usize,
}

impl Log {
    /// Keeps a request and returns its number, from 1.
    pub(super) fn add(&self, request: Recorded) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += request.body.len();
        kept.requests.push_back(request);
        while kept.requests.len() > MAX_REQUESTS || kept.bytes > MAX_BYTES {
            let oldest = kept.requests.pop_front().expect("there is the one just added");
            kept.bytes -= oldest.body.len();
        }
        self.accepted.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).requests.iter().cloned().collect()
    }

    pub(super) fn clear(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: usize) -> Recorded {
        let body = Bytes::from(vec![0; bytes]);
        Recorded { method: http::Method::POST, target: "/v1/x?y=1".to_owned(), headers: HeaderMap::new(), body }
    }

    #[test]
    fn the_oldest_requests_go_first() {
        let log = Log::default();
        log.add(request(7));
        for n in 2..=1_001 {
            assert_eq!(log.add(request(0)), n);
        }
        assert_eq!(log.requests().len(), MAX_REQUESTS);
        assert!(log.requests().iter().all(|r| r.body.is_empty()));
    }

    #[test]
    fn bodies_are_bounded_together() {
        let log = Log::default();
        for _ in 0..3 {
            log.add(request(MAX_BYTES / 2));
        }
        assert_eq!((log.requests().len(), log.accepted.load(Ordering::Relaxed)), (2, 3));
    }
}
