//! OpenAI's and Anthropic's objects as they go over the wire, and nothing lost on the way.
//!
//! A body stays the bytes that came. Reading finds *spans* in it ([`scan`]), writing is a list of
//! [`Patches`] over it, so that every byte nobody touched leaves as it came: unknown members, order,
//! `null`, big integers, `1.10`, white space. Start with [`ChatRequest`].
//!
//! A reply passes through a [`StreamRelay`] or a [`JsonRelay`], which decide byte for byte what goes on at once; beside them
//! the bytes are read ([`sse`], [`Accumulator`]) for our own books. [`fault`] holds the error envelope. [`translate`] writes anew what
//! goes to a target of another dialect.
//!
//! This module never knows what a memory is, and does no IO.

mod chat;
mod delta;
mod dialect;
pub mod fault;
mod message;
mod messages;
mod params;
mod patch;
mod relay;
mod responses;
pub mod scan;
mod session;
pub mod sse;
mod text;
pub mod translate;
mod usage;
mod valid;

pub use chat::{ChatRequest, DecodeError, check};
pub use delta::{Accumulator, ChoiceReply, MAX_REPLY_BYTES, Reply, Seen, ToolCall};
pub use dialect::Dialect;
pub use fault::{UpstreamError, upstream_error};
pub use message::{Call, Content, Message, Part, PartKind, PartText, Role};
pub use params::{ParamError, ParamRules, RESERVED_PARAMS};
pub use patch::Patches;
pub use relay::{FirstEvent, JsonRelay, RelayOptions, StreamEnd, StreamRelay, Verdict, first_event};
pub use responses::Kept;
pub use scan::Span;
pub use session::without_session;
pub use text::{decode, decode_lossy, encode_string};
pub use usage::Usage;
