//! Measures what is remembered: conversations in, facts out, against what should have been learned.
//!
//! Cases come from files given by the caller, one a line ([`case`] says how); every user turn of a case is one exchange and goes
//! through the very code that live traffic uses (redaction, [`crate::extract`], arbitration against what the turns before it left).
//! A scripted model can be played beside the rules ([`replies`]). Never touches a store, a clock or the network.
//!
//! Start with [`run`].

mod case;
mod play;
mod replies;
mod report;
mod score;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::EvalError;
pub use report::{Figures, Report};

/// What to measure.
#[derive(Clone, Debug)]
pub struct ExtractionArgs {
    /// Files of cases.
    pub files: Vec<PathBuf>,
    /// What a model would have replied, by case.
    pub replies: Option<PathBuf>,
}

/// Plays all cases and scores what was learned.
///
/// # Errors
/// [`EvalError`] when a file cannot be read or has a line that is no case.
pub fn run(args: &ExtractionArgs) -> Result<Report, EvalError> {
    let mut cases = Vec::new();
    for path in &args.files {
        cases.extend(case::read(&path.display().to_string(), &content(path)?)?);
    }
    let replies = match &args.replies {
        Some(path) => replies::read(&path.display().to_string(), &content(path)?)?,
        None => replies::Replies::new(),
    };
    Ok(measure(&cases, &replies))
}

fn measure(cases: &[case::Case], replies: &replies::Replies) -> Report {
    let scored = cases.iter().map(|case| {
        let facts = play::play(case, replies.get(&case.id).map_or(&[], Vec::as_slice));
        score::score(case, &facts)
    });
    Report::of(scored.collect())
}

fn content(path: &Path) -> Result<String, EvalError> {
    std::fs::read_to_string(path).map_err(|source| EvalError::Read { path: path.display().to_string(), source })
}
