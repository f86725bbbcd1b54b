//! Turning texts into vectors, so that what is meant is found beside what is written.
//!
//! Only values and the trait stand here, so that those who embed need not know who makes the vectors: `upstream` asks a server for them,
//! a model in the process computes them.

mod packed;
mod words;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;

pub use packed::Packed;
pub use words::WordsAlone;

/// What a text is embedded for. Many models were trained to tell the two apart by a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// A question.
    Query,
    /// What is stored to be found.
    Document,
}

/// What makes vectors comparable: those of two generations never are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    /// Who makes them: the engine and the model, as in `openai/text-embedding-3-small`.
    pub model: String,
    /// How many numbers a vector has; none = as many as the model gives, which its first answer tells.
    pub dimension: Option<u32>,
    /// Put before every question.
    pub query_prefix: String,
    /// Put before every stored text.
    pub document_prefix: String,
}

impl Generation {
    /// A name for it that is the same on every replica and after every restart: hexadecimal, 32 characters.
    #[must_use]
    pub fn id(&self) -> String {
        let dimension = self.dimension.unwrap_or_default().to_string();
        let mut hash = blake3::Hasher::new();
        for part in [&self.model, &dimension, &self.query_prefix, &self.document_prefix] {
            hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hash.finalize().to_hex()[..32].to_owned()
    }

    /// What is put before a text of this side.
    #[must_use]
    pub fn prefix(&self, side: Side) -> &str {
        match side {
            Side::Query => &self.query_prefix,
            Side::Document => &self.document_prefix,
        }
    }
}

/// Why there are no vectors. The texts carry nothing of what was to be embedded, and no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The embedder is busy or failing, or did not answer in time: later it may.
    #[error("the embedder is not available now: {reason}")]
    Later {
        /// What went wrong.
        reason: String,
        /// How long it asked to wait.
        retry_after: Option<Duration>,
    },
    /// Asking again would not help: wrong key, unknown model, a text that it refuses.
    #[error("the embedder refused: {0}")]
    Refused(String),
    /// What it answered cannot be used: a wrong number of vectors or of numbers in one, or numbers that are none.
    #[error("the embedder's answer cannot be used: {0}")]
    Unusable(String),
}

/// Turns texts into vectors.
#[async_trait]
pub trait Embed: fmt::Debug + Send + Sync {
    /// Which vectors it makes.
    fn generation(&self) -> &Generation;

    /// Embeds texts: one vector of unit length for each, in their order, all of one dimension. Puts the prefix of `side` before each by
    /// itself. Takes any number of texts; of one that is longer than the model reads, it takes the beginning.
    ///
    /// Cancel safe: what is asked elsewhere ends with the future.
    async fn embed(&self, side: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;

    /// The same, except that a text which is refused for itself does not sink its neighbours: `None` stands in its place.
    ///
    /// Cancel safe, as [`Embed::embed`] is.
    async fn embed_each(&self, side: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        Ok(self.embed(side, texts).await?.into_iter().map(Some).collect())
    }

    /// Forgets the vectors that it keeps: one of them may be of what was erased.
    fn forget(&self) {}
}

/// The vectors of texts, where there is one for each.
///
/// # Errors
/// A text was refused.
pub fn of_all(vectors: Vec<Option<Vec<f32>>>) -> Result<Vec<Vec<f32>>, EmbedError> {
    let all = vectors.into_iter().collect::<Option<Vec<_>>>();
    all.ok_or_else(|| EmbedError::Refused("a text that it does not take".to_owned()))
}

/// Brings a vector to unit length; `false`, and the vector as it was, when it has none: zeros, or numbers that are none.
#[must_use]
pub fn to_unit_length(vector: &mut [f32]) -> bool {
    // In f64, so that no square overflows and none vanishes.
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if length == 0.0 || !length.is_finite() {
        return false;
    }
    vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_without_a_direction_cannot_be_brought_to_unit_length() {
        for mut vector in [vec![], vec![0.0, -0.0], vec![1.0, f32::NAN], vec![f32::INFINITY]] {
            assert!(!to_unit_length(&mut vector), "{vector:?}");
        }
        let mut tiny = [0.0, 1e-40];
        assert!(to_unit_length(&mut tiny));
        assert_eq!(tiny, [0.0, 1.0]);
    }

    #[test]
    fn every_part_makes_another_generation() {
        let base = Generation {
            model: "a/b".into(),
            dimension: Some(384),
            query_prefix: "query: ".into(),
            document_prefix: "passage: ".into(),
        };
        let others = [
            Generation { model: "a/c".into(), ..base.clone() },
            Generation { dimension: None, ..base.clone() },
            Generation { query_prefix: String::new(), ..base.clone() },
            Generation { query_prefix: "query: passage: ".into(), document_prefix: String::new(), ..base.clone() },
        ];
        assert!(others.iter().all(|other| other.id() != base.id()));
        assert_eq!((base.id().len(), base.id()), (32, base.clone().id()));
    }
}
