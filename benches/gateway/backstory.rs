//! Backstory as an operator runs it: the release binary, a config file, a data folder of its own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::client::{Connection, Target};
use crate::process::Process;
use crate::{Result, prompts};

const KEY: &str = "bs-bench-key-0123456789";
/// Connections that load the episodes: the store commits what comes together in one go.
const LOADERS: usize = 16;

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
        fs::write(&config, config_text(upstream, memory, &own_data.display().to_string()))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstory"));
        command.arg("serve").arg("--config").arg(&config);
        let process = Process::start(command)?;
        let target = Target { address: process.address.clone(), key: KEY.to_owned() };
        Ok(Self { process, target, folder })
    }
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
                    connection.exchange("/memory/v1/episodes", episode).await?;
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

    pub(crate) fn data(&self) -> std::path::PathBuf {
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
