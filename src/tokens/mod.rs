//! Counts tokens the way the model's provider does, and knows the models' windows.
//!
//! [`Counter`] counts texts, messages and whole requests; everything that is sent counts: roles, names, parts, tool calls,
//! tool schemas, `response_format`, images, audio and files. What nobody knows exactly is estimated, never refused.
//! [`ModelTable`] is `config/models.toml`: window, output limit, price, vocabulary and image rule of known models; [`Price`]
//! tells what an exchange cost.
//!
//! [`Corrector`] learns what our counts are worth for a model whose vocabulary is not public, from what upstream reports.
//!
//! `bpe` does the counting: the same numbers as tiktoken (tests compare them), several times faster, and its time stays
//! near linear on hostile input. Nothing here does IO, and no count depends on a cache.

mod bpe;
mod cache;
mod correction;
mod counter;
mod encoding;
mod image;
mod media;
mod message;
mod models;
mod price;
mod tools;

pub use correction::{Correction, Corrector, Sample};
pub use counter::{Counter, Remembered, RequestCount};
pub use encoding::{Encoding, Rules};
pub use image::{ImageRule, Size};
pub use models::{ModelLimits, ModelTable, ModelTableError};
pub use price::{Cost, Price, PriceChanges, Rate, RateError};
