//! `backstory serve`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;

use super::pages::Small;
use super::{ConfigArgs, asked_to_stop, complain, say};
use crate::app::reload::{self, Why};
use crate::app::{App, Exporting, Parts, build, export, name_of_records};
use crate::base::{SystemClock, SystemRandom};
use crate::certificates::Identity;
use crate::config::{Config, Env, SystemEnv};
use crate::server::{Drained, Entrance, Front, serve};
use crate::telemetry;
use crate::telemetry::otlp::Traces;
use crate::upstream::Auth;

/// How long the background work may take to end after the replies have.
const HALT_SECONDS: u64 = 10;
/// How long the last spans and numbers may take to be sent after that.
const FLUSH_SECONDS: u64 = 3;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Serves until SIGTERM or ctrl-c; a second one ends at once. Until it does, it is `starting`.
pub(super) async fn run(args: ServeArgs, starting: Small) -> ExitCode {
    let config = match args.config.load() {
        Ok(config) => config,
        Err(errors) => {
            complain(&errors.to_string());
            return ExitCode::FAILURE;
        }
    };
    let wanted = SystemEnv.var("BACKSTORY_LOG");
    let otlp = config.telemetry.otlp.as_ref();
    let traces = otlp.map(|otlp| Traces::new(otlp.sample, Arc::new(SystemRandom)));
    let level = telemetry::init(config.telemetry.log, &config.telemetry.level, wanted.as_deref(), traces.as_ref());
    if level.is_err() {
        complain("a log is installed already; using it");
    }
    let bound = async {
        let hint = "--listen ADDR or [server] listen";
        let data = bind(config.server.listen, hint).await?;
        let admin = match config.server.admin_listen {
            Some(address) => Some(bind(address, "[server] admin_listen").await?),
            None => None,
        };
        Ok::<_, String>((data, admin))
    };
    let (listener, admin_listener) = match bound.await {
        Ok(bound) => bound,
        Err(reason) => {
            complain(&reason);
            return ExitCode::FAILURE;
        }
    };
    let address = listener.local_addr().unwrap_or(config.server.listen);
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    let app = match build(&config, &SystemEnv, parts).await {
        Ok(app) => app,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    let exporting = match otlp.zip(traces.as_ref()).map(|(otlp, traces)| export(&app, otlp, traces)).transpose() {
        Ok(exporting) => exporting,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    starting.end();
    say(&banner(&config, &address.to_string()));
    let front = Front::new(&app);
    let entrance = |listener, identity: Option<&Arc<Identity>>| Entrance {
        listener,
        tls: identity.map(Identity::server_config),
        max_connections: config.server.max_connections,
    };
    let data = (entrance(listener, app.identities.data.as_ref()), front.clone());
    let admin = admin_listener.map(|listener| {
        let address = listener.local_addr().map_or_else(|error| error.to_string(), |address| address.to_string());
        tracing::info!(
            address,
            tls = app.identities.admin.is_some(),
            "the admin API and the metrics have an address of their own"
        );
        (entrance(listener, app.identities.admin.as_ref()), Front::admin(&app))
    });
    let fronts = [Some(front), admin.as_ref().map(|(_, front)| front.clone())];
    let numbers = exporting.as_ref().map(Exporting::numbers);
    reload::start(&app, args.config.source(), move |app| {
        numbers.iter().for_each(|numbers| numbers.follow(app));
        fronts.iter().flatten().for_each(|front| front.follow(app));
        if let Ok(level) = &level {
            level.set(&app.config.telemetry.level);
        }
    });
    reload_at_hangup(&app);

    let stop = app.stop.clone();
    let signals = async move {
        asked_to_stop().await;
        tracing::info!("stopping: no new requests; running replies end first");
        stop.cancel();
        asked_to_stop().await;
    };
    let serving = serve_and_drain(&app, data, admin, exporting);
    tokio::select! {
        drained = serving => {
            // Replies that had to be cut are a reason to look, not a failure of ours: what they said is recorded.
            if drained == Drained::Cut {
                tracing::warn!("some replies were cut at the end of the drain");
            }
            ExitCode::SUCCESS
        }
        () = signals => {
            complain("ended at once, at the second signal");
            ExitCode::FAILURE
        }
    }
}

async fn bind(address: SocketAddr, hint: &str) -> Result<TcpListener, String> {
    let failed = |error| format!("cannot listen on {address}: {error}; choose another address with {hint}");
    TcpListener::bind(address).await.map_err(failed)
}

/// SIGHUP has the configuration read again. Only until the process stops: then it is passed over.
#[cfg(unix)]
fn reload_at_hangup(app: &Arc<App>) {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::hangup()) {
        Ok(mut hangup) => {
            let reloads = Arc::clone(&app.reloads);
            app.tracker.spawn(app.stop.clone().run_until_cancelled_owned(async move {
                while hangup.recv().await.is_some() {
                    reloads.ask(Why::Signal).await;
                }
            }));
        }
        Err(error) => tracing::warn!(%error, "SIGHUP cannot be heard; POST /admin/v1/reload remains"),
    }
}

#[cfg(not(unix))]
fn reload_at_hangup(_: &Arc<App>) {}

type Side = (Entrance, Front);

/// Both listeners drain at the same time; the admin's replies are short.
async fn serve_and_drain(
    app: &Arc<App>,
    (entrance, front): Side,
    admin: Option<Side>,
    exporting: Option<Exporting>,
) -> Drained {
    let (stop, drain) = (&app.stop, app.settings.drain);
    let data = serve(entrance, front, stop.clone(), drain);
    let drained = match admin {
        None => data.await,
        Some((entrance, front)) => {
            let admin = serve(entrance, front, stop.clone(), drain);
            let (data, _) = tokio::join!(data, admin);
            data
        }
    };
    // Replies have ended: what they left is committed before the process ends. What is not learned yet stays in the outbox.
    app.halt.cancel();
    app.tracker.close();
    if tokio::time::timeout(Duration::from_secs(HALT_SECONDS), app.tracker.wait()).await.is_err() {
        tracing::warn!("background work did not end in time; the outbox keeps what is left");
    }
    if let Some(exporting) = exporting {
        let within = Duration::from_secs(FLUSH_SECONDS);
        // So that the span of the last commit has ended. A disk that hangs keeps nobody from ending.
        let _ = tokio::time::timeout(within, app.store.end_writing()).await;
        if !exporting.finish(within).await {
            tracing::warn!("the OpenTelemetry collector did not take what was left in time");
        }
    }
    drained
}

/// What a person needs to know, in five lines.
fn banner(config: &Config, address: &str) -> String {
    let upstream = config
        .providers
        .iter()
        .find(|p| p.default)
        .map_or("only configured models are served".to_owned(), |p| format!("requests go to {}", p.base_url));
    let auth = match config.providers.iter().find(|p| p.default).map(|p| &p.api_key) {
        Some(Auth::Client) => "with the client's own API key, which is passed on and never stored",
        Some(Auth::Keys(keys)) if keys.len() > 1 => "with the configured API keys, in turn",
        Some(Auth::Keys(_)) => "with the configured API key",
        Some(Auth::None) => "without an API key",
        None => "with each provider's key",
    };
    let who = match (&config.default_subject, config.is_client_mode()) {
        (Some(subject), _) => format!("requests that name no user are taken to be from `{subject}`"),
        (None, true) => "requests that name no user (header x-backstory-user, or `user`) have no memory".to_owned(),
        (None, false) => {
            let n = config.keys.len();
            let keys = if n == 1 { "key" } else { "keys" };
            format!("{n} {keys}; who a request is about follows the key's subject_from")
        }
    };
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    format!(
        "backstory {} listening on {scheme}://{address}\n\
         upstream: {upstream}, {auth}\n\
         memory:   on, kept in {}\n\
         users:    {who}\n\
         in your app, change one line:  base_url = \"{scheme}://{address}/v1\"",
        env!("CARGO_PKG_VERSION"),
        name_of_records(config, &SystemEnv),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;

    #[test]
    fn the_banner_says_where_memory_is_kept() {
        let parsed =
            |text: &str| Config::parse(text, std::path::Path::new("t.toml"), &SystemEnv, &Overrides::default());
        let keys = "[[providers]]\nname = 'p'\nbase_url = 'http://127.0.0.1:9/v1'\ndefault = true\n[[keys]]\nname = 'k'\nkey = 'bs-0123456789abcdef'\n";
        let said = |store: &str| banner(&parsed(&format!("{store}{keys}")).unwrap(), "127.0.0.1:1");
        assert!(said("[store]\ndata = '/d'\n").contains("kept in /d/backstory.db\n"));
        assert!(said("[store]\nurl = 'sqlite:///var/own.db'\n").contains("kept in /var/own.db\n"));
        let server = said("[store]\nurl = 'postgres://me:secret@db.internal/memories'\n");
        assert!(server.contains("kept in postgres://db.internal/memories\n") && !server.contains("secret"), "{server}");
    }
}
