//! The name of a span of some process, by which another one goes on with its trace.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The flag that says that the trace is kept.
const SAMPLED: u8 = 1;

/// One span of one trace, as `traceparent` of W3C Trace Context names it (<https://www.w3.org/TR/trace-context/>).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceParent {
    /// The trace; never 0.
    pub trace: u128,
    /// The span; never 0.
    pub span: u64,
    /// Whether the trace is kept.
    pub sampled: bool,
}

/// A text that is no `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent, as in 00-<32 hexadecimal digits>-<16>-<2>")]
pub struct ParseTraceParentError;

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

impl FromStr for TraceParent {
    type Err = ParseTraceParentError;

    fn from_str(text: &str) -> Result<Self, ParseTraceParentError> {
        parse(text).ok_or(ParseTraceParentError)
    }
}

fn parse(text: &str) -> Option<TraceParent> {
    let mut parts = text.trim_matches([' ', '\t']).split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // A later version may say more behind these; this one does not, and 255 is none.
    if version == "ff" || (version == "00" && parts.next().is_some()) {
        return None;
    }
    hex(version, 2)?;
    let (trace, span, flags) = (hex(trace, 32)?, hex(span, 16)?, hex(flags, 2)?);
    let parent =
        TraceParent { trace, span: u64::try_from(span).ok()?, sampled: u8::try_from(flags).ok()? & SAMPLED != 0 };
    (parent.trace != 0 && parent.span != 0).then_some(parent)
}

/// A number of exactly so many lower-case digits.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let fits = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    fits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn the_example_of_the_standard_is_read_and_written() {
        let parent: TraceParent = GOOD.parse().unwrap();
        assert_eq!(parent.to_string(), GOOD);
        assert_eq!((parent.trace, parent.span), (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331));
        let json = serde_json::to_string(&parent).unwrap();
        assert_eq!(json, format!("\"{GOOD}\""));
        assert_eq!(serde_json::from_str::<TraceParent>(&json).unwrap(), parent);
    }

    #[test]
    fn what_a_later_version_adds_is_passed_over() {
        let later = GOOD.replacen("00", "cc", 1) + "-what-the-future-brings";
        assert_eq!(later.parse::<TraceParent>().unwrap().to_string(), GOOD);
    }

    #[test]
    fn what_is_malformed_is_none() {
        for bad in [
            "",
            "00",
            "garbage",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(bad.parse::<TraceParent>(), Err(ParseTraceParentError), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_parent_comes_back_as_it_was(trace in 1_u128.., span in 1_u64.., sampled: bool) {
            let parent = TraceParent { trace, span, sampled };
            prop_assert_eq!(parent.to_string().parse(), Ok(parent));
        }

        #[test]
        fn no_text_is_more_than_it_can_take(text in ".{0,80}") {
            if let Ok(parent) = text.parse::<TraceParent>() {
                prop_assert!(parent.trace != 0 && parent.span != 0);
            }
        }
    }
}
