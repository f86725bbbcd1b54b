//! What the patterns of the vocabularies ask of a character, as one byte of flags.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// `\p{L}`.
pub(super) const LETTER: u8 = 1;
/// `\p{N}`.
pub(super) const NUMBER: u8 = 2;
/// `\s`.
pub(super) const SPACE: u8 = 4;
/// `[\r\n]`.
pub(super) const NEWLINE: u8 = 8;
/// `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`: what may begin a word of `o200k_base`.
pub(super) const UPPER: u8 = 16;
/// `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`: what may end one.
pub(super) const LOWER: u8 = 32;

/// The classes come from the parser that the reference's pattern goes through, so both know the same Unicode.
const CLASSES: [(&str, u8); 6] = [
    (r"\p{L}", LETTER),
    (r"\p{N}", NUMBER),
    (r"\s", SPACE),
    (r"[\r\n]", NEWLINE),
    (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", UPPER),
    (r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", LOWER),
];

const PAGE: usize = 256;
const PAGES: usize = 0x11_0000 / PAGE;

/// Flags of all characters: pages of 256, equal ones kept once.
#[derive(Debug)]
pub(super) struct Flags {
    page: Box<[u8]>,
    flags: Vec<[u8; PAGE]>,
}

static FLAGS: LazyLock<Flags> = LazyLock::new(Flags::build);

impl Flags {
    pub(super) fn get() -> &'static Self {
        &FLAGS
    }

    fn build() -> Self {
        let mut all = vec![0_u8; PAGES * PAGE];
        for (class, flag) in CLASSES {
            for (first, last) in ranges(class) {
                for flags in &mut all[first as usize..=last as usize] {
                    *flags |= flag;
                }
            }
        }
        let mut known: HashMap<&[u8], u8> = HashMap::new();
        let mut page = Vec::with_capacity(PAGES);
        let mut flags: Vec<[u8; PAGE]> = Vec::new();
        for content in all.chunks_exact(PAGE) {
            let number = *known.entry(content).or_insert_with(|| {
                flags.push(content.try_into().expect("chunks are pages"));
                u8::try_from(flags.len() - 1).expect("Unicode has some 130 different pages of these flags")
            });
            page.push(number);
        }
        Self { page: page.into(), flags }
    }

    /// Returns the flags of a character and its length in bytes; nothing at the end of the text.
    #[inline]
    pub(super) fn at(&self, text: &str, at: usize) -> Option<(u8, usize)> {
        let byte = *text.as_bytes().get(at)?;
        if byte < 0x80 {
            return Some((self.flags[0][byte as usize], 1));
        }
        let char = text[at..].chars().next()?;
        let code = char as usize;
        Some((self.flags[self.page[code / PAGE] as usize][code % PAGE], char.len_utf8()))
    }

    /// Returns where the run of characters with any of `wanted` ends that begins at `at`.
    #[inline]
    pub(super) fn run(&self, text: &str, mut at: usize, wanted: u8) -> usize {
        while let Some((flags, len)) = self.at(text, at)
            && flags & wanted != 0
        {
            at += len;
        }
        at
    }
}

/// The characters of a class, as ranges.
fn ranges(class: &str) -> Vec<(u32, u32)> {
    let hir = regex_syntax::parse(class).expect("the classes are constants");
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => class.iter().map(|r| (r.start() as u32, r.end() as u32)).collect(),
        _ => unreachable!("the classes are not ASCII only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_those_of_the_standard_library_where_it_has_them() {
        let flags = Flags::get();
        for char in '\0'..=char::MAX {
            let text = char.to_string();
            let (found, len) = flags.at(&text, 0).unwrap();
            assert_eq!(len, text.len());
            assert_eq!(found & SPACE != 0, char.is_whitespace(), "{char:?}");
            assert_eq!(found & NEWLINE != 0, matches!(char, '\r' | '\n'), "{char:?}");
            assert!(found & LETTER == 0 || found & (UPPER | LOWER) != 0, "{char:?}");
            assert!(found & (LETTER | UPPER | LOWER) == 0 || found & (NUMBER | SPACE) == 0, "{char:?}");
        }
    }
}
