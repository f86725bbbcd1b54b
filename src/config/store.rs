//! `[store]` and `[redis]`: where records are kept, and what replicas share.

use std::path::PathBuf;
use std::time::Duration;

use super::reader::Section;
use crate::base::Secret;

/// `[store]`: the records.
#[derive(Clone, Debug)]
pub struct StoreSection {
    /// `url`: which database.
    pub url: StoreUrl,
    /// `data`: the folder of the embedded default; none = the user's data folder (see [`super::Config::data_folder`]).
    pub data: Option<PathBuf>,
    /// `connections`: most connections to a PostgreSQL server.
    pub connections: u32,
    /// `durability`: what an acknowledged exchange survives.
    pub durability: Durability,
    /// `trace_days`: how long what was shown for an answer is kept, for `explain`, in days; 0 = not at all.
    pub trace_days: u32,
    /// `usage_days`: how long it is kept what each exchange used, in days; 0 = no books.
    pub usage_days: u32,
    /// `acknowledge_wait_ms`: how long the end of a reply waits for its outbox row, before it is released and counted.
    pub acknowledge_wait: Duration,
}

/// Which database.
#[derive(Clone, Debug)]
pub enum StoreUrl {
    /// SQLite in the data folder.
    Embedded,
    /// `sqlite://PATH`.
    Sqlite(PathBuf),
    /// `postgres://…`; a secret, since it holds a password.
    Postgres(Secret),
}

/// What an acknowledged exchange survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// `process`: kill -9.
    Process,
    /// `power`: loss of power too, at the cost of a disk flush per group commit.
    Power,
}

impl Default for StoreSection {
    fn default() -> Self {
        Self {
            url: StoreUrl::Embedded,
            data: None,
            connections: 16,
            durability: Durability::Process,
            trace_days: 30,
            usage_days: 400,
            acknowledge_wait: Duration::from_millis(250),
        }
    }
}

impl StoreSection {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let default = Self::default();
        if s.has("url") && s.has("data") {
            s.wrong("data", "is the folder of the embedded default: give either `url` or `data`");
        }
        let url = s.parsed("url", "\"sqlite://PATH\" or \"postgres://USER:PASSWORD@HOST/DATABASE\"", store_url);
        Self {
            url: url.unwrap_or(default.url),
            data: s.path("data"),
            connections: s.count("connections", 2..=1_000).unwrap_or(default.connections),
            durability: s.choice(
                "durability",
                default.durability,
                &[("process", Durability::Process), ("power", Durability::Power)],
            ),
            trace_days: s.count("trace_days", 0..=3650).unwrap_or(default.trace_days),
            usage_days: s.count("usage_days", 0..=36500).unwrap_or(default.usage_days),
            acknowledge_wait: s.millis("acknowledge_wait_ms", 1).unwrap_or(default.acknowledge_wait),
        }
    }
}

fn store_url(text: &str) -> Option<StoreUrl> {
    if let Some(path) = text.strip_prefix("sqlite://") {
        return (!path.is_empty() && !path.contains(['?', '\0'])).then(|| StoreUrl::Sqlite(PathBuf::from(path)));
    }
    let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))?;
    (!rest.is_empty()).then(|| StoreUrl::Postgres(Secret::from(text)))
}

/// `[redis]`: what several replicas share in memory.
#[derive(Clone, Debug)]
pub struct Redis {
    /// `url`; none = no Redis. A secret, since it may hold a password.
    pub url: Option<Secret>,
    /// `prefix`: what all keys begin with.
    pub prefix: String,
    /// `timeout_ms`: the longest that a request waits for it.
    pub timeout: Duration,
}

impl Default for Redis {
    fn default() -> Self {
        Self { url: None, prefix: "backstory:".to_owned(), timeout: Duration::from_millis(50) }
    }
}

impl Redis {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let url = s.parsed("url", "\"redis://HOST:PORT\" or \"rediss://HOST:PORT\"", |text| {
            let rest = text.strip_prefix("redis://").or_else(|| text.strip_prefix("rediss://"))?;
            (!rest.is_empty()).then(|| Secret::from(text))
        });
        let default = Self::default();
        Self {
            url,
            prefix: s.name("prefix").unwrap_or(default.prefix),
            timeout: s.millis("timeout_ms", 1).unwrap_or(default.timeout),
        }
    }
}
