//! `[server]` and `[admin]`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::reader::Section;
use crate::base::Secret;
use crate::certificates::Pair;

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
    /// `max_header_bytes`: all header lines of a request together; more is 431.
    pub max_header_bytes: usize,
    /// `max_url_bytes`: path and query; a longer one is 414.
    pub max_url_bytes: usize,
    /// `max_connections`: at once on each address; further ones wait to be accepted.
    pub max_connections: usize,
    /// `max_concurrency`: requests at once, each until its reply body ends; one more is 503.
    pub max_concurrency: usize,
    /// `upload_seconds`: how long a body may take; then 408.
    pub upload: Duration,
    /// `upload_idle_seconds`: how long nothing of it may come; then 408.
    pub upload_idle: Duration,
    /// `drain_seconds`: how long open streams may go on after SIGTERM.
    pub drain: Duration,
    /// `keepalive_seconds`: silence after which a stream gets a comment, once upstream's header has come; none = never.
    pub keepalive: Option<Duration>,
    /// `keepalive_before_header_seconds`: the same before upstream's header; none = never.
    pub keepalive_before_header: Option<Duration>,
    /// `watch_seconds`: how often it is looked whether the files of the configuration changed; none = never.
    pub watch: Option<Duration>,
    /// `tls_cert` and `tls_key`: PEM files; none = plain HTTP.
    pub tls: Option<Pair>,
    /// `admin_tls_cert` and `admin_tls_key`: for `admin_listen`; none = as `listen`.
    pub admin_tls: Option<Pair>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8080)),
            admin_listen: None,
            max_body_bytes: 32 << 20,
            max_header_bytes: 32 << 10,
            max_url_bytes: 8 << 10,
            max_connections: 10_000,
            max_concurrency: 1024,
            upload: Duration::from_secs(120),
            upload_idle: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            keepalive: Some(Duration::from_secs(15)),
            keepalive_before_header: None,
            watch: Some(Duration::from_secs(5)),
            tls: None,
            admin_tls: None,
        }
    }
}

impl Server {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        let mut bytes = |key, range, default| {
            s.whole(key, range).map_or(default, |bytes| usize::try_from(bytes).expect("at most 1 GiB"))
        };
        let max_body_bytes = bytes("max_body_bytes", 1024..=1 << 30, default.max_body_bytes);
        // Above 256 KiB the connection itself gives up, with a bare 431.
        let max_header_bytes = bytes("max_header_bytes", 4096..=256 << 10, default.max_header_bytes);
        let max_url_bytes = bytes("max_url_bytes", 1024..=32 << 10, default.max_url_bytes);
        let mut million = |key, default| {
            s.count(key, 1..=1_000_000).map_or(default, |n| usize::try_from(n).expect("at most a million"))
        };
        Self {
            max_body_bytes,
            max_header_bytes,
            max_url_bytes,
            max_connections: million("max_connections", default.max_connections),
            max_concurrency: million("max_concurrency", default.max_concurrency),
            listen: s.parsed("listen", ADDRESS, |text| text.parse().ok()).unwrap_or(default.listen),
            admin_listen: s.parsed("admin_listen", ADDRESS, |text| text.parse().ok()),
            upload: s.seconds("upload_seconds", 1).unwrap_or(default.upload),
            upload_idle: s.seconds("upload_idle_seconds", 1).unwrap_or(default.upload_idle),
            drain: s.seconds("drain_seconds", 0).unwrap_or(default.drain),
            keepalive: s.seconds("keepalive_seconds", 0).map_or(default.keepalive, none_if_zero),
            keepalive_before_header: s
                .seconds("keepalive_before_header_seconds", 0)
                .map_or(default.keepalive_before_header, none_if_zero),
            watch: s.seconds("watch_seconds", 0).map_or(default.watch, none_if_zero),
            tls: read_pair(s, "tls_cert", "tls_key"),
            admin_tls: read_pair(s, "admin_tls_cert", "admin_tls_key"),
        }
    }

    /// What the admin listener shows: a pair of its own, else that of the data listener.
    #[must_use]
    pub fn tls_of_admin(&self) -> Option<&Pair> {
        self.admin_tls.as_ref().or(self.tls.as_ref())
    }
}

/// A certificate and its key, from the files that two keys name; `None` where one is missing or wrong, which was reported.
fn read_pair(s: &mut Section<'_>, cert: &'static str, key: &'static str) -> Option<Pair> {
    for (one, other) in [(cert, key), (key, cert)] {
        if s.has(one) && !s.has(other) {
            s.wrong(one, format!("needs `{other}` beside it"));
        }
    }
    let (chain, private) = (s.file_text(cert), s.file_text(key).map(Secret::from));
    match Pair::read(&chain?, private?.expose()) {
        Ok(pair) => Some(pair),
        Err(error) => {
            s.wrong(if error.is_of_the_key() { key } else { cert }, error.to_string());
            None
        }
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
