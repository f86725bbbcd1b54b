//! Where things go in a request, and the patches that put them there.
//!
//! The profile, and the digest behind it, stand at the end of the client's own first system message; the recollection at
//! the head of the newest user message. Never a second system message, never a changed byte before the place of insertion.

use crate::wire::{ChatRequest, Content, Dialect, Patches, Role, Span, encode_string, scan};

use super::policy::SystemRole;

/// A place for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At the end of this message.
    End(usize),
    /// At the head of this message.
    Head(usize),
    /// In a message of its own, before all others.
    NewMessage(Role),
}

/// Tokens of a new message beside its text.
pub(super) const NEW_MESSAGE_TOKENS: usize = 4;

/// Returns where the profile and the digest go; `None` when no message can take them.
pub(super) fn profile_place(request: &ChatRequest, first_kept: usize, role: SystemRole) -> Option<Place> {
    let messages = request.messages();
    if messages.first().is_some_and(|m| m.role.is_instruction() && takes_text(m.content)) {
        return Some(Place::End(0));
    }
    let may_instruct = match request.dialect() {
        Dialect::Chat | Dialect::Messages => !messages.iter().any(|m| m.role.is_instruction()),
        // A prompt that upstream keeps may have instructions of its own, which ours would replace.
        Dialect::Responses => request.get("instructions").or(request.get("prompt")).is_none(),
    };
    let new = match (request.dialect(), role) {
        // A parameter of every model there, not a message that a template may refuse.
        (Dialect::Messages | Dialect::Responses, _) | (Dialect::Chat, SystemRole::System) => Some(Role::System),
        (Dialect::Chat, SystemRole::Developer) => Some(Role::Developer),
        (Dialect::Chat, SystemRole::FirstUser) => None,
    };
    if let Some(role) = new.filter(|_| may_instruct) {
        return Some(Place::NewMessage(role));
    }
    let mut kept = messages.iter().enumerate().skip(first_kept);
    kept.find(|(_, m)| m.role == Role::User && takes_text(m.content)).map(|(at, _)| Place::Head(at))
}

/// Returns where the recollection goes: only the newest user message will do.
pub(super) fn recollection_place(request: &ChatRequest) -> Option<Place> {
    head(request, request.newest_user()?)
}

/// Returns the head of a message, if text can stand there.
pub(super) fn head(request: &ChatRequest, at: usize) -> Option<Place> {
    takes_text(request.messages().get(at)?.content).then_some(Place::Head(at))
}

fn takes_text(content: Content) -> bool {
    matches!(content, Content::Text(_) | Content::Parts(_))
}

/// Patches `blocks` into a place, in their order; empty ones leave no trace.
pub(super) fn insert(request: &ChatRequest, text: &str, place: Place, blocks: &[&str], patches: &mut Patches) {
    let blocks: Vec<&str> = blocks.iter().copied().filter(|block| !block.is_empty()).collect();
    if blocks.is_empty() {
        return;
    }
    match place {
        Place::NewMessage(role) => {
            let message = request.system_message(role, &blocks.join("\n\n"));
            patches.insert(request.system_message_at(), message);
        }
        Place::End(at) => match request.messages()[at].content {
            Content::Text(span) if span.len() > 2 => {
                patches.insert(span.end - 1, format!("\\n\\n{}", inner(&blocks.join("\n\n"))))
            }
            Content::Text(span) => patches.insert(span.end - 1, inner(&blocks.join("\n\n"))),
            Content::Parts(span) => {
                let comma = if is_empty(text, span) { "" } else { "," };
                patches.insert(span.end - 1, format!("{comma}{}", part(request, &blocks)));
            }
            Content::Absent | Content::Null(_) | Content::Other(_) => {}
        },
        Place::Head(at) => match request.messages()[at].content {
            Content::Text(span) => {
                let own = if span.len() > 2 { "\\n\\n" } else { "" };
                patches.insert(span.start + 1, format!("{}{own}", inner(&blocks.join("\n\n"))));
            }
            Content::Parts(span) => {
                let comma = if is_empty(text, span) { "" } else { "," };
                patches.insert(span.start + 1, format!("{}{comma}", part(request, &blocks)));
            }
            Content::Absent | Content::Null(_) | Content::Other(_) => {}
        },
    }
}

/// Takes the messages before `first_kept` out, instruction messages apart. What stays keeps its bytes.
pub(super) fn remove(request: &ChatRequest, first_kept: usize, patches: &mut Patches) {
    let messages = request.messages();
    let mut at = 0;
    while at < first_kept {
        if messages[at].role.is_instruction() {
            at += 1;
            continue;
        }
        let from = at;
        while at < first_kept && !messages[at].role.is_instruction() {
            at += 1;
        }
        // The newest turn always stays, so something follows, and the comma before it goes along.
        match messages[at].opening {
            None => patches.remove(Span::new(messages[from].span.start, messages[at].span.start)),
            // Of the client's message that is cut in two, what opens it stays.
            Some(opening) => {
                if messages[from].span.start < opening.start {
                    patches.remove(Span::new(messages[from].span.start, opening.start));
                }
                patches.remove(Span::new(opening.end, messages[at].span.start));
                // The comma that parted the halves.
                patches.remove(Span::new(messages[at].span.start, messages[at].span.start + 1));
            }
        }
    }
}

fn is_empty(text: &str, array: Span) -> bool {
    scan::elements(text, array).next().is_none()
}

fn part(request: &ChatRequest, blocks: &[&str]) -> String {
    format!(r#"{{"type":"{}","text":{}}}"#, request.dialect().text_part(), encode_string(&blocks.join("\n\n")))
}

/// A text as it stands inside a JSON string.
fn inner(text: &str) -> String {
    let mut literal = encode_string(text);
    literal.pop();
    literal.remove(0);
    literal
}
