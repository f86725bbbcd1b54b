//! How large the head of a request may be, told in the words of the API. Far above these hyper gives up by itself, with a bare 431 or 414.

use http::{HeaderMap, Request};

use crate::base::{ErrorKind, GatewayError};

/// Bounds of a request's head, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// All header lines together.
    pub(super) max_header_bytes: usize,
    /// Path and query.
    pub(super) max_url_bytes: usize,
}

impl Bounds {
    /// Refuses what is larger.
    ///
    /// # Errors
    /// 414 and 431.
    pub(super) fn check<B>(self, request: &Request<B>) -> Result<(), GatewayError> {
        if request.uri().path_and_query().is_some_and(|url| url.as_str().len() > self.max_url_bytes) {
            let public = format!("path and query are longer than the limit of {} bytes", self.max_url_bytes);
            return Err(GatewayError::new(ErrorKind::UrlTooLong, public));
        }
        if size(request.headers()) > self.max_header_bytes {
            let public = format!("the header is larger than the limit of {} bytes", self.max_header_bytes);
            return Err(GatewayError::new(ErrorKind::HeaderTooLarge, public));
        }
        Ok(())
    }
}

/// The header as it came over the wire: `name: value` and a line break, each.
fn size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_over_its_bounds_is_refused() {
        let bounds = Bounds { max_header_bytes: 64, max_url_bytes: 10 };
        let verdict = |url: &str, value: &str| {
            let request = Request::get(url).header("a", value).body(()).unwrap();
            bounds.check(&request).map_err(|error| error.kind)
        };
        assert_eq!(verdict("/234567890", &"x".repeat(59)), Ok(()));
        assert_eq!(verdict("/234567890", &"x".repeat(60)), Err(ErrorKind::HeaderTooLarge));
        assert_eq!(verdict("/2345?7890a", "x"), Err(ErrorKind::UrlTooLong));
    }
}
