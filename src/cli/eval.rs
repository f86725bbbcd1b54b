//! `backstory eval`: measures what is remembered, offline.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};

use super::{complain, say};
use crate::app::{self, Parts};
use crate::base::{SystemClock, SystemRandom};
use crate::config::{Config, Overrides, SystemEnv};
use crate::eval::extraction::{self, ExtractionArgs};
use crate::eval::retrieval::{self, Half, Input, RetrievalArgs, VectorArgs};
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
    /// Only one half of the scopes: settings that were chosen on one are to be judged on the other
    #[arg(long, value_name = "HALF")]
    half: Option<HalfArg>,
    /// Configuration file whose section `recall` is measured [default: the built-in settings]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Who makes vectors: openai:URL:MODEL (URL up to and including /v1; its key, if any, in BACKSTORY_EMBEDDER_KEY), local:DIR, or
    /// config for the section `embeddings` of --config [default: nobody, words alone find]
    #[arg(long, value_name = "SPEC")]
    embedder: Option<String>,
    /// Put before every question that is embedded
    #[arg(long, value_name = "TEXT", requires = "embedder")]
    query_prefix: Option<String>,
    /// Put before every memory that is embedded
    #[arg(long, value_name = "TEXT", requires = "embedder")]
    document_prefix: Option<String>,
    /// Keep the vectors there for the next time
    #[arg(long, value_name = "FILE", requires = "embedder")]
    vectors: Option<PathBuf>,
    /// Without the boost for turns of the speaker asked about: most chats have no named speakers
    #[arg(long)]
    no_speaker: bool,
    /// Write a picture of recall over tokens (SVG) there
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HalfArg {
    First,
    Second,
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
    let input = match (options.locomo.clone(), options.jsonl.clone()) {
        (Some(path), _) => Input::Locomo(path),
        (None, Some(path)) => Input::Jsonl(path),
        (None, None) => {
            complain("name a data set with --locomo FILE or --jsonl FILE");
            return ExitCode::FAILURE;
        }
    };
    let (mut config, vectors) = match settings(&options) {
        Ok(settings) => settings,
        Err(problem) => {
            complain(&problem);
            return ExitCode::FAILURE;
        }
    };
    if options.no_speaker {
        config.weights.speaker = 0.0;
    }
    let half = options.half.map(|half| match half {
        HalfArg::First => Half::First,
        HalfArg::Second => Half::Second,
    });
    let report = match retrieval::run(&RetrievalArgs { input, limit: options.limit, config, vectors, half }) {
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

/// What is measured, and who makes vectors.
fn settings(options: &RetrievalOptions) -> Result<(RecallConfig, Option<VectorArgs>), String> {
    let parse = |text: &str| {
        Config::parse(text, Path::new("--embedder"), &SystemEnv, &Overrides::default()).map_err(|e| e.to_string())
    };
    let file = options.config.as_deref();
    let config =
        file.map(|path| Config::load(Some(path), &SystemEnv)).transpose().map_err(|error| error.to_string())?;
    let recall = config.as_ref().map_or_else(RecallConfig::default, app::recall_config);
    let Some(spec) = &options.embedder else { return Ok((recall, None)) };
    let config = match spec.split_once(':') {
        None if spec == "config" => config.ok_or("--embedder config needs --config FILE")?,
        Some(("openai", rest)) => {
            let (url, model) = url_and_model(rest).ok_or("--embedder openai:URL:MODEL")?;
            parse(&with_prefixes(openai(url, model), options))?
        }
        Some(("local", folder)) => {
            parse(&with_prefixes(format!("[embeddings]\nengine = \"local\"\npath = {}\n", quoted(folder)), options))?
        }
        _ => return Err(format!("--embedder {spec}: openai:URL:MODEL, local:DIR or config")),
    };
    let parts = Parts { clock: Arc::new(SystemClock), random: Arc::new(SystemRandom) };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
    let embedder = runtime.block_on(app::embedder(&config, &parts)).map_err(|error| error.to_string())?;
    let embedder = embedder.ok_or("nobody makes vectors: embeddings.engine is \"off\"")?;
    Ok((recall, Some(VectorArgs { embedder, file: options.vectors.clone() })))
}

/// Parts `URL:MODEL` at the first colon that is not the scheme's or the port's: names of models have colons, too.
fn url_and_model(text: &str) -> Option<(&str, &str)> {
    let host = text.find("://")? + 3;
    let is_port = |behind: &str| {
        let rest = behind.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < behind.len() && rest.starts_with(['/', ':'])
    };
    let host = host + text[host..].find(']').map_or(0, |end| end + 1);
    let (at, _) = text[host..].match_indices(':').find(|&(at, _)| !is_port(&text[host + at + 1..]))?;
    let (url, model) = text.split_at(host + at);
    Some((url, &model[1..])).filter(|(_, model)| !model.is_empty())
}

/// The configuration of an embedder behind an address.
fn openai(url: &str, model: &str) -> String {
    let key = match std::env::var_os("BACKSTORY_EMBEDDER_KEY") {
        Some(_) => "api_key = \"${BACKSTORY_EMBEDDER_KEY}\"\n",
        None => "",
    };
    format!(
        "[[providers]]\nname = \"embedder\"\nbase_url = {}\ndefault = true\n{key}[embeddings]\nengine = \"openai\"\nprovider = \"embedder\"\nmodel = {}\n",
        quoted(url),
        quoted(model),
    )
}

fn with_prefixes(mut toml: String, options: &RetrievalOptions) -> String {
    for (key, prefix) in [("query_prefix", &options.query_prefix), ("document_prefix", &options.document_prefix)] {
        if let Some(prefix) = prefix {
            toml += &format!("{key} = {}\n", quoted(prefix));
        }
    }
    toml
}

/// A string as TOML has it, which is how JSON has it; `$` stands for itself.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.replace("${", "$${")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_may_have_a_colon_in_its_name() {
        for (text, parts) in [
            ("http://localhost:11434/v1:bge-m3:latest", Some(("http://localhost:11434/v1", "bge-m3:latest"))),
            ("https://api.example.com/v1:text-embedding-3", Some(("https://api.example.com/v1", "text-embedding-3"))),
            ("http://[::1]:8080:BAAI/bge", Some(("http://[::1]:8080", "BAAI/bge"))),
            ("http://localhost:8080", Some(("http://localhost", "8080"))),
            ("http://localhost/v1:", None),
            ("localhost/v1:model", None),
        ] {
            assert_eq!(url_and_model(text), parts, "{text}");
        }
    }
}
