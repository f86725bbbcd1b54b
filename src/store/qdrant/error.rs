//! What a server refuses, by what can be done about it.

use std::time::Duration;

use qdrant_client::QdrantError;

use crate::store::StoreError;

/// Status codes of gRPC (<https://grpc.io/docs/guides/status-codes/>): the client does not hand on its type.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const NOT_FOUND: i32 = 5;
    pub(super) const ALREADY_EXISTS: i32 = 6;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no such collection.
    Missing,
    /// There is such a collection already.
    Exists,
    /// Our key does not do.
    Key,
    /// It is wrong, for the reason given, and would be so again.
    Wrong(String),
    /// It cannot do that: too old, or not a Qdrant server.
    Unknown(String),
    /// Not now, for the reason given.
    Away(String),
    /// Not in time.
    Late(Duration),
}

/// Reads an error of the client.
pub(super) fn refusal(error: &QdrantError) -> Refusal {
    let status = match error {
        QdrantError::ResponseError { status } | QdrantError::ResourceExhaustedError { status, .. } => status,
        other => return Refusal::Wrong(other.to_string()),
    };
    let text = status.message().to_owned();
    match i32::from(status.code()) {
        code::NOT_FOUND => Refusal::Missing,
        // Servers before 1.10 have no code of their own for it.
        code::INVALID_ARGUMENT if text.contains("already exists") => Refusal::Exists,
        code::ALREADY_EXISTS => Refusal::Exists,
        code::UNAUTHENTICATED | code::PERMISSION_DENIED => Refusal::Key,
        code::INVALID_ARGUMENT | code::FAILED_PRECONDITION => Refusal::Wrong(text),
        code::UNIMPLEMENTED => Refusal::Unknown(text),
        code::RESOURCE_EXHAUSTED => Refusal::Away(format!("it is at its limit: {text}")),
        _ => Refusal::Away(text),
    }
}

impl Refusal {
    /// What our callers are told. `doing` completes "the Qdrant server could not …".
    pub(super) fn into_error(self, doing: &'static str, url: &str) -> StoreError {
        let server = format!("the Qdrant server at {url}");
        match self {
            Self::Missing => StoreError::Unusable(format!("{server} could not {doing}: there is no such collection")),
            Self::Exists => StoreError::Unusable(format!("{server} could not {doing}: that name is taken already")),
            Self::Key => StoreError::Unusable(format!("{server} does not accept our key: check vectors.api_key")),
            Self::Wrong(why) => StoreError::Unusable(format!("{server} could not {doing}: {why}")),
            Self::Unknown(why) => StoreError::Unusable(format!(
                "{server} cannot {doing} ({why}): is vectors.url its gRPC port (6334), and is it of a version that fits?"
            )),
            Self::Away(why) => StoreError::Unavailable(format!(
                "{server} could not {doing} ({why}): is it up, and is vectors.url its gRPC port (6334)?"
            )),
            Self::Late(after) => {
                StoreError::Unavailable(format!("{server} did not {doing} within {} ms", after.as_millis()))
            }
        }
    }
}
