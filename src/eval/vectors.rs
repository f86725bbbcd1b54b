//! The vectors of a data set: asked of an embedder once, and kept in a file for the next time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::EvalError;
use super::dataset::Dataset;
use crate::embed::{Embed, EmbedError, Generation, Packed, Side};
use crate::recall::Space;

/// Texts that are embedded between two writes of the file.
const BATCH: usize = 256;
/// Begins a file of vectors; the name of their generation follows.
const MAGIC: &[u8] = b"backstory vectors 1\n";

/// Who makes the vectors, and where they are kept.
#[derive(Clone, Debug)]
pub struct VectorArgs {
    /// Makes them.
    pub embedder: Arc<dyn Embed>,
    /// Keeps them from one run to the next.
    pub file: Option<PathBuf>,
}

/// The vectors of a data set.
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) space: Arc<Space>,
    known: Known,
    /// How long one question took to embed, in seconds; none where they were kept from before.
    pub(super) question_seconds: Vec<f64>,
}

/// By side and text.
#[derive(Debug, Default)]
struct Known(HashMap<(Side, String), Vec<f32>>);

impl Vectors {
    pub(super) fn document(&self, text: &str) -> Option<Packed> {
        Packed::of(self.known.0.get(&(Side::Document, text.to_owned()))?)
    }

    pub(super) fn question(&self, text: &str) -> Option<Arc<[f32]>> {
        Some(self.known.0.get(&(Side::Query, text.to_owned()))?.as_slice().into())
    }

    /// Embeds what is not kept already.
    pub(super) fn make(args: &VectorArgs, dataset: &Dataset) -> Result<Self, EvalError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| EvalError::Read { path: "the async runtime".to_owned(), source })?;
        runtime.block_on(Self::ask(args, dataset))
    }

    async fn ask(args: &VectorArgs, dataset: &Dataset) -> Result<Self, EvalError> {
        let generation = args.embedder.generation();
        let mut known = match &args.file {
            Some(path) => Known::read(path, generation)?,
            None => Known::default(),
        };
        let background = Space::texts();
        let documents =
            dataset.scopes.iter().flat_map(|scope| scope.episodes.iter().map(|episode| episode.text.as_str()));
        let documents: Vec<&str> = background.documents.iter().copied().chain(documents).collect();
        for batch in known.missing(Side::Document, &documents).chunks(BATCH) {
            let made = args.embedder.embed(Side::Document, batch).await.map_err(failed)?;
            known.take(Side::Document, batch, made);
            known.keep(args, generation)?;
        }
        let mut asked = Vec::new();
        for scope in &dataset.scopes {
            let speakers = scope.speakers();
            asked.extend(scope.questions.iter().map(|question| speakers.leave_out(&question.text)));
        }
        let questions = background.questions.iter().copied().chain(asked.iter().map(|text| &**text));
        let questions: Vec<&str> = questions.collect();
        let mut question_seconds = Vec::new();
        for batch in known.missing(Side::Query, &questions).chunks(BATCH) {
            for &text in batch {
                // One at a time, as they come.
                let begun = Instant::now();
                let made = args.embedder.embed(Side::Query, &[text]).await.map_err(failed)?;
                question_seconds.push(begun.elapsed().as_secs_f64());
                known.take(Side::Query, &[text], made);
            }
            known.keep(args, generation)?;
        }
        let space = known.space(&generation.id())?;
        Ok(Self { space: Arc::new(space), known, question_seconds })
    }
}

impl Known {
    /// Those of the texts that have no vector, each once.
    fn missing<'a>(&self, side: Side, texts: &[&'a str]) -> Vec<&'a str> {
        let mut seen = std::collections::HashSet::new();
        let lacks = |text: &&str| !self.0.contains_key(&(side, (*text).to_owned())) && !text.trim().is_empty();
        texts.iter().copied().filter(|text| lacks(text) && seen.insert(*text)).collect()
    }

    fn take(&mut self, side: Side, texts: &[&str], vectors: Vec<Vec<f32>>) {
        self.0.extend(texts.iter().map(|text| (side, (*text).to_owned())).zip(vectors));
    }

    fn space(&self, generation: &str) -> Result<Space, EvalError> {
        let texts = Space::texts();
        let of = |side: Side, texts: &[&str]| -> Vec<Vec<f32>> {
            texts.iter().filter_map(|text| self.0.get(&(side, (*text).to_owned())).cloned()).collect()
        };
        let unusable = |error: crate::recall::SpaceError| EvalError::Embed(error.to_string());
        let written = Space::write(&of(Side::Document, &texts.documents), &of(Side::Query, &texts.questions))
            .map_err(unusable)?;
        Space::read(generation, &written).map_err(unusable)
    }

    /// Reads a file; one of another generation, or none at all, is an empty one.
    fn read(path: &Path, generation: &Generation) -> Result<Self, EvalError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(EvalError::Read { path: path.display().to_string(), source }),
        };
        let rest = bytes.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(generation.id().as_bytes()));
        let mut known = Self::default();
        let Some(mut rest) = rest else { return Ok(known) };
        while let Some((side, text, vector, behind)) = record(rest) {
            known.0.insert((side, text), vector);
            rest = behind;
        }
        Ok(known)
    }

    fn keep(&self, args: &VectorArgs, generation: &Generation) -> Result<(), EvalError> {
        let Some(path) = &args.file else { return Ok(()) };
        let mut bytes = [MAGIC, generation.id().as_bytes()].concat();
        for ((side, text), vector) in &self.0 {
            bytes.push(u8::from(*side == Side::Query));
            for n in [text.len(), vector.len()] {
                bytes.extend(u32::try_from(n).unwrap_or(0).to_le_bytes());
            }
            bytes.extend(text.as_bytes());
            bytes.extend(vector.iter().flat_map(|x| x.to_le_bytes()));
        }
        std::fs::write(path, bytes).map_err(|source| EvalError::Write { path: path.display().to_string(), source })
    }
}

/// Side, text, vector, and what stands behind them.
type Record<'a> = (Side, String, Vec<f32>, &'a [u8]);

/// Reads one record; `None` at the end, or where the file was cut off.
fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let (&side, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_first_chunk::<4>()?;
    let (vector, rest) = rest.split_first_chunk::<4>()?;
    let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*text) as usize)?;
    let (vector, rest) = rest.split_at_checked(4 * u32::from_le_bytes(*vector) as usize)?;
    let vector = vector.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let side = if side == 1 { Side::Query } else { Side::Document };
    Some((side, std::str::from_utf8(text).ok()?.to_owned(), vector, rest))
}

fn failed(error: EmbedError) -> EvalError {
    EvalError::Embed(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;

    use super::*;
    use crate::eval::jsonl;
    use crate::eval::retrieval::measure;
    use crate::recall::RecallConfig;

    /// Counts letters, and how often it was asked for a text.
    #[derive(Debug)]
    struct Letters(Generation, AtomicUsize);

    fn letters(model: &str) -> Arc<Letters> {
        let generation = Generation {
            model: model.to_owned(),
            dimension: None,
            query_prefix: String::new(),
            document_prefix: String::new(),
        };
        Arc::new(Letters(generation, AtomicUsize::new(0)))
    }

    #[async_trait]
    impl Embed for Letters {
        fn generation(&self) -> &Generation {
            &self.0
        }

        async fn embed(&self, _: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            self.1.fetch_add(texts.len(), Ordering::Relaxed);
            let vector = |text: &&str| {
                let mut counts = vec![0.1; 32];
                text.bytes().for_each(|byte| counts[usize::from(byte % 32)] += 1.0);
                counts
            };
            Ok(texts.iter().map(vector).collect())
        }
    }

    #[test]
    fn what_is_kept_in_a_file_is_not_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("vectors"));
        let dataset = jsonl::read("own cases", include_str!("../../tests/data/recall/mixed.jsonl")).unwrap();
        let (one, two) = (letters("one"), letters("two"));
        let make = |embedder: &Arc<Letters>| {
            let args = VectorArgs { embedder: Arc::clone(embedder) as Arc<_>, file: file.clone() };
            Vectors::make(&args, &dataset).unwrap()
        };
        let first = make(&one);
        let asked = one.1.load(Ordering::Relaxed);
        assert!(asked > 200, "{asked}");
        let again = make(&one);
        assert_eq!(one.1.load(Ordering::Relaxed), asked);
        assert_eq!(again.question("声调"), first.question("声调"));
        make(&two);
        assert_eq!(two.1.load(Ordering::Relaxed), asked, "the vectors of another model are of no use");
        let report = measure(&dataset, &RecallConfig::default(), None, Some(&first));
        assert!(report.json()["latency_ms"]["embed_mean"].as_f64().unwrap() > 0.0);
    }
}
