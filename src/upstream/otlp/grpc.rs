//! A call of gRPC with one message each way: its frame, and its outcome.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;

use super::{SendError, later};

const STATUS: &str = "grpc-status";
/// Before each message: whether it is compressed, and how long it is.
const PREFIX_BYTES: usize = 5;

/// A message in its frame, not compressed.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + PREFIX_BYTES);
    framed.extend_from_slice(&[0]);
    // A batch is some hundred kilobytes.
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(message);
    framed.freeze()
}

/// The message of an answer whose status stands in its trailers, or in its header where it has no body.
pub(super) fn answer(headers: &HeaderMap, trailers: Option<&HeaderMap>, body: Bytes) -> Result<Bytes, SendError> {
    let read = |headers: &HeaderMap| headers.get(STATUS)?.to_str().ok()?.trim().parse::<u16>().ok();
    match trailers.and_then(read).or_else(|| read(headers)) {
        Some(0) => unframed(body).ok_or_else(|| SendError::Refused("its answer has no message of gRPC".to_owned())),
        Some(code) => Err(refusal(code)),
        None => Err(SendError::Refused("it does not speak gRPC; is it the port of OTLP over HTTP?".to_owned())),
    }
}

fn unframed(mut body: Bytes) -> Option<Bytes> {
    if body.len() < PREFIX_BYTES || body[0] != 0 {
        return None;
    }
    let prefix = body.split_to(PREFIX_BYTES);
    let length = usize::try_from((&prefix[1..]).get_u32()).ok()?;
    (body.len() >= length).then(|| body.split_to(length))
}

/// Which codes may be tried again, as the specification of OTLP has it.
fn refusal(code: u16) -> SendError {
    let name = match code {
        1 => "cancelled",
        3 => "invalid argument",
        4 => "deadline exceeded",
        7 => "permission denied",
        8 => "resource exhausted",
        10 => "aborted",
        11 => "out of range",
        12 => "unimplemented",
        14 => "unavailable",
        15 => "data loss",
        16 => "unauthenticated",
        _ => "an error",
    };
    let reason = format!("it answers {name} (gRPC status {code})");
    match code {
        1 | 4 | 8 | 10 | 11 | 14 | 15 => later(reason),
        _ => SendError::Refused(reason),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn status(code: &'static str) -> HeaderMap {
        [(http::HeaderName::from_static(STATUS), HeaderValue::from_static(code))].into_iter().collect()
    }

    #[test]
    fn the_status_decides_wherever_it_stands() {
        let answered =
            |headers: HeaderMap, trailers: Option<HeaderMap>| answer(&headers, trailers.as_ref(), framed(b"m"));
        let none = HeaderMap::new;
        assert_eq!(answered(none(), Some(status("0"))), Ok(Bytes::from_static(b"m")));
        assert!(matches!(answered(none(), Some(status("14"))), Err(SendError::Later { .. })));
        assert!(matches!(answered(status("12"), None), Err(SendError::Refused(_))));
        assert!(matches!(answered(none(), None), Err(SendError::Refused(_))));
    }

    #[test]
    fn a_frame_that_is_none_is_refused() {
        for body in [&b""[..], b"\0\0\0\0", b"\0\0\0\0\x05abc", b"\x01\0\0\0\0"] {
            assert!(answer(&status("0"), None, Bytes::copy_from_slice(body)).is_err(), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_out_of_its_frame_as_it_went_in(message: Vec<u8>) {
            prop_assert_eq!(unframed(framed(&message)), Some(Bytes::from(message)));
        }
    }
}
