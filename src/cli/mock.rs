//! `backstory mock`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{asked_to_stop, complain, say};
use crate::mock::{self, Script};

/// Arguments of `mock`.
#[derive(Debug, Args)]
#[command(after_long_help = mock::HELP)]
pub(super) struct MockArgs {
    /// Address to listen on
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    listen: SocketAddr,
    /// Plays the extraction model with the replies of this file
    #[arg(long, value_name = "FILE")]
    replies: Option<PathBuf>,
}

impl MockArgs {
    fn script(&self) -> Result<Script, String> {
        let Some(path) = &self.replies else { return Ok(Script::default()) };
        let named = |problem: String| format!("{}: {problem}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        mock::from_replies(&text).map_err(named)
    }
}

/// Runs the scripted upstream until SIGTERM or ctrl-c.
pub(super) async fn run(args: MockArgs) -> ExitCode {
    let script = match args.script() {
        Ok(script) => script,
        Err(problem) => {
            complain(&problem);
            return ExitCode::FAILURE;
        }
    };
    let listener = match TcpListener::bind(args.listen).await {
        Ok(listener) => listener,
        Err(error) => {
            complain(&format!("cannot listen on {}: {error}; choose another address with --listen ADDR", args.listen));
            return ExitCode::FAILURE;
        }
    };
    let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
    let mock = mock::start(listener, script, &tracker, stop.clone()).await;
    say(&format!("backstory mock listening on http://{}", mock.addr));
    say(&format!(
        "try: backstory serve --upstream http://{}/v1   (the model's name chooses the behaviour; see `backstory mock --help`)",
        mock.addr
    ));
    asked_to_stop().await;
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    ExitCode::SUCCESS
}
