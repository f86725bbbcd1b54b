//! Where nobody embeds: an embedder that makes no vector of anything.

use async_trait::async_trait;

use super::{Embed, EmbedError, Generation, Side};

/// Makes none. Its generation is that of words alone, for those who keep more than vectors by generation.
#[derive(Debug)]
pub struct WordsAlone(Generation);

impl Default for WordsAlone {
    fn default() -> Self {
        let (query_prefix, document_prefix) = (String::new(), String::new());
        Self(Generation { model: "words alone".to_owned(), dimension: None, query_prefix, document_prefix })
    }
}

#[async_trait]
impl Embed for WordsAlone {
    fn generation(&self) -> &Generation {
        &self.0
    }

    async fn embed(&self, _: Side, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(vec![Vec::new(); texts.len()])
    }

    async fn embed_each(&self, _: Side, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, EmbedError> {
        Ok(vec![None; texts.len()])
    }
}
