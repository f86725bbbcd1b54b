//! Typed ids: sortable by time, unguessable enough to print, distinct at compile time.
//!
//! An id is 128 bits: 48 bits of milliseconds since the epoch, then 80 random bits (the layout of
//! ULID). Its text is a prefix that names the kind and 26 characters of Crockford base 32.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::clock::Time;
use super::random::Random;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A text that is not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id of the form {prefix}_<26 characters>")]
pub struct ParseIdError {
    prefix: &'static str,
}

fn generate(now: Time, random: &dyn Random) -> u128 {
    let millis = u128::from(now.0.max(0).unsigned_abs() & 0xffff_ffff_ffff);
    let high = u128::from(random.next_u64() & 0xffff);
    let low = u128::from(random.next_u64());
    (millis << 80) | (high << 64) | low
}

fn encode(prefix: &str, id: u128, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0_u8; 26];
    let mut rest = id;
    for slot in text.iter_mut().rev() {
        *slot = ALPHABET[(rest & 31) as usize];
        rest >>= 5;
    }
    f.write_str(prefix)?;
    f.write_str("_")?;
    f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

fn decode(prefix: &'static str, text: &str) -> Result<u128, ParseIdError> {
    let error = ParseIdError { prefix };
    let digits = text.strip_prefix(prefix).and_then(|t| t.strip_prefix('_')).ok_or(error.clone())?;
    if digits.len() != 26 {
        return Err(error);
    }
    digits.bytes().try_fold(0_u128, |id, byte| {
        let digit = ALPHABET.iter().position(|&c| c == byte).ok_or(error.clone())?;
        // 26 digits carry 130 bits: the two highest must be zero.
        if id >> 123 != 0 {
            return Err(error.clone());
        }
        Ok((id << 5) | digit as u128)
    })
}

macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl $name {
            /// Makes a new id that sorts by `now`.
            #[must_use]
            pub fn generate(now: Time, random: &dyn Random) -> Self {
                Self(generate(now, random))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                encode($prefix, self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                decode($prefix, text).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

define_id!(
    /// Names one HTTP request (`x-request-id`).
    RequestId,
    "req"
);
define_id!(
    /// Names one accepted request and its reply (`x-backstory-exchange`).
    ExchangeId,
    "ex"
);
define_id!(
    /// Names one fact, through all the values it had.
    FactId,
    "fact"
);
define_id!(
    /// Names one episode.
    EpisodeId,
    "ep"
);
define_id!(
    /// Names one proposal and what became of it.
    ProposalId,
    "prop"
);
define_id!(
    /// Names one virtual key, through all the secrets it had; never the key itself.
    KeyId,
    "key"
);

#[cfg(test)]
mod tests {
    use super::super::random::SeededRandom;
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = FactId::generate(Time(1_700_000_000_000), &SeededRandom::new(7));
        let text = id.to_string();
        assert_eq!(text.len(), "fact_".len() + 26);
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(FactId(u128::MAX).to_string().parse(), Ok(FactId(u128::MAX)));
    }

    #[test]
    fn ids_sort_by_time() {
        let random = SeededRandom::new(1);
        let a = ExchangeId::generate(Time(1000), &random);
        let b = ExchangeId::generate(Time(1001), &random);
        assert!(a < b && a.to_string() < b.to_string());
    }

    #[test]
    fn an_id_of_another_kind_is_refused() {
        let id = FactId(42).to_string();
        assert!(id.parse::<EpisodeId>().is_err());
        for bad in ["", "fact_", "fact_zzzzzzzzzzzzzzzzzzzzzzzzzz", "fact_0000000000000000000000000u"] {
            assert!(bad.parse::<FactId>().is_err(), "{bad}");
        }
    }
}
