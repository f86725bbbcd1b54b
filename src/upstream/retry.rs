//! What to do after a failure: the same target again, the next one, or stop. A table (`[retry.on]`), and the waits between tries.

use std::time::Duration;

use http::StatusCode;

use super::attempt::AttemptError;

/// A repeat is not waited for longer than this; upstream's answer passes then, with its `Retry-After`.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The same target again, while it has tries left; then the next one.
    Same,
    /// The next target; without one, stop.
    Next,
    /// Give it to the client.
    Stop,
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// No connection, or it broke before an answer.
    Connect,
    /// No answer in time.
    Timeout,
    /// An error inside a 200.
    ErrorEvent,
    /// An answer that is none: a redirect, a page of HTML.
    Invalid,
    /// An answer with this status, from 400 to 599.
    Status(u16),
}

impl On {
    /// What a missing answer counts as.
    pub(super) fn error(error: &AttemptError) -> Self {
        match error {
            AttemptError::Unreachable { .. } => Self::Connect,
            AttemptError::Timeout { .. } => Self::Timeout,
            AttemptError::Invalid { .. } => Self::Invalid,
        }
    }

    /// Whether it is about the credential: another key of the same provider may do better.
    pub(super) fn is_about_key(self) -> bool {
        matches!(self, Self::Status(401 | 403 | 429))
    }
}

/// What to do after each kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryTable {
    connect: Then,
    timeout: Then,
    error_event: Then,
    invalid: Then,
    /// From 400 on.
    statuses: [Then; 200],
}

impl Default for RetryTable {
    /// Design, doubt 7: 401, 403, 404, 408, 409, 425, 429, 5xx, connection failures and timeouts go on, all else stops. What may
    /// be better a moment later is tried again at the same target first, where tries are left.
    fn default() -> Self {
        let mut table = Self {
            connect: Then::Same,
            timeout: Then::Next,
            error_event: Then::Same,
            invalid: Then::Next,
            statuses: [Then::Stop; 200],
        };
        for code in [401, 403, 404] {
            table.set(On::Status(code), Then::Next);
        }
        for code in [408, 409, 425, 429].into_iter().chain(500..600) {
            table.set(On::Status(code), Then::Same);
        }
        table
    }
}

impl RetryTable {
    /// Changes what is done after one kind of failure; a status out of range has no place and changes nothing.
    pub fn set(&mut self, on: On, then: Then) {
        match on {
            On::Connect => self.connect = then,
            On::Timeout => self.timeout = then,
            On::ErrorEvent => self.error_event = then,
            On::Invalid => self.invalid = then,
            On::Status(code) => {
                if let Some(place) = place(code).and_then(|at| self.statuses.get_mut(at)) {
                    *place = then;
                }
            }
        }
    }

    /// What to do. With the client's own key, answers that are about that key are the client's, whatever the table says.
    #[must_use]
    pub fn then(&self, on: On, client_key: bool) -> Then {
        if client_key && on.is_about_key() {
            return Then::Stop;
        }
        match on {
            On::Connect => self.connect,
            On::Timeout => self.timeout,
            On::ErrorEvent => self.error_event,
            On::Invalid => self.invalid,
            On::Status(code) => place(code).and_then(|at| self.statuses.get(at)).copied().unwrap_or(Then::Stop),
        }
    }
}

fn place(code: u16) -> Option<usize> {
    code.checked_sub(400).map(usize::from)
}

/// Whether a status is an error.
pub(super) fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// How often is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries per target; 1 = no repeat (clients repeat on their own).
    pub attempts: u32,
    /// Tries of one request over all targets and keys.
    pub max_total: u32,
    /// After so long no further try is begun; zero = no such bound.
    pub max_time: Duration,
    /// How long a target that failed is left alone, when it does not say so itself.
    pub cooldown: Duration,
    /// What to do after which failure.
    pub on: RetryTable,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            max_total: 16,
            max_time: Duration::from_secs(600),
            cooldown: Duration::from_secs(30),
            on: RetryTable::default(),
        }
    }
}

/// How long to wait before the `repeat`-th repeat at the same target; `None` = longer than is worth waiting. Upstream's own word
/// holds; without one it is 100 ms doubling up to 2 s, less up to half by `spread`, a number that differs between requests.
pub(super) fn wait_before(repeat: u32, asked: Option<Duration>, spread: u64) -> Option<Duration> {
    let base = 100_u64.saturating_mul(1 << repeat.saturating_sub(1).min(5)).min(2_000);
    let jitter = spread % (base / 2 + 1);
    let own = Duration::from_millis(base - jitter);
    match asked {
        None => Some(own),
        // Not all who were sent away may come back at the same moment.
        Some(asked) => Some(asked + Duration::from_millis(jitter)).filter(|wait| *wait <= LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// maximhq/bifrost#3261; mozilla-ai/otari#173.
    #[test]
    fn what_a_status_means_for_the_next_target() {
        let table = RetryTable::default();
        for code in [401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 529] {
            assert_ne!(table.then(On::Status(code), false), Then::Stop, "{code}");
        }
        for code in [400, 402, 413, 422, 499, 600, 200] {
            assert_eq!(table.then(On::Status(code), false), Then::Stop, "{code}");
        }
        for code in [401, 403, 429] {
            assert_eq!(table.then(On::Status(code), true), Then::Stop, "{code}");
        }
        assert_eq!(table.then(On::Status(500), true), Then::Same);
    }

    #[test]
    fn an_entry_changes_its_own_status_and_no_other_and_never_sends_a_clients_key_problem_elsewhere() {
        let mut table = RetryTable::default();
        table.set(On::Status(400), Then::Next);
        table.set(On::Status(429), Then::Same);
        table.set(On::Status(999), Then::Next);
        table.set(On::Timeout, Then::Stop);
        assert_eq!(table.then(On::Status(400), false), Then::Next);
        assert_eq!(table.then(On::Status(401), false), Then::Next);
        assert_eq!(table.then(On::Status(422), false), Then::Stop);
        assert_eq!(table.then(On::Timeout, false), Then::Stop);
        assert_eq!(table.then(On::Status(429), true), Then::Stop);
    }

    #[test]
    fn waits_double_with_jitter_and_upstreams_own_word_goes_before() {
        for spread in [0, 7, 49, 50, u64::MAX] {
            for (repeat, most) in [(1, 100), (2, 200), (3, 400), (6, 2_000), (60, 2_000)] {
                let wait = wait_before(repeat, None, spread).unwrap().as_millis();
                assert!((most / 2..=most).contains(&wait), "{repeat}: {wait}");
            }
            let wait = wait_before(1, Some(Duration::from_secs(3)), spread).unwrap();
            assert!((3_000..=3_050).contains(&wait.as_millis()), "never before the time: {wait:?}");
        }
        assert_eq!(wait_before(1, Some(Duration::from_secs(60)), 0), None);
    }
}
