//! An answer of chat completions as one of Anthropic's Messages API.
//!
//! Of several choices the first is told. What a model thought is not: it would have to be signed to be taken back.

mod error;
mod reply;
mod stream;
mod usage;

pub(super) use error::error;
pub(super) use reply::reply;
pub(super) use stream::Stream;
