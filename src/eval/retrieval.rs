//! Asks every question of a data set, and judges what comes back.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

pub use super::report::{Figures, Latency, Report};
pub use super::vectors::VectorArgs;

use super::EvalError;
use super::dataset::{DataScope, Dataset, Question};
use super::vectors::Vectors;
use super::{jsonl, locomo};
use crate::base::{EpisodeId, Time};
use crate::memory::{Episode, RecalledEpisode, Scope, Sensitivity};
use crate::recall::{Exclude, Query, Recall, RecallConfig, ScopeData, Source};
use crate::store::StoreError;
use crate::tokens::{Counter, Encoding};

/// How far down a ranking is looked.
const DEPTH: usize = 200;

/// What to measure.
#[derive(Clone, Debug)]
pub struct RetrievalArgs {
    /// The data set.
    pub input: Input,
    /// Only the first so many questions.
    pub limit: Option<usize>,
    /// The settings to measure.
    pub config: RecallConfig,
    /// Who makes vectors; none = words alone find.
    pub vectors: Option<VectorArgs>,
    /// Only the scopes of one half of the data set: what was chosen on one is to be judged on the other.
    pub half: Option<Half>,
}

/// Half of the scopes of a data set, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first half.
    First,
    /// The second half.
    Second,
}

/// A data set in a file.
#[derive(Clone, Debug)]
pub enum Input {
    /// LoCoMo's JSON.
    Locomo(PathBuf),
    /// One memory or question a line.
    Jsonl(PathBuf),
}

/// What came of one question.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) category: String,
    pub(super) answerable: bool,
    pub(super) expected: usize,
    /// Places of the expected memories in the ranking, from 0, with the tokens of all down to and including it.
    pub(super) found: Vec<(usize, usize)>,
    /// How many episodes the default pack shows, and how many of them were expected.
    pub(super) shown: usize,
    pub(super) shown_right: usize,
    /// What the pack shows, all in all.
    pub(super) recall_seconds: f64,
    /// The search alone, so deep that a ranking can be judged.
    pub(super) search_seconds: f64,
}

/// Reads the data set, remembers it and asks every question. Blocks; takes seconds.
///
/// # Errors
/// When the file cannot be read or is not what it should be.
pub fn run(args: &RetrievalArgs) -> Result<Report, EvalError> {
    let mut dataset = read(&args.input)?;
    let middle = dataset.scopes.len().div_ceil(2);
    match args.half {
        None => {}
        Some(Half::First) => dataset.scopes.truncate(middle),
        Some(Half::Second) => drop(dataset.scopes.drain(..middle)),
    }
    let vectors = args.vectors.as_ref().map(|args| Vectors::make(args, &dataset)).transpose()?;
    Ok(measure(&dataset, &args.config, args.limit, vectors.as_ref()))
}

fn read(input: &Input) -> Result<Dataset, EvalError> {
    let (Input::Locomo(path) | Input::Jsonl(path)) = input;
    let name = path.display().to_string();
    let content = std::fs::read_to_string(path).map_err(|source| EvalError::Read { path: name.clone(), source })?;
    match input {
        Input::Locomo(_) => locomo::read(&name, &content),
        Input::Jsonl(_) => jsonl::read(&name, &content),
    }
}

pub(super) fn measure(
    dataset: &Dataset,
    config: &RecallConfig,
    limit: Option<usize>,
    vectors: Option<&Vectors>,
) -> Report {
    let config = RecallConfig { cache_bytes: u64::MAX, ..config.clone() };
    let recall = Recall::from_source(Arc::new(Nothing), config);
    recall.set_space(vectors.map(|vectors| Arc::clone(&vectors.space)));
    let mut outcomes = Vec::new();
    let mut ingest = 0.0;
    let mut memories = 0;
    for data in &dataset.scopes {
        let scope = data.scope();
        let start = Instant::now();
        recall.fill(&scope, ScopeData { episodes: data.episodes.clone(), ..ScopeData::default() });
        if let Some(vectors) = vectors {
            let packed = data.episodes.iter();
            let packed: Vec<_> =
                packed.filter_map(|episode| Some((episode.id, vectors.document(&episode.text)?))).collect();
            recall.embedded(&scope, vectors.space.generation(), &packed);
        }
        ingest += start.elapsed().as_secs_f64();
        memories += data.episodes.len();
        let left = limit.map_or(usize::MAX, |limit| limit.saturating_sub(outcomes.len()));
        let asker = Asker::new(&recall, &scope, data, vectors);
        outcomes.extend(data.questions.iter().take(left).map(|question| asker.ask(question)));
        recall.invalidate(&scope);
    }
    let embed = vectors.map(|vectors| vectors.question_seconds.as_slice()).unwrap_or_default();
    Report::of(&outcomes, memories, ingest, embed)
}

/// Asks the questions of one scope.
struct Asker<'a> {
    recall: &'a Recall,
    scope: &'a Scope,
    tokens: HashMap<EpisodeId, usize>,
    end: Time,
    vectors: Option<&'a Vectors>,
}

impl<'a> Asker<'a> {
    fn new(recall: &'a Recall, scope: &'a Scope, data: &'a DataScope, vectors: Option<&'a Vectors>) -> Self {
        let tokens = Counter::new(0);
        Self {
            recall,
            scope,
            tokens: data.episodes.iter().map(|e| (e.id, tokens.text(Encoding::O200k, &shown_as(e)))).collect(),
            end: data.end,
            vectors,
        }
    }

    fn ask(&self, question: &Question) -> Outcome {
        let mut query = Query {
            scopes: vec![self.scope.clone()],
            text: question.text.clone(),
            before: None,
            now: question.asked_at.unwrap_or_else(|| self.end.plus_seconds(3_600)),
            max_sensitivity: Sensitivity::Sensitive,
            exclude: Exclude::default(),
            said: Arc::default(),
            max_episodes: DEPTH,
            vector: None,
        };
        query.vector = self.vectors.and_then(|vectors| vectors.question(&self.recall.to_embed(&query)));
        let start = Instant::now();
        let shown = self.recall.recall_now(&query).unwrap_or_default().episodes;
        let recall_seconds = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let ranking = self.recall.search_now(&query).unwrap_or_default();
        let search_seconds = start.elapsed().as_secs_f64();
        let expected = question.expected.as_slice();
        Outcome {
            category: question.category.clone(),
            answerable: question.answerable,
            expected: expected.len(),
            found: self.places_of(expected, &ranking),
            shown: shown.len(),
            shown_right: shown.iter().filter(|hit| expected.contains(&hit.episode.id)).count(),
            recall_seconds,
            search_seconds,
        }
    }

    fn places_of(&self, expected: &[EpisodeId], ranking: &[RecalledEpisode]) -> Vec<(usize, usize)> {
        let mut tokens = 0;
        let mut found = Vec::new();
        for (place, hit) in ranking.iter().enumerate() {
            tokens += self.tokens.get(&hit.episode.id).copied().unwrap_or(0);
            if expected.contains(&hit.episode.id) {
                found.push((place, tokens));
            }
        }
        found
    }
}

/// About as it is shown to a model: who said it and what.
fn shown_as(episode: &Episode) -> String {
    match &episode.speaker {
        Some(speaker) => format!("{speaker}: {}", episode.text),
        None => episode.text.clone(),
    }
}

/// Every scope is put into memory by hand here.
struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn load(&self, _: &Scope, _: usize) -> Result<ScopeData, StoreError> {
        Ok(ScopeData::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our own cases, English and Chinese; no part of any published set.
    fn own(content: &str) -> Report {
        measure(&jsonl::read("own cases", content).unwrap(), &RecallConfig::default(), None, None)
    }

    #[test]
    fn own_cases_are_found_among_the_first_five() {
        for content in [
            include_str!("../../tests/data/recall/english.jsonl"),
            include_str!("../../tests/data/recall/chinese.jsonl"),
            include_str!("../../tests/data/recall/mixed.jsonl"),
            include_str!("../../tests/data/recall/codes.jsonl"),
        ] {
            let report = own(content);
            assert!(report.overall.n >= 10);
            assert!(report.overall.recall_at[0] >= 0.95, "{}", report.table());
        }
    }

    // Live traffic redacts, and remembers no thanks: a question that only they answer is not answered.
    #[test]
    fn memories_are_stored_as_live_traffic_stores_them() {
        let memory = |id, text: &str| {
            format!(
                r#"{{"type":"memory","scope":"a","id":"{id}","session":"s","role":"user","said_at":"2024-01-02","text":"{text}"}}"#
            )
        };
        let question = r#"{"type":"question","scope":"a","text":"Which key opens the harbour office?","expected":["1","2"],"category":"c"}"#;
        let key = "The harbour office key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
        let content = [memory("1", key), memory("2", "thanks a lot!"), question.to_owned()].join("\n");
        let dataset = jsonl::read("own cases", &content).unwrap();
        let stored: Vec<&str> = dataset.scopes[0].episodes.iter().map(|episode| episode.text.as_str()).collect();
        assert!(stored.len() == 1 && !stored[0].contains("sk-proj"), "{stored:?}");
        let report = measure(&dataset, &RecallConfig::default(), None, None);
        assert_eq!((report.n_memories, report.overall.recall_at[0]), (1, 0.5));
    }

    // Traps: random letters recall nothing (mnemosyne-oss/mnemosyne#24, tomcounsell/ai#1213), nor does a question about something else
    // (NousResearch/hermes-agent#22563), a greeting or a request for code.
    #[test]
    fn nonsense_greetings_and_other_subjects_recall_nothing() {
        let report = own(include_str!("../../tests/data/recall/nothing.jsonl"));
        assert!(report.n_unanswerable >= 200);
        assert!(report.false_recall == 0.0, "{}", report.table());
    }

    #[test]
    fn a_limit_is_kept_and_the_json_has_the_promised_names() {
        let dataset = jsonl::read("own cases", include_str!("../../tests/data/recall/english.jsonl")).unwrap();
        let json = measure(&dataset, &RecallConfig::default(), Some(3), None).json();
        assert_eq!(json["overall"]["n"], 3);
        for name in
            ["recall@5", "recall@10", "recall@20", "all@10", "mrr", "recall@500t", "recall@1000t", "recall@2000t"]
        {
            assert!(json["overall"][name].is_number(), "{name}");
        }
    }
}
