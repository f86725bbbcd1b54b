//! Decides, while an event is still coming, whether its bytes may pass.

use memchr::memmem;

use super::books::{is_done, may_be_done};
use super::stream::{MAX_END_BYTES, RelayOptions};
use crate::wire::Dialect;
use crate::wire::scan::{self, Span};
use crate::wire::sse::Pending;

/// The most bytes of an unfinished event that are held back; a longer one passes, whatever it is.
pub(super) const MAX_HELD_BYTES: usize = 64 * 1024;

/// What is done with the bytes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    /// It is the usage event, or may still become it.
    Withhold,
    /// It is the last one.
    End,
}

/// Watches an unfinished event for what shows that it is not the usage event.
#[derive(Debug, Default)]
pub(super) struct UsageWatch {
    /// Data before this place is looked at.
    from: usize,
}

impl UsageWatch {
    /// Judges the event by what has come of it: `len` bytes.
    pub(super) fn fate(&mut self, options: RelayOptions, pending: &Pending<'_>, len: usize) -> Fate {
        if let Some(data) = &pending.data
            && options.hold_end
            && is_done(data)
        {
            return Fate::End;
        }
        let last = options.hold_end.then(|| last_event(options.dialect, pending)).flatten();
        // What is known to be the last event may be large: most dialects repeat the whole answer in it.
        if len > if last == Some(true) { MAX_END_BYTES } else { MAX_HELD_BYTES } {
            return Fate::Pass;
        }
        let Some(data) = &pending.data else {
            return Fate::Withhold;
        };
        let may_be_end = options.hold_end && (last.unwrap_or(true) || may_be_done(data));
        let may_be_usage = options.withhold_usage && self.may_be_usage(data);
        if may_be_end || may_be_usage { Fate::Withhold } else { Fate::Pass }
    }

    fn may_be_usage(&mut self, data: &[u8]) -> bool {
        const KEY: &[u8] = br#""choices""#;
        if !matches!(data.trim_ascii_start().first(), None | Some(b'{')) {
            return false;
        }
        while let Some(found) = data.get(self.from..).and_then(|rest| memmem::find(rest, KEY)) {
            let key = self.from + found;
            match opens_array(&data[key + KEY.len()..]) {
                // Undecided: look again when there is more.
                None => {
                    self.from = key;
                    return true;
                }
                Some(Opening::Filled) if is_top_member(data, key) => return false,
                Some(_) => self.from = key + KEY.len(),
            }
        }
        self.from = self.from.max(data.len().saturating_sub(KEY.len() - 1));
        true
    }
}

/// Whether an unfinished event is the last of its stream, by its name or else its `type`; `None` when that is not known yet.
fn last_event(dialect: Dialect, pending: &Pending<'_>) -> Option<bool> {
    if dialect == Dialect::Chat {
        return Some(false);
    }
    if let Some(name) = pending.name {
        return Some(dialect.is_last_event(name));
    }
    kind_of(pending.data.as_deref()?).map(|kind| dialect.is_last_event(kind))
}

/// The `type` of an object that is still coming, where that is its first member, as nearly all servers have it.
fn kind_of(data: &[u8]) -> Option<&str> {
    let data = data.trim_ascii_start();
    let [b'{', inside @ ..] = data else {
        return data.first().map(|_| "");
    };
    let inside = inside.trim_ascii_start();
    let after = inside.strip_prefix(br#""type""#)?;
    let value = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', value)?;
    std::str::from_utf8(&value[..end]).ok()
}

enum Opening {
    /// Something other than an empty array.
    Filled,
    /// `[]`.
    Empty,
    /// No value follows: the word was no key.
    NoKey,
}

/// Looks at what follows a key; `None` when more bytes are needed.
fn opens_array(after: &[u8]) -> Option<Opening> {
    let value = after.trim_ascii_start();
    let [b':', value @ ..] = value else {
        return value.first().map(|_| Opening::NoKey);
    };
    let [b'[', inside @ ..] = value.trim_ascii_start() else {
        return value.trim_ascii_start().first().map(|_| Opening::Filled);
    };
    inside.trim_ascii_start().first().map(|&b| if b == b']' { Opening::Empty } else { Opening::Filled })
}

/// Whether the key at `key` (its opening quote) is a member of the outermost object.
fn is_top_member(data: &[u8], key: usize) -> bool {
    let text = match std::str::from_utf8(data) {
        Ok(text) => text,
        Err(e) => std::str::from_utf8(&data[..e.valid_up_to()]).expect("valid up to there"),
    };
    scan::members(text, Span::new(0, text.len())).any(|m| m.key.start == key + 1)
}
