//! The one body type of all replies.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The error of a reply body: the reply was cut, and hyper is to close the connection.
pub(super) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A reply body.
pub type ReplyBody = UnsyncBoxBody<Bytes, BodyError>;

/// A body of bytes that are all there.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> ReplyBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}
