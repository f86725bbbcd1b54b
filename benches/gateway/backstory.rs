//! Backstory as an operator runs it: the release binary (or another build), a config file, a data folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::client::{Call, Connection, KeyRing, Target};
use crate::process::Process;
use crate::servers::Servers;
use crate::{Result, prompts};

const KEY: &str = "bs-bench-key-0123456789";
const ADMIN_KEY: &str = "bs-bench-admin-0123456789";
/// Connections that load the episodes, or make the keys: the store commits what comes together in one go.
const LOADERS: usize = 16;

/// The program that is measured, where it is not the release binary.
static OTHER: OnceLock<PathBuf> = OnceLock::new();

/// Measures this program in place of the release binary; once, before any is started.
pub(crate) fn measure_instead(program: PathBuf) -> Result<()> {
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    OTHER.set(program).map_err(|_| "--binary is there twice".into())
}

/// A command of the program that is measured.
pub(crate) fn command() -> Command {
    Command::new(OTHER.get().map_or(Path::new(env!("CARGO_BIN_EXE_backstory")), PathBuf::as_path))
}

#[derive(Debug)]
pub(crate) struct Backstory {
    pub(crate) process: Process,
    pub(crate) target: Target,
    /// Removed after the process was ended, since fields are dropped in this order.
    folder: TempDir,
}

impl Backstory {
    /// Starts the gateway in front of `upstream`, with the key's `memory` setting, "on" or "off", and with a copy of the
    /// store in `data` or with an empty one.
    pub(crate) fn start(upstream: &str, memory: &str, data: Option<&Path>) -> Result<Self> {
        Self::start_with(data, KeyRing::one(KEY), |data| config_text(upstream, memory, data))
    }

    /// Starts the gateway with limits for everyone, and with the keys of a store; without one it has none yet.
    pub(crate) fn start_limited(upstream: &str, store: Option<&KeyStore>) -> Result<Self> {
        let keys = store.map_or_else(|| KeyRing::one(ADMIN_KEY), |store| Arc::clone(&store.keys));
        let data = store.map(|store| store.folder.path().join("data"));
        Self::start_with(data.as_deref(), keys, |data| limited_config_text(upstream, data))
    }

    /// Starts the gateway with memory on, over servers that others may share.
    pub(crate) fn start_on(servers: &Servers, upstream: &str) -> Result<Self> {
        Self::start_with(None, KeyRing::one(KEY), |data| {
            config_text(upstream, "on", data).replace(&format!("data = \"{data}\""), &servers.config())
        })
    }

    fn start_with(data: Option<&Path>, keys: Arc<KeyRing>, config_text: impl Fn(&str) -> String) -> Result<Self> {
        let folder = TempDir::new()?;
        let own_data = folder.path().join("data");
        fs::create_dir(&own_data)?;
        if let Some(data) = data {
            for file in fs::read_dir(data)? {
                let file = file?;
                fs::copy(file.path(), own_data.join(file.file_name()))?;
            }
        }
        let config = folder.path().join("backstory.toml");
        fs::write(&config, config_text(&own_data.display().to_string()))?;
        let mut command = command();
        command.arg("serve").arg("--config").arg(&config);
        let process = Process::start(command)?;
        let target = Target::new(&process.address, keys);
        Ok(Self { process, target, folder })
    }
}

/// A store with many virtual keys, each of which has every limit there is, and the keys.
#[derive(Debug)]
pub(crate) struct KeyStore {
    folder: TempDir,
    keys: Arc<KeyRing>,
}

impl KeyStore {
    pub(crate) async fn with_keys(upstream: &str, count: usize) -> Result<Self> {
        let backstory = Backstory::start_limited(upstream, None)?;
        let wanted: Arc<Mutex<Vec<usize>>> = Arc::new(Mutex::new((0..count).collect()));
        let mut makers = JoinSet::new();
        for _ in 0..LOADERS {
            let (target, wanted) = (backstory.target.clone(), Arc::clone(&wanted));
            makers.spawn(async move {
                let mut connection = Connection::open(&target).await?;
                let mut made = Vec::new();
                loop {
                    let Some(n) = wanted.lock().await.pop() else { break };
                    let reply = connection.exchange(Call::new("/admin/v1/keys", new_key(n))).await?;
                    let reply: Value = serde_json::from_slice(&reply)?;
                    made.push(reply["key"].as_str().ok_or("a key without its secret")?.to_owned());
                }
                Ok::<Vec<String>, Box<dyn std::error::Error + Send + Sync>>(made)
            });
        }
        let mut keys = Vec::with_capacity(count);
        while let Some(made) = makers.join_next().await {
            keys.extend(made??);
        }
        backstory.process.settle()?;
        let Backstory { process, folder, .. } = backstory;
        drop(process);
        Ok(Self { folder, keys: KeyRing::new(keys) })
    }
}

/// Every limit there is, as members of JSON and as lines of TOML; none is reached.
const LIMITS: [(&str, u64); 7] = [
    ("max_concurrency", 1_000_000),
    ("requests_per_minute", 4_000_000_000),
    ("tokens_per_minute", 1_000_000_000_000),
    ("tokens_per_day", 1_000_000_000_000_000),
    ("tokens_per_month", 1_000_000_000_000_000),
    ("usd_per_day", 1_000_000_000),
    ("usd_per_month", 1_000_000_000),
];

fn new_key(n: usize) -> Bytes {
    let mut settings = json!({"tenant": "bench", "namespace": "bench", "default_subject": "rider", "memory": "off"});
    for (name, limit) in LIMITS {
        settings[name] = json!(limit);
    }
    Bytes::from(json!({"name": format!("key {n}"), "settings": settings}).to_string())
}

/// A store with the episodes of the scope that all requests have, as its folder was left by a process that has ended.
#[derive(Debug)]
pub(crate) struct Store(TempDir);

impl Store {
    pub(crate) async fn with_episodes(upstream: &str, count: usize) -> Result<Self> {
        let backstory = Backstory::start(upstream, "on", None)?;
        let episodes: Arc<Mutex<Vec<Bytes>>> = Arc::new(Mutex::new(prompts::episodes(count).collect()));
        let mut loaders = JoinSet::new();
        for _ in 0..LOADERS {
            let (target, episodes) = (backstory.target.clone(), Arc::clone(&episodes));
            loaders.spawn(async move {
                let mut connection = Connection::open(&target).await?;
                loop {
                    let Some(episode) = episodes.lock().await.pop() else { break };
                    connection.exchange(Call::new("/memory/v1/episodes", episode)).await?;
                }
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            });
        }
        while let Some(loader) = loaders.join_next().await {
            loader??;
        }
        backstory.process.settle()?;
        let Backstory { process, folder, .. } = backstory;
        drop(process);
        Ok(Self(folder))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }
}

fn config_text(upstream: &str, memory: &str, data: &str) -> String {
    format!(
        r#"
[server]
listen = "127.0.0.1:0"

[store]
data = "{data}"

[[providers]]
name = "fixed"
kind = "openai"
dialects = ["chat", "messages"]
base_url = "http://{upstream}/v1"
api_key = "sk-upstream"
default = true

[[keys]]
key = "{KEY}"
tenant = "bench"
namespace = "bench"
default_subject = "rider"
memory = "{memory}"
"#
    )
}

/// Keys come from the store; every person, tenant and model has limits of its own, and what tokens cost is known.
fn limited_config_text(upstream: &str, data: &str) -> String {
    let limits: String = LIMITS.iter().map(|(name, limit)| format!("{name} = {limit}\n")).collect();
    let model = |name: &str| {
        format!(
            "[[models]]\nname = \"{name}\"\n[models.limits]\n{limits}[[models.targets]]\nprovider = \"fixed\"\n\
             model = \"{name}\"\nprice_input_per_million = 2.5\nprice_output_per_million = 10.0\n"
        )
    };
    let models: String = ["fixed", "stream-50-10", "hold"].map(model).concat();
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
max_concurrency = 4096

[store]
data = "{data}"

[admin]
key = "{ADMIN_KEY}"

[[providers]]
name = "fixed"
base_url = "http://{upstream}/v1"
api_key = "sk-upstream"

[limits.each_tenant]
{limits}
[limits.each_subject]
{limits}
{models}"#
    )
}
