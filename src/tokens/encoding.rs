//! Vocabularies, and which model uses which.

use serde::Deserialize;

use super::bpe::Tokenizer;
use super::image::ImageRule;

/// A vocabulary of OpenAI's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// `cl100k_base`: gpt-4, gpt-3.5 and the third-generation embeddings.
    Cl100k,
    /// `o200k_base`: gpt-4o and everything newer; also our estimate for models without a public tokenizer.
    #[default]
    O200k,
}

impl Encoding {
    /// Returns the vocabulary of a model by its name; `O200k` for one that nobody knows.
    #[must_use]
    pub fn for_model(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name);
        let old = ["gpt-4-", "gpt-4:", "gpt-3.5", "gpt-35", "text-embedding-3", "text-embedding-ada-002"];
        if name == "gpt-4" || old.iter().any(|prefix| name.starts_with(prefix)) { Self::Cl100k } else { Self::O200k }
    }

    pub(super) fn tokenizer(self) -> &'static Tokenizer {
        match self {
            Self::Cl100k => Tokenizer::cl100k(),
            Self::O200k => Tokenizer::o200k(),
        }
    }
}

/// How a model counts: its vocabulary and its image rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The vocabulary; it also decides how tool schemas count.
    pub encoding: Encoding,
    /// What an image costs.
    pub images: ImageRule,
}

impl Rules {
    /// Distinguishes these rules in a cache.
    pub(super) fn domain(self) -> u32 {
        ((self.encoding as u32) << 8) | self.images as u32
    }
}

/// The rules of the vocabulary's first model: gpt-4 (turbo) and gpt-4o count images alike.
impl From<Encoding> for Rules {
    fn from(encoding: Encoding) -> Self {
        Self { encoding, images: ImageRule::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_decides_the_vocabulary() {
        for name in ["gpt-4", "gpt-4-0613", "gpt-4-turbo", "gpt-3.5-turbo", "openai/gpt-4", "gpt-35-turbo"] {
            assert_eq!(Encoding::for_model(name), Encoding::Cl100k, "{name}");
        }
        for name in ["gpt-4o", "gpt-4.1-mini", "gpt-4.5-preview", "o3", "gpt-5", "llama-3", "", "openai/gpt-4o-mini"] {
            assert_eq!(Encoding::for_model(name), Encoding::O200k, "{name}");
        }
    }
}
