//! Looks Redis over, without changing anything in it.

use std::sync::Arc;

use super::{Finding, bad, good, warning};
use crate::app::open_records;
use crate::app::redis_options;
use crate::base::{Random, SystemClock, SystemRandom};
use crate::config::{Config, SystemEnv};
use crate::shared::{Owner, Server, Shared};
use crate::store::ScopeStore;
use crate::telemetry::Metrics;

/// Clocks that differ by more than this are worth a look, in milliseconds.
const SKEW_MILLIS: i64 = 2_000;

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    let secret = secret(config).await;
    let Some(options) = redis_options(config, secret.unwrap_or_default()) else { return Vec::new() };
    let shared = match Shared::new(options, Arc::new(SystemClock), &SystemRandom, Arc::new(Metrics::new())) {
        Ok(shared) => shared,
        Err(error) => return vec![bad(error.to_string())],
    };
    match shared.look_over().await {
        Ok((server, owner)) => findings(config, &server, if secret.is_some() { owner } else { Owner::Nobody }),
        Err(reason) => vec![bad(format!("{reason}. Until then each replica has its limits for itself"))],
    }
}

/// What the replicas of this store know; none where there is no store yet, or not one that can be asked here.
async fn secret(config: &Config) -> Option<[u8; 32]> {
    let is_there = config.embedded_folder(&SystemEnv).is_none() || config.database(&SystemEnv).exists();
    if config.redis.url.is_none() || !is_there {
        return None;
    }
    let store = open_records(config, &SystemEnv).await.ok()?;
    let fresh = std::array::from_fn(|_| SystemRandom.next_u64() as u8);
    store.shared_secret("tenant-salt", &fresh).await.ok()
}

fn findings(config: &Config, server: &Server, owner: Owner) -> Vec<Finding> {
    let Server { version, latency, ahead_millis, .. } = server;
    let said = format!("Redis {version} answers in {:.1} ms", latency.as_secs_f64() * 1_000.0);
    let mut found = vec![if *latency > config.redis.timeout / 2 {
        let timeout = config.redis.timeout.as_millis();
        warning(format!("{said}: near to or beyond what a request waits for it ([redis] timeout_ms = {timeout})"))
    } else {
        good(said)
    }];
    if owner == Owner::Another {
        let prefix = &config.redis.prefix;
        found.push(bad(format!(
            "another Backstory cluster, with another store, has its keys under the prefix `{prefix}` in this Redis; give each a [redis] prefix of its own"
        )));
    }
    found.extend(server.warning().map(warning));
    if ahead_millis.abs() > SKEW_MILLIS {
        found.push(warning(format!(
            "the clock of Redis is {:.1} s {} this machine's: limits go by that of Redis, all else by this one; set both right",
            ahead_millis.unsigned_abs() as f64 / 1_000.0,
            if *ahead_millis > 0 { "before" } else { "behind" }
        )));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::config::Overrides;

    fn server() -> Server {
        Server {
            version: "7.0.15".to_owned(),
            eviction: "noeviction".to_owned(),
            is_replica: false,
            latency: Duration::from_millis(1),
            ahead_millis: 3,
        }
    }

    #[test]
    fn a_good_server_is_one_line_and_everything_else_is_told() {
        let config = Config::parse("", Path::new("b.toml"), &SystemEnv, &Overrides::default()).unwrap();
        let good = findings(&config, &server(), Owner::Ours);
        assert!(good.len() == 1 && good[0].ok && !good[0].warns && good[0].what.contains("7.0.15 answers in 1.0 ms"));
        let far = Server {
            eviction: "allkeys-lru".to_owned(),
            latency: Duration::from_millis(40),
            ahead_millis: -7_000,
            ..server()
        };
        let found = findings(&config, &far, Owner::Another);
        for said in ["timeout_ms = 50", "prefix `backstory:`", "noeviction", "7.0 s behind"] {
            assert!(found.iter().any(|finding| finding.what.contains(said)), "{said}");
        }
        assert_eq!(found.iter().filter(|finding| !finding.ok).count(), 1);
    }
}
