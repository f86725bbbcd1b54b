//! `[server]` and `[admin]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::reader::Section;
use crate::base::Secret;

const ADDRESS: &str = "an address and a port, as in \"127.0.0.1:8080\" or \"[::1]:8080\"";

/// `[server]`: what we listen on, and how much at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `listen`: where clients connect.
    pub listen: SocketAddr,
    /// `admin_listen`: where `/admin/v1/*` and `/metrics` are; none = on `listen`.
    pub admin_listen: Option<SocketAddr>,
    /// `max_body_bytes`: the largest request body; a larger one is 413.
    pub max_body_bytes: usize,
    /// `max_concurrency`: requests at once, each until its reply body ends; one more is 503.
    pub max_concurrency: usize,
    /// `drain_seconds`: how long open streams may go on after SIGTERM.
    pub drain: Duration,
    /// `keepalive_seconds`: silence after which a stream gets a comment, once upstream's header has come; none = never.
    pub keepalive: Option<Duration>,
    /// `keepalive_before_header_seconds`: the same before upstream's header; none = never.
    pub keepalive_before_header: Option<Duration>,
    /// `tls_cert` and `tls_key`: PEM files; none = plain HTTP.
    pub tls: Option<Tls>,
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `tls_cert`: PEM file with the certificate chain.
    pub cert: PathBuf,
    /// `tls_key`: PEM file with the private key.
    pub key: PathBuf,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin_listen: None,
            max_body_bytes: 32 << 20,
            max_concurrency: 1024,
            drain: Duration::from_secs(30),
            keepalive: Some(Duration::from_secs(15)),
            keepalive_before_header: None,
            tls: None,
        }
    }
}

impl Server {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            listen: s.parsed("listen", ADDRESS, |text| text.parse().ok()).unwrap_or(default.listen),
            admin_listen: s.parsed("admin_listen", ADDRESS, |text| text.parse().ok()),
            max_body_bytes: s
                .whole("max_body_bytes", 1024..=1 << 30)
                .map_or(default.max_body_bytes, |bytes| usize::try_from(bytes).expect("at most 1 GiB")),
            max_concurrency: s
                .count("max_concurrency", 1..=1_000_000)
                .map_or(default.max_concurrency, |n| usize::try_from(n).expect("at most a million")),
            drain: s.seconds("drain_seconds", 0).unwrap_or(default.drain),
            keepalive: s.seconds("keepalive_seconds", 0).map_or(default.keepalive, none_if_zero),
            keepalive_before_header: s
                .seconds("keepalive_before_header_seconds", 0)
                .map_or(default.keepalive_before_header, none_if_zero),
            tls: Tls::read(s),
        }
    }
}

impl Tls {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        for (one, other) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
            if s.has(one) && !s.has(other) {
                s.wrong(one, format!("needs `{other}` beside it"));
            }
        }
        let (cert, key) = (s.path("tls_cert"), s.path("tls_key"));
        Some(Self { cert: cert?, key: key? })
    }
}

/// Zero means "never" where the key says so.
pub(super) fn none_if_zero(time: Duration) -> Option<Duration> {
    (!time.is_zero()).then_some(time)
}

/// `[admin]`: the key of the admin API.
#[derive(Clone, Debug, Default)]
pub struct Admin {
    /// `key`: none = the admin API is off.
    pub key: Option<Secret>,
}

impl Admin {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self { key: s.secret("key") }
    }
}
