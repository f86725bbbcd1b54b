//! `GET /v1/models` and `/v1/models/{id}`: the names that a client may ask for.

use bytes::Bytes;
use serde_json::json;

use crate::base::GatewayError;
use crate::exchange::Principal;
use crate::upstream::Routes;

/// Answers for the names that are known here; `None` when upstream is to be asked, since any of its names may be asked for.
///
/// # Errors
/// 404 for a name that does not exist or that this key may not use.
pub(super) fn answer(routes: &Routes, principal: &Principal, path: &str) -> Option<Result<Bytes, GatewayError>> {
    if routes.names().is_empty() && principal.models.is_empty() {
        return None;
    }
    let object = |name: &str| json!({"id": name, "object": "model", "created": 0, "owned_by": "backstory"});
    let body = match path.strip_prefix("/v1/models/").filter(|name| !name.is_empty()) {
        None => json!({"object": "list", "data": routes.listed(principal).map(object).collect::<Vec<_>>()}),
        Some(wanted) => {
            let wanted = percent_decode(wanted);
            match routes.listed(principal).find(|name| *name == wanted) {
                Some(name) => object(name),
                None => return Some(Err(routes.not_found(principal, &wanted))),
            }
        }
    };
    Some(Ok(Bytes::from(body.to_string())))
}

/// Names such as `meta/llama` come with an escaped slash.
fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%').and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(hex.unwrap_or(bytes[at]));
        at += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_names_are_read() {
        assert_eq!(percent_decode("meta%2Fllama-3"), "meta/llama-3");
        assert_eq!(percent_decode("100%"), "100%");
        assert_eq!(percent_decode("%zz%e4%bd%a0"), "%zz你");
    }
}
