//! What a running process takes over from a new configuration, and what waits for a restart.
//!
//! Taken over is what each request asks for anew: keys, limits, providers, models, budgets, numbers. What waits is what the process is
//! built on: addresses, the store and what lives beside it, models of our own, how things are learned.

use super::{Config, Recall, Server, Summary};

/// Keys, and tables with all their keys, that hold from the next start on.
const AFTER_RESTART: &[&str] = &[
    "server.listen",
    "server.admin_listen",
    "server.drain_seconds",
    "server.max_connections",
    "store",
    "vectors",
    "redis",
    "summary.provider",
    "summary.model",
    "summary.max_tokens_per_day",
    "memory",
    "recall.cache_bytes",
    "extract",
    "embeddings",
    "rerank",
    "telemetry",
];
/// Those inside of them that hold at once.
const AT_ONCE: &[&str] = &["telemetry.level"];

impl Config {
    /// What holds in a process that runs with this configuration when its file says `next`: `next`, but for what waits for a restart.
    #[must_use]
    pub fn followed_by(&self, next: Self) -> Self {
        let tls =
            |running: &Option<_>, new| if running.is_some() == Option::is_some(&new) { new } else { running.clone() };
        let server = Server {
            listen: self.server.listen,
            admin_listen: self.server.admin_listen,
            drain: self.server.drain,
            max_connections: self.server.max_connections,
            tls: tls(&self.server.tls, next.server.tls),
            admin_tls: tls(&self.server.admin_tls, next.server.admin_tls),
            ..next.server
        };
        Self {
            server,
            store: self.store.clone(),
            vectors: self.vectors.clone(),
            redis: self.redis.clone(),
            summary: Summary { soft_mark: next.summary.soft_mark, ..self.summary.clone() },
            memory: self.memory.clone(),
            recall: Recall { cache_bytes: self.recall.cache_bytes, ..next.recall },
            extract: self.extract.clone(),
            embeddings: self.embeddings.clone(),
            rerank: self.rerank.clone(),
            telemetry: self.telemetry.with_level(next.telemetry.level),
            ..next
        }
    }

    /// Whether a change of this key, on the way to `next`, waits for a restart.
    #[must_use]
    pub fn waits_for_restart(&self, key: &str, next: &Self) -> bool {
        let within = |tables: &[&str]| {
            tables.iter().any(|table| {
                key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        let turned = |has: fn(&Server) -> bool| has(&self.server) != has(&next.server);
        // Other files are taken over; TLS is not turned on or off under those who are connected.
        let tls = (key.starts_with("server.tls_") && turned(|server| server.tls.is_some()))
            || (key.starts_with("server.admin_tls_") && turned(|server| server.admin_tls.is_some()));
        tls || (within(AFTER_RESTART) && !within(AT_ONCE))
    }

    /// What models of our own may see, where that has changed: requests go by the new bound at once, what they are asked in the
    /// background goes by the old one until a restart.
    #[must_use]
    pub fn own_models_wait(&self, next: &Self) -> Vec<String> {
        let named = [self.extract.model.as_ref().map(|model| &model.provider), self.embeddings.provider.as_ref()];
        let bound = |config: &Self, name: &str| {
            config.providers.iter().find(|provider| provider.name == name).map(|provider| provider.max_sensitivity)
        };
        let changed = |name: &&String| bound(next, name).is_some_and(|new| bound(self, name) != Some(new));
        let mut keys: Vec<String> = named
            .into_iter()
            .flatten()
            .filter(changed)
            .map(|name| format!("providers[{name}].max_sensitivity"))
            .collect();
        keys.dedup();
        keys
    }

    /// What no running process may change into, even where the file is good by itself: a sentence each.
    #[must_use]
    pub fn hinders(&self, next: &Self) -> Vec<String> {
        let mut out = Vec::new();
        if self.is_client_mode() != next.is_client_mode() {
            // Also what a file says of which only the beginning has been written: it must not open the gateway to everyone.
            let says = if next.is_client_mode() {
                "no [[keys]] and no [admin] key any more"
            } else {
                "[[keys]] or an [admin] key now"
            };
            out.push(format!(
                "keys: the file has {says}; whether clients bring their own upstream keys can only change by a restart"
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Overrides, SystemEnv};
    use super::*;

    fn config(text: &str) -> Config {
        let keys = "[[providers]]\nname='p'\nbase_url='http://h/v1'\n[[keys]]\nkey='k'\n";
        Config::parse(&format!("{text}\n{keys}"), Path::new("t.toml"), &SystemEnv, &Overrides::default()).unwrap()
    }

    #[test]
    fn what_the_process_is_built_on_stays_and_all_else_follows() {
        let running = config(
            "[store]\ndata='/a'\n[recall]\nfloor=0.3\ncache_bytes=10000000\n[telemetry]\nlevel='warn'\nlog='json'",
        );
        let next = config(
            "[store]\ndata='/b'\n[recall]\nfloor=0.5\ncache_bytes=20000000\n[server]\nmax_concurrency=7\nlisten='127.0.0.1:1'",
        );
        let follows = running.followed_by(next);
        assert_eq!(follows.store.data.as_deref(), Some(Path::new("/a")));
        assert_eq!((follows.recall.floor, follows.recall.cache_bytes), (0.5, 10_000_000));
        assert_eq!((follows.server.max_concurrency, follows.server.listen.port()), (7, 8080));
        assert_eq!((follows.telemetry.level.as_str(), follows.telemetry.log), ("info", running.telemetry.log));
    }

    #[test]
    fn keys_that_wait_are_told_from_those_that_do_not() {
        let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/good");
        let (plain, tls) = (config(""), config(&format!("[server]\ntls_cert='{pem}.pem'\ntls_key='{pem}.key'")));
        for (key, waits) in [
            ("server.listen", true),
            ("server.max_concurrency", false),
            ("store.data", true),
            ("memory.namespaces.support.max_facts", true),
            ("summary.soft_mark", false),
            ("recall.weights.turn", false),
            ("telemetry.level", false),
            ("telemetry.log", true),
            ("keys[a].budget.profile", false),
            ("storeys", false),
        ] {
            assert_eq!(plain.waits_for_restart(key, &plain), waits, "{key}");
        }
        assert!(plain.waits_for_restart("server.tls_cert", &tls) && !tls.waits_for_restart("server.tls_cert", &tls));
    }

    #[test]
    fn a_running_process_is_not_opened_to_everyone() {
        let running = config("");
        let half =
            Config::parse("[server]\nlisten='127.0.0.1:1'\n", Path::new("t.toml"), &SystemEnv, &Overrides::default());
        let hinders = running.hinders(&half.unwrap());
        assert!(hinders.len() == 1 && hinders[0].contains("restart"), "{hinders:?}");
    }
}
