//! `backstory eval`: measures what is remembered, offline.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{complain, say};
use crate::eval::retrieval::{self, Input, RetrievalArgs};
use crate::recall::RecallConfig;

/// Arguments of `eval`.
#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Recall: how often the right memory is found, how early, within how many tokens, and what nonsense finds
    Retrieval(RetrievalOptions),
}

#[derive(Debug, Args)]
struct RetrievalOptions {
    /// LoCoMo's JSON file
    #[arg(long, value_name = "FILE", required_unless_present = "jsonl", conflicts_with = "jsonl")]
    locomo: Option<PathBuf>,
    /// A file with one memory or question a line
    #[arg(long, value_name = "FILE")]
    jsonl: Option<PathBuf>,
    /// Only the first N questions
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Write a picture of recall over tokens (SVG) there
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures and prints.
pub(super) fn run(args: EvalArgs) -> ExitCode {
    let What::Retrieval(options) = args.what;
    let input = match (options.locomo, options.jsonl) {
        (Some(path), _) => Input::Locomo(path),
        (None, Some(path)) => Input::Jsonl(path),
        (None, None) => {
            complain("name a data set with --locomo FILE or --jsonl FILE");
            return ExitCode::FAILURE;
        }
    };
    let report = match retrieval::run(&RetrievalArgs { input, limit: options.limit, config: RecallConfig::default() }) {
        Ok(report) => report,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        say(&report.json().to_string());
    } else {
        say(&report.table());
    }
    if let Some(path) = options.picture
        && let Err(error) = std::fs::write(&path, report.picture())
    {
        complain(&format!("the picture could not be written to {}: {error}", path.display()));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
