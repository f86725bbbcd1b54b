//! Documents and their passages.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::base::Time;

/// The longest id, in bytes.
const MAX_ID_BYTES: usize = 128;

/// Names a document in its namespace: a name of the operator's own, as in `refund-policy`, or one that we made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DocumentId(Arc<str>);

/// A text that cannot name a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 128 letters, digits, `.`, `_`, `-` or `:` of ASCII, the first of them a letter or digit")]
pub struct DocumentIdError;

impl FromStr for DocumentId {
    type Err = DocumentIdError;

    /// Reads what is safe in a path, a log and a cursor.
    fn from_str(text: &str) -> Result<Self, DocumentIdError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b':');
        let starts = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !starts || text.len() > MAX_ID_BYTES || !text.bytes().all(fits) {
            return Err(DocumentIdError);
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for DocumentId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// How a document is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Paragraphs, parted by empty lines.
    #[default]
    Text,
    /// Markdown: headings, lists, tables and code are known as such.
    Markdown,
}

/// What is known of a document, beside its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Names it in its namespace.
    pub id: DocumentId,
    /// What it is cited by.
    pub title: String,
    /// How it is written.
    pub format: Format,
    /// Where it came from, as a URL or a path; nothing is ever fetched from there.
    #[serde(default)]
    pub source: Option<String>,
    /// Free labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// How often it was written: 1 when it is new.
    pub version: i64,
    /// When it was first written.
    pub created_at: Time,
    /// When it was last written.
    pub updated_at: Time,
    /// The length of its text, in characters.
    pub characters: usize,
    /// How many passages it was cut in.
    pub passages: usize,
}

/// A piece of a document that makes sense by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// Its place in the document, from 0.
    pub number: u32,
    /// The headings that it stands under, outermost first.
    pub headings: Vec<String>,
    /// Its words.
    pub text: String,
}

/// Names one passage as it was shown: of another version, it is another passage.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PassageRef {
    /// The document.
    pub document: DocumentId,
    /// Its version.
    pub version: i64,
    /// The passage's place in it.
    pub number: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_safe_wherever_it_stands() {
        for good in ["refund-policy", "doc_01h", "a", "v1.2:faq", &"x".repeat(128)] {
            assert_eq!(good.parse::<DocumentId>().map(|id| id.to_string()), Ok(good.to_owned()));
        }
        for bad in ["", ".", "../etc", "a/b", "a b", "政策", "-x", &"x".repeat(129), "a\n"] {
            assert!(bad.parse::<DocumentId>().is_err(), "{bad:?}");
        }
    }
}
