//! Which messages stand in the request already, and need not be told again.

/// The hashes of messages, cut to 64 bits: two messages of one conversation that share these do not happen.
#[derive(Clone, Debug, Default)]
pub struct Exclude(Vec<u64>);

impl Exclude {
    /// Leaves out episodes made of these messages; each hash is that of a whole message.
    pub fn of<'a>(hashes: impl IntoIterator<Item = &'a [u8; 32]>) -> Self {
        let mut keys: Vec<u64> =
            hashes.into_iter().filter_map(|hash| hash.first_chunk()).map(|&head| u64::from_be_bytes(head)).collect();
        keys.sort_unstable();
        Self(keys)
    }

    /// How a hash in hexadecimal digits is known here; `0`, which is never left out, for what is none.
    pub(super) fn key(hex: &str) -> u64 {
        hex.get(..16).and_then(|head| u64::from_str_radix(head, 16).ok()).unwrap_or(0)
    }

    pub(super) fn has(&self, key: u64) -> bool {
        key != 0 && self.0.binary_search(&key).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hex;

    #[test]
    fn a_message_is_known_by_the_hash_that_was_stored() {
        let (a, b) = ([0xab; 32], [0xcd; 32]);
        let exclude = Exclude::of([&a]);
        assert!(exclude.has(Exclude::key(&hex(&a))));
        assert!(!exclude.has(Exclude::key(&hex(&b))));
        for odd in ["", "ab", "not a hash at all", "数据数据数据数据"] {
            assert!(!exclude.has(Exclude::key(odd)));
        }
    }
}
