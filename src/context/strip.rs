//! Our own fence, come back inside a client's message: found, so that it is not sent on again (design, doubt 10).

use std::ops::Range;

use crate::conversation::fence;
use crate::tokens::{Counter, Rules};
use crate::wire::{ChatRequest, Content, Part, PartKind, Patches, Span, decode_lossy, scan};

/// One text that has fenced spans in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fenced {
    /// The message it is in.
    pub(super) message: usize,
    /// The string literal.
    literal: Span,
    /// What goes, as offsets into the literal.
    ranges: Vec<Range<usize>>,
    /// Where its part is, when nothing would be left of its text and other parts stay: the part goes.
    part: Option<Span>,
}

/// Returns all texts with fenced spans; the body is read once when there are none.
pub(super) fn find(request: &ChatRequest, text: &str) -> Vec<Fenced> {
    let mut found = Vec::new();
    if !fence::contains(text) {
        return found;
    }
    for (at, message) in request.messages().iter().enumerate() {
        match message.content {
            Content::Text(literal) => found.extend(fenced(at, text, literal)),
            Content::Parts(array) => {
                found.extend(in_parts(at, text, array));
                for part in message.parts(text) {
                    match part.kind {
                        PartKind::ToolResult(Some(content)) if content.of(text).starts_with('"') => {
                            found.extend(fenced(at, text, content));
                        }
                        PartKind::ToolResult(Some(content)) => found.extend(in_parts(at, text, content)),
                        _ => {}
                    }
                }
            }
            Content::Absent | Content::Null(_) | Content::Other(_) => {}
        }
    }
    found
}

fn fenced(message: usize, text: &str, literal: Span) -> Option<Fenced> {
    let ranges = fence::spans_in_literal(literal.of(text));
    (!ranges.is_empty()).then_some(Fenced { message, literal, ranges, part: None })
}

fn in_parts(message: usize, text: &str, array: Span) -> Vec<Fenced> {
    let parts: Vec<Span> = scan::elements(text, array).collect();
    let mut found = Vec::new();
    let mut kept_before: Option<usize> = None;
    for (at, &part) in parts.iter().enumerate() {
        let fenced = match Part::read(text, part).kind {
            PartKind::Text(literal) => fenced(message, text, literal),
            _ => None,
        };
        match fenced {
            // An empty text part is refused by some upstreams, so the part goes whole, with the comma that parts it from a
            // neighbour that stays.
            Some(mut fenced) if fenced.is_whole() && (kept_before.is_some() || at + 1 < parts.len()) => {
                fenced.part = Some(match kept_before {
                    Some(before) => Span::new(parts[before].end, part.end),
                    None => Span::new(part.start, parts[at + 1].start),
                });
                // What follows takes the comma from here on.
                if kept_before.is_some() {
                    kept_before = Some(at);
                }
                found.push(fenced);
            }
            fenced => {
                kept_before = Some(at);
                found.extend(fenced);
            }
        }
    }
    found
}

impl Fenced {
    /// Whether nothing is left of the text.
    fn is_whole(&self) -> bool {
        self.ranges.iter().map(Range::len).sum::<usize>() + 2 == self.literal.len()
    }

    /// Returns the tokens that are saved by it.
    pub(super) fn tokens(&self, text: &str, counter: &Counter, rules: Rules) -> usize {
        let before = decode_lossy(self.literal.of(text));
        let mut rest = self.literal.of(text).to_owned();
        for range in self.ranges.iter().rev() {
            rest.replace_range(range.clone(), "");
        }
        counter.text(rules, &before).saturating_sub(counter.text(rules, &decode_lossy(&rest)))
    }

    /// Takes it out.
    pub(super) fn patch(&self, patches: &mut Patches) {
        if let Some(part) = self.part {
            patches.remove(part);
            return;
        }
        for range in &self.ranges {
            patches.remove(Span::new(self.literal.start + range.start, self.literal.start + range.end));
        }
    }

    /// Whether it is in this literal.
    pub(super) fn is_in(&self, literal: Span) -> bool {
        self.literal == literal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    fn stripped(content: Value) -> Value {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": content}]}).to_string();
        let request = ChatRequest::decode(Bytes::from(body)).unwrap();
        let mut patches = Patches::default();
        for fenced in find(&request, request.text()) {
            fenced.patch(&mut patches);
        }
        let body: Value = serde_json::from_slice(&patches.apply(request.body())).unwrap();
        body["messages"][0]["content"].clone()
    }

    #[test]
    fn results_of_tools_lose_it_too() {
        let block = "<backstory-notes>\n- x\n</backstory-notes>";
        let result = |content: Value| json!([{"type": "tool_result", "tool_use_id": "t", "content": content}]);
        assert_eq!(stripped(result(json!(format!("{block}\n\n42")))), result(json!("42")));
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(stripped(result(json!([text(block), text("42")]))), result(json!([text("42")])));
    }

    #[test]
    fn strings_and_parts_lose_what_is_ours() {
        let block = "<backstory-notes>\n- x\n</backstory-notes>";
        let text = |text: &str| json!({"type": "text", "text": text});
        assert_eq!(stripped(json!(format!("{block}\n\nhi \"you\""))), json!("hi \"you\""));
        assert_eq!(stripped(json!([text(block), text("a")])), json!([text("a")]));
        assert_eq!(stripped(json!([text("a"), text(block)])), json!([text("a")]));
        assert_eq!(stripped(json!([text("a"), text(block), text(block), text("b")])), json!([text("a"), text("b")]));
        assert_eq!(stripped(json!([text(block), text(block), text("b")])), json!([text("b")]));
        assert_eq!(stripped(json!([text(&format!("{block}\n\na"))])), json!([text("a")]));
        assert_eq!(stripped(json!([text(block)])), json!([text("")]));
        assert_eq!(stripped(json!([text(block), text(block)])), json!([text("")]));
        assert_eq!(stripped(json!(null)), json!(null));
    }
}
