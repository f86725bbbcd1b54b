//! Reads a configuration with everything that it names.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::report::Why;
use super::watch::{Stamp, stamps};
use crate::config::{Config, Env, Noting, Overrides};

/// Where the configuration comes from, each time anew.
#[derive(Clone)]
pub struct Source {
    /// The file; `None` = the one that `BACKSTORY_CONFIG` names.
    pub path: Option<PathBuf>,
    /// What the command line sets over it.
    pub overrides: Overrides,
    /// Variables and files.
    pub env: Arc<dyn Env + Send + Sync>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What was read.
pub(super) struct Loaded {
    /// The configuration, or its mistakes.
    pub(super) config: Result<Config, Vec<String>>,
    /// The files that it is made of, as they were before they were read: what is written meanwhile is a change.
    pub(super) files: Vec<Stamp>,
}

/// Reads it off the async threads: a file may lie on a slow disk.
pub(super) async fn load(source: &Source, why: Why) -> Loaded {
    let source = source.clone();
    let reading = tokio::task::spawn_blocking(move || read(&source, why));
    reading.await.unwrap_or_else(|error| Loaded { config: Err(vec![error.to_string()]), files: Vec::new() })
}

fn read(source: &Source, why: Why) -> Loaded {
    // Twice, since only reading it tells which files there are. Whatever changed between the two is found by the next look.
    let files = stamps(named(source).0);
    let (_, config) = named(source);
    let config = match config {
        // Whoever writes a file in place begins with an empty one. Someone who asks for it means it.
        Ok(config) if why == Why::File && config.marks == crate::config::Marks::default() => {
            Err(vec!["the file says nothing: it is probably being written".to_owned()])
        }
        other => other,
    };
    Loaded { config, files }
}

/// The files that are read, and what stands in them.
fn named(source: &Source) -> (Vec<PathBuf>, Result<Config, Vec<String>>) {
    let noting = Noting::new(&*source.env);
    let config = Config::load_with(source.path.as_deref(), &noting, &source.overrides);
    let config = config.map_err(|errors| errors.errors.iter().map(ToString::to_string).collect());
    (noting.into_files().into_iter().collect(), config)
}
