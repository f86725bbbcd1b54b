//! Who makes vectors here, and what stands before every embedder.
//!
//! [`LocalEmbedder`] runs a model in the process: `folder` reads it, `tokenizer` cuts the texts, `encoder` computes. [`Cached`] remembers what was
//! embedded, whoever embeds; `catalogue` knows models by name. Asking a server is `upstream`'s matter. Nothing here knows what a memory is, or keeps a text.

mod cached;
mod catalogue;
mod encoder;
mod folder;
mod local;
mod tokenizer;

pub use cached::Cached;
pub use catalogue::{KNOWN_MODELS, KnownModel, MODEL_FILES, ModelSource, ORIGIN_FILE};
pub use folder::FolderError;
pub use local::{LocalConfig, LocalEmbedder};
