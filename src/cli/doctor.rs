//! `backstory doctor`: looks at everything that can be wrong, and says what to do.

use std::process::ExitCode;

use super::{ConfigArgs, complain, say};
use crate::config::{Config, Provider, ProviderKey, StoreUrl, SystemEnv};
use crate::store::ScopeStore;
use crate::store::sqlite::{SqliteOptions, SqliteStore};
use crate::upstream::probe;

/// One thing that was looked at.
struct Finding {
    ok: bool,
    what: String,
}

/// Looks, prints a line for each finding, and fails when one is bad.
pub(super) async fn run(args: ConfigArgs) -> ExitCode {
    let config = match args.load() {
        Ok(config) => config,
        Err(errors) => {
            complain(&errors.to_string());
            return ExitCode::FAILURE;
        }
    };
    let mut findings = vec![good("the config has no mistakes".to_owned())];
    findings.extend(config.unsupported().into_iter().map(bad));
    findings.push(listen(&config).await);
    findings.extend(store(&config).await);
    for provider in &config.providers {
        findings.push(upstream(provider).await);
    }
    let healthy = findings.iter().all(|finding| finding.ok);
    for finding in findings {
        say(&format!("{} {}", if finding.ok { "ok  " } else { "BAD " }, finding.what));
    }
    if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn listen(config: &Config) -> Finding {
    let address = config.server.listen;
    match tokio::net::TcpListener::bind(address).await {
        Ok(_) => good(format!("{address} is free to listen on")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            good(format!("{address} is in use: by a running gateway, or else choose another with --listen"))
        }
        Err(error) => {
            bad(format!("cannot listen on {address}: {error}; choose another with --listen or [server] listen"))
        }
    }
}

async fn store(config: &Config) -> Vec<Finding> {
    let path = match &config.store.url {
        StoreUrl::Sqlite(path) => path.clone(),
        _ => config.data_folder(&SystemEnv).join("backstory.db"),
    };
    if !path.exists() {
        let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        return vec![good(format!("no database yet; `serve` makes one in {folder}"))];
    }
    let shown = path.display().to_string();
    let store = match SqliteStore::open(SqliteOptions { path: Some(path), ..SqliteOptions::default() }).await {
        Ok(store) => store,
        Err(error) => {
            return vec![bad(format!(
                "the database {shown} cannot be opened: {error}; restore it from a backup, or move it away to start anew"
            ))];
        }
    };
    let mut findings = vec![match store.ping().await {
        Ok(()) => good(format!("the database {shown} can be read")),
        Err(error) => bad(format!("the database {shown} cannot be read: {error}")),
    }];
    findings.push(match store.check().await {
        Ok(problems) if problems.is_empty() => good("the database is intact".to_owned()),
        Ok(problems) => bad(format!("the database is damaged: {}; restore it from a backup", problems.join("; "))),
        Err(error) => bad(format!("the database cannot be checked: {error}")),
    });
    match crate::store::OutboxStore::depth(&store).await {
        Ok(depth) if depth.dead > 0 => {
            findings.push(bad(format!("{} exchanges could not be learned from and were given up", depth.dead)));
        }
        Ok(depth) => findings.push(good(format!("{} exchanges wait to be learned from", depth.waiting))),
        Err(error) => findings.push(bad(format!("the outbox cannot be read: {error}"))),
    }
    findings
}

/// An answer that refuses the key that we do not have is an answer: the host is there.
async fn upstream(provider: &Provider) -> Finding {
    let name = &provider.name;
    let (key, clients_own) = match &provider.api_key {
        ProviderKey::Own(key) => (Some(key), false),
        ProviderKey::Client => (None, true),
        ProviderKey::None => (None, false),
    };
    match probe(&provider.base_url, key).await {
        Ok(200..300) => good(format!("provider `{name}` answers")),
        Ok(400..500) if clients_own => {
            good(format!("provider `{name}` answers; it wants the client's own key, as it should"))
        }
        Ok(status @ (401 | 403)) => {
            bad(format!("provider `{name}` refuses the configured API key ({status}); check api_key"))
        }
        Ok(status) => good(format!("provider `{name}` answers with {status} to GET /models")),
        Err(reason) => bad(format!(
            "provider `{name}` cannot be reached at {}: {reason}; check base_url and the network",
            provider.base_url
        )),
    }
}

fn good(what: String) -> Finding {
    Finding { ok: true, what }
}

fn bad(what: String) -> Finding {
    Finding { ok: false, what }
}
