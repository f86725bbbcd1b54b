//! An answer of Anthropic's Messages API as one of chat completions.
//!
//! What a model thought is told twice: as `reasoning_content`, which clients show, and as `thinking_blocks`, signed and word for word,
//! which a client that sends its assistant messages back whole gives us for the next request (both are names that others use).

mod error;
mod reply;
mod stream;
mod usage;

pub(super) use error::error;
pub(super) use reply::reply;
pub(super) use stream::Stream;
