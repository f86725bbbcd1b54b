//! A body as one event of a stream.

use bytes::Bytes;

/// Puts a body into one event, a `data:` line for each of its lines. It has a name where that is not empty.
pub(super) fn event_of(name: &str, body: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + 32);
    let lines = body.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    for line in lines.filter(|line| !line.is_empty()) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    if !out.is_empty() {
        out.push(b'\n');
        if !name.is_empty() {
            out.splice(..0, format!("event: {name}\n").into_bytes());
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_several_lines_is_one_event() {
        assert_eq!(event_of("", b"{\"error\":\r\n {}\n}\n"), "data: {\"error\":\ndata:  {}\ndata: }\n\n");
        assert_eq!(event_of("error", b""), "");
        assert_eq!(event_of("error", b"{}"), "event: error\ndata: {}\n\n");
    }
}
