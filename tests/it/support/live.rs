//! A gateway over a configuration file that changes while it runs: both listeners, TLS, reload, as `serve` wires them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstory::app::reload::{self, Report, Source, Why};
use backstory::app::{App, Parts, build};
use backstory::base::{SystemClock, SystemRandom};
use backstory::certificates::Identity;
use backstory::config::{Config, Overrides, SystemEnv};
use backstory::server::{Drained, Entrance, Front, serve};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::client::Ask;
use super::log;

/// The admin key of these configurations.
pub(crate) const ADMIN_KEY: &str = "bk-admin-0123456789abcdef";

/// A running gateway and its file.
pub(crate) struct Live {
    /// As it was at the start; what runs on is shared by all that follow.
    pub(crate) app: Arc<App>,
    pub(crate) addr: SocketAddr,
    /// The same as `addr`, where there is one address.
    pub(crate) admin: SocketAddr,
    folder: TempDir,
    serving: JoinSet<Drained>,
}

impl Live {
    /// Starts with this text of a file. `FOLDER` in it is the folder that the file is in.
    pub(crate) async fn start(folder: TempDir, text: &str) -> Self {
        log::capture();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let file = folder.path().join("backstory.toml");
        std::fs::write(&file, with_store(text, folder.path())).unwrap();
        let config = Config::load(Some(&file), &SystemEnv).unwrap_or_else(|errors| panic!("{errors}"));
        let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
        let app = build(&config, &SystemEnv, parts).await.unwrap_or_else(|error| panic!("{error}"));
        let mut serving = JoinSet::new();
        let mut fronts = vec![Front::new(&app)];
        let mut open = async |front: &Front, identity: Option<&Arc<Identity>>| {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let addr = listener.local_addr().unwrap();
            let tls = identity.map(Identity::server_config);
            let entrance = Entrance { listener, tls, max_connections: config.server.max_connections };
            serving.spawn(serve(entrance, front.clone(), app.stop.clone(), app.settings.drain));
            addr
        };
        let addr = open(&fronts[0], app.identities.data.as_ref()).await;
        let mut admin = addr;
        if config.server.admin_listen.is_some() {
            fronts.push(Front::admin(&app));
            admin = open(&fronts[1], app.identities.admin.as_ref()).await;
        }
        let source = Source { path: Some(file), overrides: Overrides::default(), env: Arc::new(SystemEnv) };
        reload::start(&app, source, move |app| fronts.iter().for_each(|front| front.follow(app)));
        Self { app, addr, admin, folder, serving }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the file anew, in one step.
    pub(crate) fn write(&self, text: &str) {
        let next = self.path("next.toml");
        std::fs::write(&next, with_store(text, self.folder.path())).unwrap();
        std::fs::rename(next, self.path("backstory.toml")).unwrap();
    }

    /// Writes it and has it taken.
    pub(crate) async fn reload(&self, text: &str) -> Report {
        self.write(text);
        self.app.reloads.ask(Why::Request).await.unwrap()
    }

    /// A request of the operator.
    pub(crate) fn operator(&self, method: &str, target: &str) -> Ask {
        Ask::new(self.admin, method, target).key(ADMIN_KEY)
    }

    /// What `/readyz` says.
    pub(crate) async fn ready(&self) -> Value {
        Ask::new(self.addr, "GET", "/readyz").send().await.must_be(200).json()
    }

    /// The value of one series.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let got = Ask::new(self.admin, "GET", "/metrics").send().await.must_be(200);
        let line = got.text().lines().find(|line| line.starts_with(&format!("{series} ")));
        let line = line.unwrap_or_else(|| panic!("no {series} in\n{}", got.text()));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    /// Stops as at SIGTERM.
    pub(crate) async fn stop(mut self) -> Drained {
        self.app.stop.cancel();
        let mut all = Drained::All;
        while let Some(drained) = self.serving.join_next().await {
            if drained.unwrap() == Drained::Cut {
                all = Drained::Cut;
            }
        }
        self.app.halt.cancel();
        self.app.tracker.close();
        self.app.tracker.wait().await;
        all
    }
}

fn with_store(text: &str, folder: &Path) -> String {
    let folder = folder.to_str().unwrap();
    format!("{}\n[store]\ndata = \"{folder}/data\"\nacknowledge_wait_ms = 30000\n", text.replace("FOLDER", folder))
}
