//! Gateways of others, as `benches/peers/run` installs them: LiteLLM's proxy and Portkey's gateway, each as its own documentation
//! starts one.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tempfile::TempDir;

use crate::Result;
use crate::client::{KeyRing, Target};
use crate::process::Process;

/// LiteLLM refuses to start with a short one.
const KEY: &str = "sk-bench-4f1d9c0a7be2463f8d55b1e0c6a97d32";
/// LiteLLM reads a price list and imports for half a minute on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// What the load generator asks for; LiteLLM serves only what it was told of.
const MODELS: [&str; 3] = ["fixed", "stream-50-10", "hold"];

/// A gateway that we did not write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    LiteLlm,
    Portkey,
}

/// One while it runs.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) target: Target,
    /// Removed after the process was ended, since fields are dropped in this order.
    _folder: TempDir,
}

impl Peer {
    /// Starts it from the folder that the install script filled.
    pub(crate) fn start(self, installed: &Path, upstream: &str) -> Result<Started> {
        let folder = TempDir::new()?;
        let port = free_port()?;
        let mut command = ends_with_us();
        let mut headers = HeaderMap::new();
        match self {
            Self::LiteLlm => {
                let config = folder.path().join("litellm.yaml");
                fs::write(&config, litellm_config(upstream))?;
                command.arg(installed.join("litellm/bin/litellm")).arg("--config").arg(config);
                command.args(["--host", "127.0.0.1", "--num_workers", "1", "--port", &port.to_string()]);
                command.env("LITELLM_MASTER_KEY", KEY);
                // Its price list from the package instead of the network, and no line for each request.
                command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("LITELLM_LOG", "ERROR");
                command.env("LITELLM_TELEMETRY", "False");
            }
            Self::Portkey => {
                let server = "portkey/node_modules/@portkey-ai/gateway/build/start-server.js";
                command.arg("node").arg(installed.join(server)).arg("--headless").arg(format!("--port={port}"));
                headers.insert("x-portkey-provider", HeaderValue::from_static("openai"));
                headers.insert("x-portkey-custom-host", format!("http://{upstream}/v1").parse()?);
            }
        }
        let process = Process::start_at(command, format!("127.0.0.1:{port}"), PATIENCE)?;
        let target = Target { headers: Arc::new(headers), ..Target::new(&process.address, KeyRing::one(KEY)) };
        Ok(Started { process, target, _folder: folder })
    }
}

/// A command that is killed when this program ends, however it ends: it has no standard input of ours to watch.
fn ends_with_us() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    command
}

/// Free at this moment; neither of them can be told to choose one.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn litellm_config(upstream: &str) -> String {
    let model = |name: &str| {
        format!(
            "  - model_name: {name}\n    litellm_params:\n      model: openai/{name}\n      api_base: http://{upstream}/v1\n      \
             api_key: sk-upstream\n"
        )
    };
    format!("model_list:\n{}", MODELS.map(model).concat())
}
