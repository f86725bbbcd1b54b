//! What is done to a text before it is cut.

use serde_json::Value;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::characters::{CONTROLS, MARKS, is_ideograph};
use super::precompiled::Precompiled;
use super::unsupported;

/// One change.
pub(super) enum Normaliser {
    /// Controls out, white space to spaces.
    Clean,
    /// Spaces around ideographs.
    Ideographs,
    /// Letters taken apart, and their accents taken off.
    StripAccents,
    /// Marks that stand by themselves taken off.
    DropMarks,
    Lowercase,
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    /// Spaces at the ends taken off.
    Strip {
        left: bool,
        right: bool,
    },
    /// Two spaces and more to one.
    OneSpace,
    Replace {
        from: String,
        to: String,
    },
    /// SentencePiece's table of replacements.
    Precompiled(Precompiled),
}

/// Reads the `normalizer` of a tokenizer file.
pub(super) fn read(json: Option<&Value>) -> Result<Vec<Normaliser>, String> {
    let mut out = Vec::new();
    if let Some(json) = json {
        read_into(&mut out, json)?;
    }
    Ok(out)
}

fn read_into(out: &mut Vec<Normaliser>, json: &Value) -> Result<(), String> {
    let flag = |name: &str, default: bool| json[name].as_bool().unwrap_or(default);
    match json["type"].as_str() {
        Some("Sequence") => {
            for part in json["normalizers"].as_array().into_iter().flatten() {
                read_into(out, part)?;
            }
        }
        Some("BertNormalizer") => {
            let lowercase = flag("lowercase", true);
            let parts = [
                (flag("clean_text", true), Normaliser::Clean),
                (flag("handle_chinese_chars", true), Normaliser::Ideographs),
                // Where it is not said, models without case have no accents either.
                (flag("strip_accents", lowercase), Normaliser::StripAccents),
                (lowercase, Normaliser::Lowercase),
            ];
            out.extend(parts.into_iter().filter_map(|(wanted, part)| wanted.then_some(part)));
        }
        Some("Lowercase") => out.push(Normaliser::Lowercase),
        // On its own it takes no letter apart.
        Some("StripAccents") => out.push(Normaliser::DropMarks),
        Some("NFC") => out.push(Normaliser::Nfc),
        Some("NFD") => out.push(Normaliser::Nfd),
        Some("NFKC") => out.push(Normaliser::Nfkc),
        Some("NFKD") => out.push(Normaliser::Nfkd),
        Some("Strip") => {
            out.push(Normaliser::Strip { left: flag("strip_left", true), right: flag("strip_right", true) });
        }
        Some("Replace") => out.push(replace(json)?),
        Some("Precompiled") => {
            let map = json["precompiled_charsmap"].as_str().unwrap_or_default();
            out.push(Normaliser::Precompiled(Precompiled::parse(map)?));
        }
        other => {
            let known = "BertNormalizer, Precompiled, Replace, Lowercase, StripAccents, Strip, NFC, NFD, NFKC, NFKD and Sequence";
            return Err(unsupported("a normalizer", other, known));
        }
    }
    Ok(())
}

fn replace(json: &Value) -> Result<Normaliser, String> {
    let to = json["content"].as_str().unwrap_or_default();
    let pattern = &json["pattern"];
    match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(from), _) if !from.is_empty() => Ok(Normaliser::Replace { from: from.to_owned(), to: to.to_owned() }),
        // The one expression that conversions of SentencePiece models use.
        (_, Some(" {2,}")) if to == " " => Ok(Normaliser::OneSpace),
        _ => Err(format!("replaces the pattern {pattern}, which is not supported")),
    }
}

impl Normaliser {
    pub(super) fn apply(&self, text: &str) -> String {
        match self {
            Self::Clean => text.chars().filter_map(cleaned).collect(),
            Self::Ideographs => spaced(text),
            Self::StripAccents => text.nfd().filter(|c| !MARKS.has(*c)).collect(),
            Self::DropMarks => text.chars().filter(|c| !is_combining_mark(*c)).collect(),
            Self::Lowercase => text.chars().flat_map(char::to_lowercase).collect(),
            Self::Nfc => text.nfc().collect(),
            Self::Nfd => text.nfd().collect(),
            Self::Nfkc => text.nfkc().collect(),
            Self::Nfkd => text.nfkd().collect(),
            Self::Strip { left, right } => {
                let text = if *left { text.trim_start() } else { text };
                if *right { text.trim_end() } else { text }.to_owned()
            }
            Self::OneSpace => one_space(text),
            Self::Replace { from, to } => text.replace(from, to),
            Self::Precompiled(map) => map.apply(text),
        }
    }
}

fn cleaned(c: char) -> Option<char> {
    match c {
        '\t' | '\n' | '\r' => Some(' '),
        '\0' | '\u{fffd}' => None,
        c if CONTROLS.has(c) => None,
        c if c.is_whitespace() => Some(' '),
        c => Some(c),
    }
}

fn spaced(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_ideograph(c) {
            out.extend([' ', c, ' ']);
        } else {
            out.push(c);
        }
    }
    out
}

fn one_space(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != ' ' || !out.ends_with(' ') {
            out.push(c);
        }
    }
    out
}
