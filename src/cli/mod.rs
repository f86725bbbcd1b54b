//! The command line: one file a command, this one for what they share.
//!
//! Commands read the config, build what they need and print. They decide nothing: each is a thin way into the modules
//! below. This is the only module that prints.

mod bar;
mod check;
mod doctor;
mod dry_run;
mod eval;
mod explain;
mod fill;
mod keys;
mod knowledge;
mod migrate;
mod mock;
mod models;
mod pages;
mod serve;
mod transfer;
mod usage;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};

use crate::app::reload::Source;
use crate::config::{Config, ConfigErrors, Overrides, SystemEnv};

/// An OpenAI-compatible gateway with a memory: repoint base_url, and the next conversation remembers.
#[derive(Debug, Parser)]
#[command(name = "backstory", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the gateway. Without a config: on loopback, for one person, the client's own key passed to --upstream
    Serve(serve::ServeArgs),
    /// Reads the config and prints every mistake in it, or what it says
    Check(ConfigArgs),
    /// Looks at config, data folder, store and upstreams, and says what to do about what is wrong
    Doctor(doctor::DoctorArgs),
    /// Shows what would be sent for a chat request (a file, or - for standard input) and why, without sending it
    Explain(Box<explain::ExplainArgs>),
    /// Makes, lists, rotates and revokes virtual keys in the store
    Keys(keys::KeysArgs),
    /// Prints what was used and cost, by key, tenant, model, person or day
    Usage(Box<usage::UsageArgs>),
    /// Writes, lists and deletes documents of a namespace in a running gateway
    Knowledge(knowledge::KnowledgeArgs),
    /// Measures recall on a data set of conversations and questions
    Eval(eval::EvalArgs),
    /// Writes all memories of one person out of a running gateway, as NDJSON
    Export(transfer::ExportArgs),
    /// Takes memories into a running gateway: an export of ours, of ChatGPT or of mem0
    Import(transfer::ImportArgs),
    /// Copies the records of one database into PostgreSQL, while gateways run on the first; may be run again and again
    Migrate(migrate::MigrateArgs),
    /// Has a running gateway take made-up memories of many people, to see how it does at size
    Fill(fill::FillArgs),
    /// Lists embedding models and downloads them
    Models(models::ModelsArgs),
    /// Runs a scripted upstream, to see the whole loop without an API key
    Mock(mock::MockArgs),
}

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// The config file; else the one named by BACKSTORY_CONFIG; else the built-in defaults
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address to listen on, as in 127.0.0.1:8080
    #[arg(long, global = true, value_name = "ADDR")]
    listen: Option<String>,
    /// Base URL of the default upstream, up to and including /v1 [default: the OpenAI API]
    #[arg(long, global = true, value_name = "URL")]
    upstream: Option<String>,
    /// Folder of the embedded store
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Listen on a non-loopback address without keys all the same: everyone who can reach it may use it
    #[arg(long, global = true)]
    allow_open: bool,
}

impl ConfigArgs {
    fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen.clone(),
            upstream: self.upstream.clone(),
            data: self.data.clone(),
            allow_open: self.allow_open,
        }
    }

    /// Where the same comes from again, while running.
    fn source(&self) -> Source {
        Source { path: self.config.clone(), overrides: self.overrides(), env: Arc::new(SystemEnv) }
    }

    fn load(&self) -> Result<Config, ConfigErrors> {
        Config::load_with(self.config.as_deref(), &SystemEnv, &self.overrides())
    }
}

/// Runs the command line.
pub fn run(cli: Cli) -> ExitCode {
    match cli.command {
        Command::Check(args) => {
            let checked = check::run(&args.overrides(), args.config.as_deref(), &SystemEnv);
            if checked.code == 0 {
                say(&checked.text)
            } else {
                complain(&checked.text)
            }
            ExitCode::from(checked.code)
        }
        Command::Serve(args) => on_runtime(serve::run(args, pages::Small::begin())),
        Command::Doctor(args) => on_runtime(doctor::run(args)),
        Command::Migrate(args) => on_runtime(migrate::run(args)),
        Command::Explain(args) => on_runtime(explain::run(*args)),
        Command::Keys(args) => on_runtime(keys::run(args)),
        Command::Usage(args) => on_runtime(usage::run(*args)),
        Command::Knowledge(args) => on_runtime(knowledge::run(args)),
        Command::Eval(args) => eval::run(args),
        Command::Export(args) => on_runtime(transfer::export(args)),
        Command::Import(args) => on_runtime(transfer::import(args)),
        Command::Fill(args) => on_runtime(fill::run(args)),
        Command::Models(args) => on_runtime(models::run(args)),
        Command::Mock(args) => on_runtime(mock::run(args)),
    }
}

fn on_runtime(command: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => {
            complain(&format!("the async runtime cannot be started: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line to standard output. A reader that has had enough (`| head`) is no error.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody is left to tell.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints a line to standard error.
#[expect(clippy::print_stderr, reason = "this is how a command complains")]
fn complain(text: &str) {
    eprintln!("backstory: {text}");
}

/// A signal that asks for the end: SIGTERM, or ctrl-c.
async fn asked_to_stop() {
    let interrupt = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                tokio::select! {
                    _ = interrupt => {}
                    _ = terminate.recv() => {}
                }
            }
            Err(_) => {
                let _ = interrupt.await;
            }
        }
    }
    #[cfg(not(unix))]
    {
        let _ = interrupt.await;
    }
}
