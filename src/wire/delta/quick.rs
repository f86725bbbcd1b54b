//! Recognises, without parsing, the chunks that change nothing.

use std::sync::LazyLock;

use memchr::memmem::Finder;

static FINISH: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""finish_reason""#));
static INDEX: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""index""#));
static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""usage""#));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""error""#));

/// Whether a chunk can tell nothing new to one who keeps no text, and has seen choice 0 and no other, unfinished: it
/// finishes nothing, has no other index, no usage and no error.
///
/// It may be wrong in one way only: a chunk that needs no look is called one that does. A key within a string is
/// no match, since its quotes are escaped there.
pub(super) fn tells_nothing_new(chunk: &[u8]) -> bool {
    chunk.first() == Some(&b'{')
        && ERROR.find(chunk).is_none()
        && all(&FINISH, chunk, b"null")
        && all(&USAGE, chunk, b"null")
        && all(&INDEX, chunk, b"0,")
}

/// Whether every value of a key begins with `value`.
fn all(key: &Finder<'_>, chunk: &[u8], value: &[u8]) -> bool {
    key.find_iter(chunk).all(|at| {
        let after = chunk[at + key.needle().len()..].trim_ascii_start();
        after.strip_prefix(b":").is_some_and(|after| after.trim_ascii_start().starts_with(value))
    })
}
