//! `backstory eval`: measures what is remembered, offline.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{complain, say};
use crate::eval::extraction::{self, ExtractionArgs};
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
    /// What is learned: how much of it is right, how much is missed, of the wrong person, out of date or junk
    Extraction(ExtractionOptions),
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

#[derive(Debug, Args)]
struct ExtractionOptions {
    /// Files with one case a line
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// What a model would reply: one line `{"id", "replies": [one text per conversation]}` a case
    #[arg(long, value_name = "FILE")]
    replies: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Tell what is wrong in each case
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
}

/// Measures and prints.
pub(super) fn run(args: EvalArgs) -> ExitCode {
    match args.what {
        What::Retrieval(options) => run_retrieval(options),
        What::Extraction(options) => run_extraction(options),
    }
}

fn run_extraction(options: ExtractionOptions) -> ExitCode {
    match extraction::run(&ExtractionArgs { files: options.files, replies: options.replies }) {
        Ok(report) if options.json => say(&report.json().to_string()),
        Ok(report) => say(&report.table(options.verbose)),
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run_retrieval(options: RetrievalOptions) -> ExitCode {
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
