//! Writes events in the ways that real upstreams do.

use bytes::Bytes;

use super::behaviour::LineEnd;

/// How events are spelled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    pub(super) line_end: LineEnd,
    /// Whether a space follows the colon.
    pub(super) space: bool,
    /// Whether a comment comes before each event.
    pub(super) comments: bool,
}

/// Returns one event with a name.
pub(super) fn named_event(name: &str, data: &str, style: Style) -> Bytes {
    let end = style.line_end.as_str();
    let comment = if style.comments { format!(": keep-alive{end}{end}") } else { String::new() };
    let space = if style.space { " " } else { "" };
    Bytes::from(format!("{comment}event:{space}{name}{end}data:{space}{data}{end}{end}"))
}

/// Returns one event.
pub(super) fn event(data: &str, style: Style) -> Bytes {
    let end = style.line_end.as_str();
    let comment = if style.comments { format!(": keep-alive{end}{end}") } else { String::new() };
    let space = if style.space { " " } else { "" };
    Bytes::from(format!("{comment}data:{space}{data}{end}{end}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_style_is_the_same_event() {
        for line_end in [LineEnd::Lf, LineEnd::CrLf, LineEnd::Cr] {
            for (space, comments) in [(true, false), (false, true)] {
                let bytes = event("{}", Style { line_end, space, comments });
                let mut parser = crate::wire::sse::SseParser::new();
                let mut rest: &[u8] = &bytes;
                let found = parser.next(&mut rest).unwrap();
                assert_eq!(found.data, Some(&b"{}"[..]));
            }
        }
    }
}
