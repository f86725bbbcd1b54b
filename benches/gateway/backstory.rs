//! Backstory as an operator runs it: the release binary, a config file, a data folder of its own.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::client::{Connection, Target};
use crate::process::Process;
use crate::{Result, prompts};

const KEY: &str = "bs-bench-key-0123456789";
const BATCH: usize = 500;

#[derive(Debug)]
pub(crate) struct Backstory {
    pub(crate) process: Process,
    pub(crate) target: Target,
    /// Removed after the process was ended, since fields are dropped in this order.
    _data: TempDir,
}

impl Backstory {
    /// Starts the gateway in front of `upstream`. `memory` is the key's setting, "on" or "off".
    pub(crate) fn start(upstream: &str, memory: &str) -> Result<Self> {
        let data = TempDir::new()?;
        let config = data.path().join("backstory.toml");
        fs::write(&config, config_text(upstream, memory, data.path().join("data").display().to_string().as_str()))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_backstory"));
        command.arg("serve").arg("--config").arg(&config);
        let process = Process::start(command)?;
        let target = Target { address: process.address.clone(), key: KEY.to_owned() };
        Ok(Self { process, target, _data: data })
    }

    /// Fills the scope that all requests of the bench have.
    pub(crate) async fn load_episodes(&self, count: usize) -> Result<()> {
        let mut connection = Connection::open(&self.target).await?;
        for batch in prompts::episode_batches(count, BATCH) {
            connection.exchange("/memory/v1/episodes", batch).await?;
        }
        Ok(())
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
