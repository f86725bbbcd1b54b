//! Ordering what was found by a model that reads the question and each text together.
//!
//! Only the trait and its errors stand here, so that those who rank need not know who orders: `upstream` asks a server.

use std::fmt;

use async_trait::async_trait;

/// Why there is no order. The texts carry nothing of what was to be ordered, and no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RerankError {
    /// It could not be reached, or does not want to be asked now: later it may.
    #[error("the reranker is not available now: {0}")]
    Later(String),
    /// Asking again would not help: wrong key, unknown model, a form of question that it does not know.
    #[error("the reranker refused: {0}")]
    Refused(String),
    /// What it answered cannot be used: other than one number for each text.
    #[error("the reranker's answer cannot be used: {0}")]
    Unusable(String),
}

/// Scores texts by how well they answer a question.
#[async_trait]
pub trait Rerank: fmt::Debug + Send + Sync {
    /// Returns one finite number for each text, in their order; the higher, the better. What they mean beside that is the model's own.
    ///
    /// Cancel safe: what is asked elsewhere ends with the future.
    async fn rerank(&self, question: &str, texts: &[String]) -> Result<Vec<f64>, RerankError>;
}
