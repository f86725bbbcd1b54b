//! Mistakes in a configuration, all of them.

use std::fmt;
use std::path::{Path, PathBuf};

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where it is, as in `keys[2].tenant`; empty for the file as a whole.
    pub path: String,
    /// The value as it is written in the file (variables not replaced); `None` where it may be a secret or there is none.
    pub value: Option<String>,
    /// What is wrong and what is allowed.
    pub problem: String,
}

impl ConfigError {
    pub(super) fn new(path: impl Into<String>, value: Option<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), value, problem: problem.into() }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        if !self.path.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.problem)
    }
}

/// All mistakes of a configuration; its text has one line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    /// The file, where there is one.
    pub file: Option<PathBuf>,
    /// The mistakes; at least one.
    pub errors: Vec<ConfigError>,
}

impl ConfigErrors {
    pub(super) fn new(file: Option<&Path>, errors: Vec<ConfigError>) -> Self {
        Self { file: file.map(Path::to_path_buf), errors }
    }

    pub(super) fn file(path: &Path, problem: &str) -> Self {
        Self::new(Some(path), vec![ConfigError::new("", None, problem)])
    }

    /// A text that is not TOML. Says where, but never shows the line: it may hold a key.
    pub(super) fn syntax(path: &Path, text: &str, error: &toml::de::Error) -> Self {
        let place = error.span().map_or_else(String::new, |span| {
            let before = text.get(..span.start).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
            format!("line {line}, column {column}: ")
        });
        Self::file(path, &format!("{place}not valid TOML: {}", error.message()))
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.errors.len();
        write!(f, "{n} {} in ", if n == 1 { "mistake" } else { "mistakes" })?;
        match &self.file {
            Some(file) => write!(f, "{}", file.display())?,
            None => f.write_str("the configuration")?,
        }
        for error in &self.errors {
            write!(f, "\n  {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
