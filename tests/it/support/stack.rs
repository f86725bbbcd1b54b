//! A gateway with its upstreams.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstory::app::{App, BuildError, Parts, build};
use backstory::base::{SystemClock, SystemRandom};
use backstory::config::{Config, Env, Overrides};
use backstory::mock::{self, MockHandle, Recorded, Script};
use backstory::server::{Drained, Front, serve};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::client::Ask;
use super::{eventually, log};

/// The virtual key of the default configuration.
pub(crate) const KEY: &str = "bk-virtual-0123456789abcdef";
/// The key that the default configuration sends upstream.
pub(crate) const PROVIDER_KEY: &str = "sk-provider-0123456789abcdef";

/// How long the end of a reply waits at most until it is durable, in these tests.
pub(crate) const ACKNOWLEDGE_WAIT: Duration = Duration::from_secs(30);

const ONE_KEY: &str = r#"
[[keys]]
key = "${KEY}"
tenant = "one"
passthrough = ["/v1/audio/"]
"#;

/// The mock takes all dialects as they are.
const ONE_PROVIDER: &str = r#"
[[providers]]
name = "upstream"
base_url = "${UPSTREAM}"
api_key = "${PROVIDER_KEY}"
dialects = ["chat", "messages", "responses"]
"#;

/// What a stack is started with.
pub(crate) struct Builder {
    scripts: Vec<Script>,
    server: String,
    store: String,
    acknowledge_wait: Duration,
    recall: String,
    keys: String,
    providers: String,
    more: String,
    folder: Option<TempDir>,
    beside: Option<PathBuf>,
    env: MapEnv,
}

impl Builder {
    /// A variable of the environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.set(name, value);
        self
    }

    /// A file that the configuration may name.
    pub(crate) fn file(mut self, name: &str, text: &str) -> Self {
        self.env.files.insert(PathBuf::from(name), text.to_owned());
        self
    }

    /// A further upstream; the first is `${UPSTREAM}`, the next `${UPSTREAM_2}`, and so on.
    pub(crate) fn upstream(mut self, script: Script) -> Self {
        self.scripts.push(script);
        self
    }

    /// Lines of `[server]`.
    pub(crate) fn server(mut self, lines: &str) -> Self {
        self.server.push_str(lines);
        self
    }

    /// Lines of `[store]`.
    pub(crate) fn store(mut self, lines: &str) -> Self {
        self.store.push_str(lines);
        self
    }

    /// How long the end of a reply waits until it is durable.
    pub(crate) fn acknowledge_wait(mut self, wait: Duration) -> Self {
        self.acknowledge_wait = wait;
        self
    }

    /// Lines of `[recall]`, instead of a deadline that a busy machine keeps.
    pub(crate) fn recall(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.recall);
        self
    }

    /// All `[[keys]]`, instead of the one.
    pub(crate) fn keys(mut self, text: &str) -> Self {
        text.clone_into(&mut self.keys);
        self
    }

    /// No keys: clients bring their own.
    pub(crate) fn client_mode(self) -> Self {
        self.keys("")
            .providers("[[providers]]\nname = \"upstream\"\nbase_url = \"${UPSTREAM}\"\napi_key = \"client\"\ndialects = [\"chat\", \"messages\", \"responses\"]\n")
    }

    /// All `[[providers]]`, instead of the one.
    pub(crate) fn providers(mut self, text: &str) -> Self {
        text.clone_into(&mut self.providers);
        self
    }

    /// One alias `chain` with a target at each of `n` upstreams, in order.
    pub(crate) fn chain(mut self, n: usize) -> Self {
        self.providers.clear();
        for at in 1..=n {
            let upstream = if at == 1 { "UPSTREAM".to_owned() } else { format!("UPSTREAM_{at}") };
            self.providers.push_str(&format!(
                "[[providers]]\nname = \"p{at}\"\nbase_url = \"${{{upstream}}}\"\napi_key = \"sk-provider-number-{at}-abcdef\"\ndialects = [\"chat\", \"messages\", \"responses\"]\n"
            ));
        }
        self.more.push_str("[[models]]\nname = \"chain\"\n");
        for at in 1..=n {
            self.more.push_str(&format!("[[models.targets]]\nprovider = \"p{at}\"\nmodel = \"mock\"\norder = {at}\n"));
        }
        self
    }

    /// Any further sections.
    pub(crate) fn with(mut self, text: &str) -> Self {
        self.more.push_str(text);
        self.more.push('\n');
        self
    }

    /// A data folder that is there already.
    pub(crate) fn in_folder(mut self, folder: TempDir) -> Self {
        self.folder = Some(folder);
        self
    }

    /// The data folder of another stack, which outlives this one: a second replica.
    pub(crate) fn beside(mut self, stack: &Stack) -> Self {
        self.beside = Some(stack.folder().to_path_buf());
        self
    }

    /// Starts everything.
    pub(crate) async fn start(self) -> Stack {
        self.try_start().await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, where it may be refused.
    pub(crate) async fn try_start(self) -> Result<Stack, BuildError> {
        log::capture();
        // A second test of the process finds it installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = self.folder.unwrap_or_else(|| tempfile::tempdir().unwrap());
        let (tracker, stop_upstreams) = (TaskTracker::new(), CancellationToken::new());
        let mut env = self.env;
        env.set("KEY", KEY);
        env.set("PROVIDER_KEY", PROVIDER_KEY);
        env.set("DATA", self.beside.as_deref().unwrap_or(folder.path()).to_str().unwrap());
        env.set("CLOSED", &format!("http://{}/v1", closed_port().await));
        let mut upstreams = Vec::new();
        for script in self.scripts {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mock = mock::start(listener, script, &tracker, stop_upstreams.clone()).await;
            let name =
                if upstreams.is_empty() { "UPSTREAM".to_owned() } else { format!("UPSTREAM_{}", upstreams.len() + 1) };
            env.set(&name, &mock.base_url());
            upstreams.push(mock);
        }
        let data = if self.store.contains("url =") { "" } else { "data = \"${DATA}\"" };
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{}\n[store]\n{data}\nacknowledge_wait_ms = {}\n{}\n[recall]\n{}\n{}\n{}\n{}",
            self.server,
            self.acknowledge_wait.as_millis(),
            self.store,
            self.recall,
            self.providers,
            self.keys,
            self.more
        );
        let config = Config::parse(&text, Path::new("it.toml"), &env, &Overrides::default())
            .unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
        let app = build(&config, &env, parts).await?;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Front::new(&app), app.stop.clone(), app.settings.drain));
        Ok(Stack { app, addr, upstreams, serving, folder, stop_upstreams })
    }
}

/// A running gateway and its upstreams.
pub(crate) struct Stack {
    pub(crate) app: Arc<App>,
    pub(crate) addr: SocketAddr,
    pub(crate) upstreams: Vec<MockHandle>,
    serving: JoinSet<Drained>,
    folder: TempDir,
    stop_upstreams: CancellationToken,
}

impl Stack {
    /// One upstream behind the default configuration.
    pub(crate) fn of(script: Script) -> Builder {
        Builder {
            scripts: vec![script],
            server: String::new(),
            store: String::new(),
            acknowledge_wait: ACKNOWLEDGE_WAIT,
            recall: "deadline_ms = 30000\n".to_owned(),
            keys: ONE_KEY.to_owned(),
            providers: ONE_PROVIDER.to_owned(),
            more: String::new(),
            folder: None,
            beside: None,
            env: MapEnv::default(),
        }
    }

    /// The same, started.
    pub(crate) async fn new(script: Script) -> Self {
        Self::of(script).start().await
    }

    /// The first upstream.
    pub(crate) fn upstream(&self) -> &MockHandle {
        &self.upstreams[0]
    }

    /// The newest request that the first upstream got.
    #[track_caller]
    pub(crate) fn sent(&self) -> Recorded {
        self.upstream().last_request().expect("upstream was asked")
    }

    /// The folder of the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A request to this gateway, with the default key.
    pub(crate) fn ask(&self, method: &str, target: &str) -> Ask {
        Ask::new(self.addr, method, target).header("authorization", &format!("Bearer {KEY}"))
    }

    /// A chat request with this body.
    pub(crate) fn chat(&self, body: impl Into<bytes::Bytes>) -> Ask {
        self.ask("POST", "/v1/chat/completions").header("content-type", "application/json").body(body)
    }

    /// Waits until everything that was recorded is learned.
    pub(crate) async fn learned(&self) {
        eventually("the outbox is empty", || async {
            let queued = self.app.outbox.health().queued;
            let waiting = self.app.store.depth().await.unwrap().waiting;
            (queued == 0 && waiting == 0).then_some(())
        })
        .await;
    }

    /// Stops as at SIGTERM and returns how serving ended.
    pub(crate) async fn stop(mut self) -> (Drained, TempDir) {
        self.app.stop.cancel();
        let drained = self.serving.join_next().await.unwrap().unwrap();
        self.app.halt.cancel();
        self.app.tracker.close();
        self.app.tracker.wait().await;
        self.stop_upstreams.cancel();
        (drained, self.folder)
    }
}

/// An address where nothing listens.
async fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Variables and files from maps.
#[derive(Default)]
struct MapEnv {
    vars: HashMap<String, String>,
    files: HashMap<PathBuf, String>,
}

impl MapEnv {
    fn set(&mut self, name: &str, value: &str) {
        self.vars.insert(name.to_owned(), value.to_owned());
    }
}

impl Env for MapEnv {
    fn var(&self, name: &str) -> Option<String> {
        self.vars.get(name).cloned()
    }

    fn file(&self, path: &Path) -> io::Result<String> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Every file below a folder, with its bytes.
pub(crate) fn files_below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    found
}
