//! Tells to which tool call a piece belongs.

use std::borrow::Cow;

use super::ToolCall;
use crate::wire::scan::{self, Span};
use crate::wire::text::decode_lossy;

/// A piece of a tool call.
#[derive(Default)]
pub(super) struct CallPiece<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) arguments: Cow<'a, str>,
}

impl<'a> CallPiece<'a> {
    /// Reads the `function` of a call.
    pub(super) fn function(text: &'a str, span: Span) -> Self {
        let mut piece = Self::default();
        for member in scan::members(text, span) {
            let value = member.value.of(text);
            match member.key.of(text) {
                "name" if value.starts_with('"') => piece.name = decode_lossy(value),
                // A custom tool has `input` where a function has `arguments`.
                "arguments" | "input" if value.starts_with('"') => piece.arguments = decode_lossy(value),
                // Some servers send the arguments as an object; its text is what the string would hold.
                "arguments" if value.starts_with('{') => piece.arguments = Cow::Borrowed(value),
                _ => {}
            }
        }
        piece
    }

    /// Finds the call that this piece goes on with; `None` when it begins a new one.
    pub(super) fn place(&self, calls: &[ToolCall]) -> Option<usize> {
        if let Some(index) = self.index {
            let at = calls.iter().rposition(|c| c.index == Some(index))?;
            // Some upstreams count every parallel call as 0: another id with a name of its own is another call.
            let another = !self.id.is_empty() && !calls[at].id.is_empty() && calls[at].id != self.id;
            return if another && !self.name.is_empty() {
                calls.iter().position(|c| c.index == Some(index) && c.id == self.id)
            } else {
                Some(at)
            };
        }
        if !self.id.is_empty() {
            return calls.iter().rposition(|c| c.id == self.id);
        }
        let last = calls.len().checked_sub(1)?;
        let begins = !self.name.is_empty() && !calls[last].name.is_empty();
        (!begins).then_some(last)
    }
}
