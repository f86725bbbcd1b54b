//! Parts a text into words, within which tokens are looked for.

use serde_json::Value;

use super::characters::PUNCTUATION;
use super::unsupported;

/// How a text is parted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// At white space, which is dropped.
    Whitespace,
    /// Before and after each punctuation mark.
    Punctuation,
    /// SentencePiece's way: a mark in place of each space, one before the text, and a word from each mark on.
    Metaspace { mark: String, prepend: Prepend },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prepend {
    Always,
    /// Before the text, but not before its later parts.
    First,
    Never,
}

/// Reads the `pre_tokenizer` of a tokenizer file.
pub(super) fn read(json: Option<&Value>) -> Result<Vec<Split>, String> {
    let mut out = Vec::new();
    if let Some(json) = json {
        read_into(&mut out, json)?;
    }
    Ok(out)
}

fn read_into(out: &mut Vec<Split>, json: &Value) -> Result<(), String> {
    match json["type"].as_str() {
        Some("Sequence") => {
            for part in json["pretokenizers"].as_array().into_iter().flatten() {
                read_into(out, part)?;
            }
        }
        Some("BertPreTokenizer") => out.extend([Split::Whitespace, Split::Punctuation]),
        Some("WhitespaceSplit") => out.push(Split::Whitespace),
        Some("Punctuation") if matches!(json["behavior"].as_str(), None | Some("Isolated")) => {
            out.push(Split::Punctuation);
        }
        Some("Metaspace") => {
            let mark = json["replacement"].as_str().unwrap_or("\u{2581}").to_owned();
            // Older files say `add_prefix_space` for the same.
            let prepend = match (json["prepend_scheme"].as_str(), json["add_prefix_space"].as_bool()) {
                (Some("never"), _) | (None, Some(false)) => Prepend::Never,
                (Some("first"), _) => Prepend::First,
                _ => Prepend::Always,
            };
            out.push(Split::Metaspace { mark, prepend });
        }
        other => {
            let known = "BertPreTokenizer, Metaspace, WhitespaceSplit, Punctuation and Sequence";
            return Err(unsupported("a pre_tokenizer", other, known));
        }
    }
    Ok(())
}

/// The words of a text.
pub(super) fn apply(splits: &[Split], text: &str) -> Vec<String> {
    let mut words = vec![text.to_owned()];
    for split in splits {
        words = words.iter().enumerate().flat_map(|(at, word)| split.part(word, at == 0)).collect();
    }
    words.retain(|word| !word.is_empty());
    words
}

impl Split {
    fn part(&self, word: &str, first: bool) -> Vec<String> {
        match self {
            Self::Whitespace => word.split_whitespace().map(str::to_owned).collect(),
            Self::Punctuation => isolated(word),
            Self::Metaspace { mark, prepend } => {
                let mut marked = word.replace(' ', mark);
                let wanted = *prepend == Prepend::Always || (*prepend == Prepend::First && first);
                if wanted && !marked.is_empty() && !marked.starts_with(mark.as_str()) {
                    marked.insert_str(0, mark);
                }
                from_each(&marked, mark)
            }
        }
    }
}

fn isolated(word: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, c) in word.char_indices() {
        if c.is_ascii_punctuation() || PUNCTUATION.has(c) {
            let end = at + c.len_utf8();
            out.extend([word[start..at].to_owned(), word[at..end].to_owned()]);
            start = end;
        }
    }
    out.push(word[start..].to_owned());
    out
}

/// Parts before each mark.
fn from_each(text: &str, mark: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(mark).filter(|(at, _)| *at > 0) {
        out.push(text[start..at].to_owned());
        start = at;
    }
    out.push(text[start..].to_owned());
    out
}
