//! `backstory serve`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;

use super::{ConfigArgs, asked_to_stop, complain, say};
use crate::app::{App, Exporting, Parts, build, export};
use crate::base::{SystemClock, SystemRandom};
use crate::config::{Config, Env, SystemEnv};
use crate::server::{Drained, Front, serve};
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

/// Serves until SIGTERM or ctrl-c; a second one ends at once.
pub(super) async fn run(args: ServeArgs) -> ExitCode {
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
    if telemetry::init(config.telemetry.log, &config.telemetry.level, wanted.as_deref(), traces.as_ref()).is_err() {
        complain("a log is installed already; using it");
    }
    let listener = match TcpListener::bind(config.server.listen).await {
        Ok(listener) => listener,
        Err(error) => {
            complain(&format!(
                "cannot listen on {}: {error}; choose another address with --listen ADDR or [server] listen",
                config.server.listen
            ));
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
    say(&banner(&config, &address.to_string()));

    let stop = app.stop.clone();
    let signals = async move {
        asked_to_stop().await;
        tracing::info!("stopping: no new requests; running replies end first");
        stop.cancel();
        asked_to_stop().await;
    };
    let serving = serve_and_drain(&app, listener, exporting);
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

async fn serve_and_drain(app: &Arc<App>, listener: TcpListener, exporting: Option<Exporting>) -> Drained {
    let drained = serve(listener, Front::new(app), app.stop.clone(), app.settings.drain).await;
    // Replies have ended: what they left is committed before the process ends. What is not learned yet stays in the outbox.
    app.halt.cancel();
    app.tracker.close();
    if tokio::time::timeout(Duration::from_secs(HALT_SECONDS), app.tracker.wait()).await.is_err() {
        tracing::warn!("background work did not end in time; the outbox keeps what is left");
    }
    if let Some(exporting) = exporting
        && !exporting.finish(Duration::from_secs(FLUSH_SECONDS)).await
    {
        tracing::warn!("the OpenTelemetry collector did not take what was left in time");
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
    let database = config.database(&SystemEnv);
    format!(
        "backstory {} listening on http://{address}\n\
         upstream: {upstream}, {auth}\n\
         memory:   on, kept in {}\n\
         users:    {who}\n\
         in your app, change one line:  base_url = \"http://{address}/v1\"",
        env!("CARGO_PKG_VERSION"),
        database.display(),
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
    }
}
