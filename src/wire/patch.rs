//! Changes to a body as a list of replaced ranges; all else leaves byte for byte.

use bytes::{Bytes, BytesMut};

use super::scan::Span;

/// Replacements over one text. Ranges must not overlap; an empty range is an insertion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patches(Vec<(Span, String)>);

impl Patches {
    /// Replaces the bytes under `span` by `with`.
    pub fn replace(&mut self, span: Span, with: impl Into<String>) {
        self.0.push((span, with.into()));
    }

    /// Inserts `with` before offset `at`; insertions at one offset keep the order in which they were made.
    pub fn insert(&mut self, at: usize, with: impl Into<String>) {
        self.replace(Span::new(at, at), with);
    }

    /// Takes the bytes under `span` out.
    pub fn remove(&mut self, span: Span) {
        self.replace(span, String::new());
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the changes in the order of their place, as ranges of the old text and what stands there now.
    #[must_use]
    pub fn in_order(&self) -> Vec<(Span, &str)> {
        let mut order: Vec<(Span, &str)> = self.0.iter().map(|(span, with)| (*span, with.as_str())).collect();
        order.sort_by_key(|(span, _)| span.start);
        order
    }

    /// The offset of the first changed byte.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.0.iter().map(|(span, _)| span.start).min()
    }

    /// Returns `body` with all changes made; the very same bytes when there are none.
    #[must_use]
    pub fn apply(&self, body: &Bytes) -> Bytes {
        if self.0.is_empty() {
            return body.clone();
        }
        let order = self.in_order();
        let grown: usize = order.iter().map(|(_, with)| with.len()).sum();
        let mut out = BytesMut::with_capacity(body.len() + grown);
        let mut at = 0;
        for (span, with) in order {
            debug_assert!(span.start >= at, "patches overlap at {}", span.start);
            out.extend_from_slice(body.get(at..span.start).unwrap_or_default());
            out.extend_from_slice(with.as_bytes());
            at = at.max(span.end);
        }
        out.extend_from_slice(body.get(at..).unwrap_or_default());
        out.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_apply_in_order_of_place() {
        let body = Bytes::from_static(b"0123456789");
        let mut patches = Patches::default();
        patches.replace(Span::new(7, 9), "x");
        patches.insert(2, "[");
        patches.insert(2, "]");
        patches.remove(Span::new(3, 5));
        assert_eq!(patches.first(), Some(2));
        assert_eq!(patches.apply(&body), Bytes::from_static(b"01[]256x9"));
    }

    #[test]
    fn no_patch_means_the_same_bytes() {
        let body = Bytes::from_static(b"{}");
        assert_eq!(Patches::default().apply(&body).as_ptr(), body.as_ptr());
    }
}
