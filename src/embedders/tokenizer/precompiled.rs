//! SentencePiece's table of replacements (`precompiled_charsmap`): a double-array trie of what is replaced, as darts-clone lays it
//! out, and the texts that take its place.

/// The table.
pub(super) struct Precompiled {
    trie: Vec<u32>,
    /// The replacements, each ended by a zero byte.
    texts: String,
}

impl Precompiled {
    /// Reads the table from base 64, as tokenizer files have it.
    pub(super) fn parse(base64: &str) -> Result<Self, String> {
        let wrong = || "its precompiled_charsmap cannot be read".to_owned();
        let bytes = decode_base64(base64).ok_or_else(wrong)?;
        if bytes.is_empty() {
            return Ok(Self { trie: Vec::new(), texts: String::new() });
        }
        let (size, rest) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
        let size = u32::from_le_bytes(*size) as usize;
        let (trie, texts) = rest.split_at_checked(size).ok_or_else(wrong)?;
        let (units, _) = trie.as_chunks::<4>();
        let texts = String::from_utf8(texts.to_vec()).map_err(|_| wrong())?;
        Ok(Self { trie: units.iter().map(|unit| u32::from_le_bytes(*unit)).collect(), texts })
    }

    /// Replaces what the table knows, the longest piece first.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            match self.longest(rest) {
                // What ends within a character is no match for a text.
                Some((len, replacement)) if rest.is_char_boundary(len) => {
                    out.push_str(replacement);
                    rest = &rest[len..];
                }
                _ => {
                    out.push(c);
                    rest = &rest[c.len_utf8()..];
                }
            }
        }
        out
    }

    /// The longest entry with which `text` begins: its length in bytes, and what takes its place.
    fn longest(&self, text: &str) -> Option<(usize, &str)> {
        let mut found = None;
        let mut node = offset(*self.trie.first()?);
        for (at, byte) in text.bytes().enumerate() {
            node ^= usize::from(byte);
            let Some(unit) = self.trie.get(node).filter(|unit| label(**unit) == u32::from(byte)) else { break };
            node ^= offset(*unit);
            if has_leaf(*unit)
                && let Some(leaf) = self.trie.get(node)
            {
                found = Some((at + 1, value(*leaf)));
            }
        }
        let (len, start) = found?;
        let tail = self.texts.get(start..)?;
        Some((len, &tail[..tail.find('\0').unwrap_or(tail.len())]))
    }
}

fn has_leaf(unit: u32) -> bool {
    unit >> 8 & 1 == 1
}

fn value(unit: u32) -> usize {
    (unit & 0x7fff_ffff) as usize
}

/// With the bit of a leaf, so that a leaf is no label of a byte.
fn label(unit: u32) -> u32 {
    unit & (1 << 31 | 0xff)
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' | b'\n' | b'\r' => continue,
            _ => return None,
        };
        bits = bits << 6 | u32::from(digit);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_with_and_without_padding() {
        for text in ["AACAPw==", "AACAPw"] {
            assert_eq!(decode_base64(text).unwrap(), [0, 0, 128, 63]);
        }
        assert_eq!(decode_base64("a b"), None);
    }

    #[test]
    fn a_broken_table_is_an_error_or_replaces_nothing() {
        assert!(Precompiled::parse("****").is_err());
        // A length that is longer than what follows.
        assert!(Precompiled::parse("/////w==").is_err());
        assert_eq!(Precompiled::parse("").unwrap().apply("as it is"), "as it is");
        // One unit that leads out of the table.
        let wild = Precompiled { trie: vec![u32::MAX; 3], texts: String::new() };
        assert_eq!(wild.apply("as it is"), "as it is");
    }
}
