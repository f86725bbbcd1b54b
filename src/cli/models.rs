//! `backstory models`: embedding models for the engine `local`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use tokio_util::task::TaskTracker;

use super::{ConfigArgs, complain, say};
use crate::config::SystemEnv;
use crate::embed::Embed;
use crate::embedders::{KNOWN_MODELS, LocalConfig, LocalEmbedder, MODEL_FILES, ModelSource, ORIGIN_FILE};
use crate::upstream::{Downloaded, Downloads};

/// Arguments of `models`.
#[derive(Debug, Args)]
pub(super) struct ModelsArgs {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Lists the embedding models that are known by name
    List,
    /// Downloads an embedding model, once: for `embeddings` with engine = "local"
    Pull(PullArgs),
}

#[derive(Debug, Args)]
struct PullArgs {
    /// A name that `list` prints, hf:OWNER/NAME, hf:OWNER/NAME@REVISION, or the https:// address of a folder with the files of a model
    name: String,
    /// Where to put it [default: models/NAME in the data folder]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Base URL of the model hub, or of a mirror of it
    #[arg(long, value_name = "URL", env = "BACKSTORY_MODEL_HUB", default_value = "https://huggingface.co")]
    hub: String,
}

/// Runs one of the commands.
pub(super) async fn run(args: ModelsArgs) -> ExitCode {
    let pull = match args.what {
        What::List => {
            list();
            return ExitCode::SUCCESS;
        }
        What::Pull(pull) => pull,
    };
    match pull.run(&args.config).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            complain(&problem);
            ExitCode::FAILURE
        }
    }
}

fn list() {
    for model in KNOWN_MODELS {
        say(&format!(
            "{:<14} {:>4} MB  {:<11} {}\n{:<14} {}",
            model.name, model.megabytes, model.licence, model.languages, "", model.repository
        ));
    }
    say(
        "\nbackstory models pull NAME [--to DIR] downloads one. Any other model of the BERT family with model.safetensors and\n\
         tokenizer.json is named hf:OWNER/NAME, or by the https:// address of its folder.",
    );
}

impl PullArgs {
    async fn run(self, config: &ConfigArgs) -> Result<(), String> {
        let source = ModelSource::parse(&self.name, &self.hub)?;
        let folder = match self.to {
            Some(folder) => folder,
            None => {
                let config = config.load().map_err(|errors| errors.to_string())?;
                config.data_folder(&SystemEnv).join("models").join(&source.folder)
            }
        };
        if folder.exists() {
            let other = origin(&folder).filter(|origin| *origin != source.origin);
            if let Some(other) = other {
                return Err(holds(&folder, &other));
            }
            return match opened(&folder) {
                Ok(_) => {
                    say(&format!("{} is there already", folder.display()));
                    Ok(())
                }
                Err(error) => Err(format!("{error}\nremove the folder, or choose another with --to DIR")),
            };
        }
        // Everything is put together beside the folder, which gets its name when it is complete: a model is whole or not there.
        let mut work = folder.clone().into_os_string();
        work.push(".part");
        let work = PathBuf::from(work);
        begin(&source, &work)?;
        download(&source, &work).await?;
        let model = opened(&work)?;
        std::fs::rename(&work, &folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        told(&source, &folder, model.generation().dimension.unwrap_or_default());
        Ok(())
    }
}

/// Which model a folder is of, where that was written down.
fn origin(folder: &Path) -> Option<String> {
    Some(std::fs::read_to_string(folder.join(ORIGIN_FILE)).ok()?.trim().to_owned())
}

fn holds(folder: &Path, other: &str) -> String {
    format!("{} holds {other}\nremove the folder, or choose another with --to DIR", folder.display())
}

/// Writes down whose files are put together, so that those of two models are never mixed.
fn begin(source: &ModelSource, work: &Path) -> Result<(), String> {
    let unwritable = |error: std::io::Error| format!("{} cannot be made: {error}", work.display());
    match origin(work) {
        Some(origin) if origin == source.origin => return Ok(()),
        Some(other) => return Err(holds(work, &other)),
        None if work.exists() => return Err(holds(work, "the beginning of a model that is not known")),
        None => {}
    }
    std::fs::create_dir_all(work).map_err(unwritable)?;
    std::fs::write(work.join(ORIGIN_FILE), format!("{}\n", source.origin)).map_err(unwritable)
}

async fn download(source: &ModelSource, work: &Path) -> Result<(), String> {
    let downloads = Downloads::new(&source.base_url)?;
    for (file, optional) in MODEL_FILES {
        let to = work.join(file);
        if let Some(folder) = to.parent() {
            std::fs::create_dir_all(folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        }
        if to.exists() {
            continue;
        }
        let sha256 = source.known.and_then(|known| known.sha256).filter(|_| *file == "model.safetensors");
        let url = format!("{}{file}", source.base_url);
        let mut bar = Bar::of(file);
        let fetched = downloads.fetch(&url, &to, sha256, &mut |have, total| bar.show(have, total)).await;
        bar.end();
        match fetched.map_err(|reason| format!("{url}: {reason}"))? {
            Downloaded::NotThere if *optional => {}
            Downloaded::NotThere => return Err(format!("{url} is not there: is it a model with safetensors?")),
            Downloaded::Done { sha256, checked } => {
                let note = if checked { "checked" } else { "nobody told what its SHA-256 must be" };
                say(&format!("{file}: {note}"));
                write_down(&work.join("SHA256SUMS"), &format!("{sha256}  {file}\n"))?;
            }
        }
    }
    Ok(())
}

/// Writes a hash down after each file: a run that goes on where another ended keeps what that one wrote.
fn write_down(list: &Path, line: &str) -> Result<(), String> {
    let before = std::fs::read_to_string(list).unwrap_or_default();
    let written = std::fs::write(list, before + line);
    written.map_err(|error| format!("{} cannot be written: {error}", list.display()))
}

fn opened(folder: &Path) -> Result<LocalEmbedder, String> {
    LocalEmbedder::open(folder, LocalConfig::default(), TaskTracker::new()).map_err(|error| error.to_string())
}

/// What to write into the configuration.
fn told(source: &ModelSource, folder: &Path, dimension: u32) {
    let (query, document) = source.known.map_or(("", ""), |known| (known.query_prefix, known.document_prefix));
    let path = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    say(&format!(
        "\nit makes vectors of {dimension} numbers. For the configuration:\n\n[embeddings]\nengine = \"local\"\npath = {:?}\n\
         query_prefix = {query:?}\ndocument_prefix = {document:?}",
        path.display().to_string()
    ));
}

/// How far a download is, on a terminal; a line at the end elsewhere.
struct Bar {
    file: &'static str,
    terminal: bool,
    /// The last thousandth that was shown.
    shown: Option<u64>,
}

impl Bar {
    fn of(file: &'static str) -> Self {
        Self { file, terminal: std::io::stderr().is_terminal(), shown: None }
    }

    fn show(&mut self, have: u64, total: Option<u64>) {
        let step = total.filter(|total| *total > 0).map_or(have >> 20, |total| have.saturating_mul(1000) / total);
        if !self.terminal || self.shown == Some(step) {
            return;
        }
        self.shown = Some(step);
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let text = match total {
            Some(total) => {
                let filled = usize::try_from(step / 25).unwrap_or(40).min(40);
                format!("{:<40} {:.1} of {:.1} MB", "#".repeat(filled), megabytes(have), megabytes(total))
            }
            None => format!("{:.1} MB", megabytes(have)),
        };
        // A terminal that cannot be written to shows nothing, and nothing is lost.
        let _ = write!(std::io::stderr().lock(), "\r{}: {text}", self.file);
    }

    fn end(&self) {
        if self.shown.is_some() {
            let _ = writeln!(std::io::stderr().lock());
        }
    }
}
